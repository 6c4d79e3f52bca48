"""Answers requests: open and parked transactions (9020), and the checks a producer group must decide (9022)."""

import asyncio
import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gantry_wire.limits import FRAME_BYTES_MAX, RECORD_BYTES_MAX
from gantry_wire.names import TRANS_CHECK_MAX_TIME_TOPIC
from gantry_wire.private_requests.transactions import (
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
from txn_checker.ports import Store, StoreFailed
from txn_checker.store_watch import StoreWatch
from txn_checker.undecided import gaps

HOLD_SECONDS_MAX = 30.0
AGAIN_SECONDS = 1.0
"""A delivered check ends no other held request within this time: a client that polls while it decides would spin."""
HANDED_MAX = 10_000
"""Number of deliveries kept before expired ones are dropped."""
GROUPS_MAX = 10_000
"""Producer groups whose last position is kept. The least recently used one starts at its oldest half again."""
TAKEN_MAX = 100_000
"""Checks that are known as taken. The oldest is forgotten: it may be passed to a second producer before its next check."""
TOPICS_MAX = 256
"""Topics in one answer about which the caller is to find out whether it may decide them."""
RECORDS_BYTES_MAX = FRAME_BYTES_MAX // 2
"""Total bytes of the records in an answer. Base64 adds a third, and the answer must fit into one frame."""

assert RECORDS_BYTES_MAX >= RECORD_BYTES_MAX

_Place = tuple[int, str, str]
"""Begin, broker and key: the order in which a group's halves are delivered."""
_FIRST: _Place = (-1, "", "")
_Turns = tuple[str, tuple[str, ...] | None]
"""A producer group, and the topics that a caller may decide: who may decide others does not take their turns."""


class _Waiting(NamedTuple):
    half: Half
    store: Store


def _place(waiting: _Waiting) -> _Place:
    return waiting.half.begun_ms, waiting.store.broker, waiting.half.key


def _turns(ask: ReceiveChecks) -> _Turns:
    return ask.producer_group, None if ask.topics is None else tuple(sorted(ask.topics))


def _allowed(waiting: list[_Waiting], ask: ReceiveChecks, page: ChecksPage) -> list[_Waiting]:
    """Return the halves that the caller may decide. Adds the topics of others that it has to look up to `page`."""
    if ask.topics is None:
        return waiting
    allowed = set(ask.topics)
    unknown = {one.half.topic for one in waiting} - allowed - set(ask.refused)
    page.undecided_topics = sorted(unknown)[:TOPICS_MAX]
    return [one for one in waiting if one.half.topic in allowed]


class Answers:
    """Answers for every store whose claim we hold."""

    def __init__(self, watches: Callable[[], Iterable[StoreWatch]]) -> None:
        self._watches = watches
        self._news = asyncio.Event()
        self._is_stopping = False
        self._handed_s: dict[str, float] = {}
        """Loop time of the last delivery, by transaction key."""
        self._taken: dict[tuple[str, str, str], int] = {}
        """Number of the last check that a caller passed to a producer, by group, broker and transaction key."""
        self._last: dict[_Turns, _Place] = {}
        """The last half delivered, by group and topics. The next answer continues after it, so that every half gets a turn."""

    def news(self) -> None:
        """Wake requests that wait for a check: a producer was asked about a half."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def stop(self) -> None:
        """End all held requests."""
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
        """9022: held until a check is due, its time is over, or a topic waits that the caller has to look up. That one changes no turn."""
        self._take(ask)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + min(max(ask.wait_ms / 1000, 0.0), HOLD_SECONDS_MAX)
        while True:
            news = self._news
            page, last = await self._checks(ask)
            if page.undecided_topics and not page.checks:
                return page
            now_s = loop.time()
            again_s = min([self._handed_s.get(check.key, 0.0) for check in page.checks], default=end_s)
            until_s = min(end_s, again_s + AGAIN_SECONDS)
            if until_s <= now_s or self._is_stopping:
                self._note(page, now_s)
                self._go_on_behind(_turns(ask), last)
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

    def _take(self, ask: ReceiveChecks) -> None:
        for one in ask.taken or ():
            which = ask.producer_group, one.broker, one.key
            self._taken.pop(which, None)
            self._taken[which] = one.attempt
            if len(self._taken) > TAKEN_MAX:
                del self._taken[next(iter(self._taken))]

    def _is_untaken(self, one: _Waiting) -> bool:
        return self._taken.get((one.half.group, one.store.broker, one.half.key)) != one.half.checks

    def _go_on_behind(self, turns: _Turns, last: _Place) -> None:
        self._last.pop(turns, None)
        if last != _FIRST:
            self._last[turns] = last
        if len(self._last) > GROUPS_MAX:
            del self._last[next(iter(self._last))]

    async def _checks(self, ask: ReceiveChecks) -> tuple[ChecksPage, _Place]:
        """Return the checks to decide after the last delivered half, as many as one answer holds, and the last one."""
        page, last = ChecksPage(), _FIRST
        waiting = _allowed(await self._waiting(ask.producer_group, page), ask, page)
        if ask.taken is not None:
            waiting = list(filter(self._is_untaken, waiting))
        start = bisect_right(waiting, self._last.get(_turns(ask), _FIRST), key=_place)
        count_max = min(max(ask.max, 1), CHECKS_MAX)
        bytes_left = RECORDS_BYTES_MAX
        away: set[str] = set()
        for half, store in waiting[start:] + waiting[:start]:
            if store.broker in away:
                continue
            try:
                record = await store.record_at(half.position)
            except StoreFailed:
                away.add(store.broker)  # its checks are listed when it returns
                continue
            bytes_left -= len(record) + len(half.key)
            if bytes_left < 0:
                break
            page.checks.append(
                PendingCheck(key=half.key, broker=store.broker, attempt=half.checks, record=record)
            )
            last = half.begun_ms, store.broker, half.key
            if len(page.checks) == count_max:
                break
        return page, last

    async def _waiting(self, group: str, page: ChecksPage) -> list[_Waiting]:
        """Return the asked halves of a group, the oldest first. Adds the brokers queried to `page`."""
        waiting: list[_Waiting] = []
        for watch in self._held(None):
            page.brokers.append(watch.store.broker)
            if watch.undecided.asked(group):
                with contextlib.suppress(StoreFailed):
                    await watch.look()  # removes transactions decided since
            waiting += [_Waiting(half, watch.store) for half in watch.undecided.asked(group)]
        return sorted(waiting, key=_place)

    def _held(self, broker: str | None) -> list[StoreWatch]:
        return [watch for watch in self._watches() if watch.is_held and broker in (None, watch.store.broker)]


async def _of_store(watch: StoreWatch, ask: ListTransactions) -> list[TransactionView]:
    views: list[TransactionView] = []
    if ask.state in (None, "open"):
        await watch.look(all_of_it=True)
        if not watch.is_whole:
            raise StoreFailed("the claim was lost during the look, or the store does not show all halves yet")
        views += [_view(watch, "open", half, due_ms) for half, due_ms in watch.undecided.all()]
    if ask.state in (None, "parked"):
        views += [_view(watch, "parked", half, None) for half in await parked(watch)]
    return [
        view
        for view in views
        if ask.topic in (None, view.topic) and ask.producer_group in (None, view.producer_group)
    ]


async def parked(watch: StoreWatch) -> list[Half]:
    """Return the newest parked halves that are still undecided. Raises StoreFailed."""
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
