"""What the checker answers: open transactions and given up ones (9020), and what a producer group has to decide (9022)."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from gantry_wire.limits import FRAME_BYTES_MAX, RECORD_BYTES_MAX
from gantry_wire.names import TRANS_CHECK_MAX_TIME_TOPIC
from gantry_wire.transaction_bodies import (
    CHECKS_MAX,
    PAGE_MAX,
    ChecksPage,
    ListTransactions,
    PendingCheck,
    ReceiveChecks,
    TransactionsPage,
    TransactionState,
    TransactionView,
)
from txn_checker.half_message import Half, read_half
from txn_checker.ports import StoreFailed
from txn_checker.store_watch import StoreWatch
from txn_checker.undecided import gaps

HOLD_SECONDS_MAX = 30.0
AGAIN_SECONDS = 1.0
"""A check that was just handed out ends no other held request for so long: who polls while he decides would spin."""
HANDED_MAX = 10_000
"""As many hand-outs are remembered; then those are forgotten that count no more."""
RECORDS_BYTES_MAX = FRAME_BYTES_MAX // 2
"""What the records of one answer may have together: as base64 they are a third longer, and must fit into one frame."""

assert RECORDS_BYTES_MAX >= RECORD_BYTES_MAX


class Answers:
    """Answers for every store whose claim is ours."""

    def __init__(self, watches: Callable[[], Iterable[StoreWatch]]) -> None:
        self._watches = watches
        self._news = asyncio.Event()
        self._is_stopping = False
        self._handed_s: dict[str, float] = {}
        """Loop time of the last hand-out, by the key of the transaction."""

    def news(self) -> None:
        """Wake who waits for a check: a half was asked about."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def stop(self) -> None:
        """Hold nobody any longer."""
        self._is_stopping = True
        self.news()

    async def transactions(self, ask: ListTransactions) -> TransactionsPage:
        """9020."""
        page = TransactionsPage()
        found: list[TransactionView] = []
        for watch in self._held(ask.broker):
            page.brokers.append(watch.store.broker)
            try:
                found += await _of_store(watch, ask)
            except StoreFailed:
                page.incomplete.append(watch.store.broker)
        found.sort(key=lambda view: (view.begun_ms, view.key))
        limit = min(max(ask.limit, 1), PAGE_MAX)
        page.transactions, page.truncated = found[:limit], len(found) > limit
        return page

    async def receive_checks(self, ask: ReceiveChecks) -> ChecksPage:
        """9022: held until something is to be decided, or its time is over."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + min(max(ask.wait_ms / 1000, 0.0), HOLD_SECONDS_MAX)
        while True:
            news = self._news
            page = await self._checks(ask)
            now_s = loop.time()
            again_s = min([self._handed_s.get(check.key, 0.0) for check in page.checks], default=end_s)
            until_s = min(end_s, again_s + AGAIN_SECONDS)
            if until_s <= now_s or self._is_stopping:
                self._note(page, now_s)
                return page
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(until_s - now_s):
                    await news.wait()

    def _note(self, page: ChecksPage, now_s: float) -> None:
        if len(self._handed_s) > HANDED_MAX:
            self._handed_s = {
                key: at_s for key, at_s in self._handed_s.items() if at_s + AGAIN_SECONDS > now_s
            }
        self._handed_s.update((check.key, now_s) for check in page.checks)

    async def _checks(self, ask: ReceiveChecks) -> ChecksPage:
        """Return what is to be decided, as much of it as one answer holds: the rest is listed once this is decided."""
        page = ChecksPage()
        count_max = min(max(ask.max, 1), CHECKS_MAX)
        bytes_left = RECORDS_BYTES_MAX
        for watch in self._held(None):
            page.brokers.append(watch.store.broker)
            if watch.undecided.asked(ask.producer_group):
                with contextlib.suppress(StoreFailed):
                    await watch.look()  # what was decided just now is listed no more
            for half in watch.undecided.asked(ask.producer_group)[: count_max - len(page.checks)]:
                try:
                    record = await watch.store.record_at(half.position)
                except StoreFailed:
                    break  # that store is away: its checks are listed when it is back
                bytes_left -= len(record) + len(half.key)
                if bytes_left < 0:
                    return page
                check = PendingCheck(
                    key=half.key, broker=watch.store.broker, attempt=half.checks, record=record
                )
                page.checks.append(check)
        return page

    def _held(self, broker: str | None) -> list[StoreWatch]:
        return [watch for watch in self._watches() if watch.is_held and broker in (None, watch.store.broker)]


async def _of_store(watch: StoreWatch, ask: ListTransactions) -> list[TransactionView]:
    views: list[TransactionView] = []
    if ask.state in (None, "open"):
        await watch.look(all_of_it=True)
        views += [_view(watch, "open", half, due_ms) for half, due_ms in watch.undecided.all()]
    if ask.state in (None, "parked"):
        views += [_view(watch, "parked", half, None) for half in await parked(watch)]
    return [
        view
        for view in views
        if ask.topic in (None, view.topic) and ask.producer_group in (None, view.producer_group)
    ]


async def parked(watch: StoreWatch) -> list[Half]:
    """Return the newest halves that were given up and nobody has decided yet. Raises StoreFailed."""
    state = await watch.store.settled(TRANS_CHECK_MAX_TIME_TOPIC)
    halves: list[Half] = []
    for first, end in reversed(gaps(0, state.max_offset, state.cursor, state.ranges)):
        at = max(first, end - PAGE_MAX)
        while at < end:
            records, following = await watch.store.read(TRANS_CHECK_MAX_TIME_TOPIC, at, end - at)
            halves += [read_half(record) for record in records if record.queue_offset < end]
            if following <= at:
                break
            at = following
        if len(halves) >= PAGE_MAX:
            break
    return halves


def _view(watch: StoreWatch, state: TransactionState, half: Half, due_ms: int | None) -> TransactionView:
    return TransactionView(
        key=half.key,
        broker=watch.store.broker,
        state=state,
        topic=half.topic,
        queue_id=half.queue_id,
        producer_group=half.group,
        begun_ms=half.begun_ms,
        checks=half.checks,
        offset=half.offset,
        position=half.position,
        next_check_ms=due_ms,
    )
