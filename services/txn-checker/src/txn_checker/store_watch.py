"""Watches one store while we hold its claim: finds undecided halves, checks or parks those that are due.

Polls the decided offsets often and reads only halves that stay undecided for a while. A store with ten thousand
transactions a second costs the checker next to nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from gantry_chassis.logs.structured import get_logger
from gantry_wire.errors import WireError
from gantry_wire.messages.properties import TRANSACTION_CHECK_TIMES
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from gantry_wire.private_requests.settling import SettleItem, SettleOutput, SettleResult, SettleStatus
from gantry_wire.private_requests.transactions import BEGUN_PROPERTY
from gantry_wire.records.half_message import OP_PROPERTIES, REPLACED_OP_PROPERTIES, op_body
from txn_checker.asking import question
from txn_checker.check_policy import Policy
from txn_checker.half_message import Event, Half, read_half
from txn_checker.ports import Asker, ClaimLost, Settled, Store, StoreFailed
from txn_checker.undecided import Undecided, gaps

BATCH = 256
ASKING_MAX = 64
MARGIN_POLLS = 2
"""Polls before its first due time at which a half is read."""
SILENT_OUTCOMES = frozenset({SettleStatus.SETTLED, SettleStatus.ALREADY, SettleStatus.REMOVED})
_POSITION_CHARS = 16

_log = get_logger()
NowMs = Callable[[], int]


class StoreWatch:
    """One store. `run` ends only when cancelled; `hold` and `release` report whether we hold the claim."""

    def __init__(
        self,
        store: Store,
        policy: Policy,
        asker: Asker,
        poll_seconds: float,
        due: Callable[[], None],
        monotonic_s: Callable[[], float],
    ) -> None:
        """Watch a store. `due` is called after a producer was asked, so that held HTTP requests look again.

        `monotonic_s` is the steady clock that extends the store's time between two of its answers.
        """
        self.store = store
        self.undecided = Undecided(policy)
        self.parked = 0
        self.checked = 0
        self.is_whole = False
        """Whether all halves undecided at the time of the claim are known."""
        self._policy, self._asker, self._poll_seconds, self._due = policy, asker, poll_seconds, due
        self._monotonic_s = monotonic_s
        self._epoch: int | None = None
        self._next = 0
        self._term = 0
        """Number of claims granted. A scan begun under an earlier claim is stale."""
        self._marks: deque[tuple[int, int]] = deque()
        self._store_ahead_ms = 0.0
        self._held = asyncio.Event()
        self._scanning = asyncio.Lock()
        self._asking = asyncio.Semaphore(ASKING_MAX)

    @property
    def is_held(self) -> bool:
        """Whether we hold the claim."""
        return self._epoch is not None

    def hold(self, epoch: int) -> None:
        """Begin: we hold the claim."""
        self._epoch, self._next = epoch, 0
        self._term += 1
        self._marks.clear()
        self.undecided.clear()
        self.is_whole = False
        self._held.set()

    def release(self) -> None:
        """Stop: another checker holds the claim."""
        self._epoch = None
        self._held.clear()
        self.undecided.clear()
        self.is_whole = False

    async def run(self, on_claim_lost: Callable[[str], None]) -> None:
        """Scan and act until cancelled; supervise it as a named loop.

        `on_claim_lost` is called with the reason when the store says we lost the claim.
        """
        while True:
            await self._held.wait()
            term, pause_s = self._term, None
            try:
                await self.turn()
            except ClaimLost as error:
                if (
                    term == self._term
                ):  # otherwise the error is about an earlier claim: another was granted meanwhile
                    on_claim_lost(str(error))
                    self.release()
            except (StoreFailed, WireError) as error:
                _log.debug("store not asked", broker=self.store.broker, reason=str(error))
                pause_s = self._poll_seconds  # what is due stays due: it would be asked without a pause
            await asyncio.sleep(self._pause_seconds() if pause_s is None else pause_s)

    async def turn(self) -> None:
        """Scan once, and do what is due. Raises StoreFailed."""
        await self.look()
        epoch = self._epoch
        if epoch is None:
            return
        await self._settle_stale(epoch)
        while True:
            work = self.undecided.due(self.now_ms(), BATCH)
            if not work.check and not work.give_up:
                return
            try:
                await self._give_up(epoch, work.give_up)
                await self._check(epoch, work.check)
            finally:
                self.undecided.give_back(work, self.now_ms())

    async def look(self, *, all_of_it: bool = False) -> Settled:
        """Read the decided offsets and the halves that stay undecided; with `all_of_it`, the youngest too."""
        async with self._scanning:
            term = self._term
            state = await self.store.settled(HALF_TOPIC)
            if term != self._term:
                return state
            self._store_ahead_ms = state.store_time_ms - self._monotonic_s() * 1000
            self.undecided.settled(state.cursor, state.ranges)
            end = self._end_of_old(state, all_of_it=all_of_it or not self.is_whole)
            reached = end
            for first, last in gaps(self._next, end, state.cursor, state.ranges):
                reached = await self._read(first, last)
                if term != self._term:
                    return state
                if reached < last:
                    break
                reached = end
            if reached >= state.max_offset:
                self.undecided.settled(state.cursor, state.ranges, is_all_seen=True)
            self._next = max(self._next, reached)
            self.is_whole = self.is_held and reached >= end
            return state

    def now_ms(self) -> int:
        """Return the store's time: its last answer, plus the steady time since."""
        return int(self._monotonic_s() * 1000 + self._store_ahead_ms)

    def _end_of_old(self, state: Settled, *, all_of_it: bool) -> int:
        """Return the offset below which halves are near their first check."""
        if all_of_it:
            return state.max_offset
        self._marks.append((state.store_time_ms, state.max_offset))
        margin_ms = int(self._poll_seconds * 1000 * MARGIN_POLLS)
        oldest_ms = state.store_time_ms - max(self._policy.timeout_ms - margin_ms, 0)
        end = self._next
        while self._marks and self._marks[0][0] <= oldest_ms:
            end = self._marks.popleft()[1]
        return end

    async def _read(self, first: int, end: int) -> int:
        """Return the offset reached. The store may not show all yet; the next turn continues there."""
        while first < end:
            records, following = await self.store.read(HALF_TOPIC, first, end - first)
            for record in records:
                if record.queue_offset < end:
                    self.undecided.seen(read_half(record))
            if following <= first:
                break
            first = following
        return min(first, end)

    async def _check(self, epoch: int, halves: Sequence[Half]) -> None:
        """Write the next copy of each half, which counts the check, then have the producers asked about it."""
        results = await self._settle(epoch, halves, _copy_of)
        now_ms, copies = self.now_ms(), list[Half]()
        for half, result in zip(halves, results, strict=True):
            if result.status == SettleStatus.SETTLED and result.outputs:
                place = result.outputs[0]
                message_id = f"{half.message_id[:-_POSITION_CHARS]}{place.position:0{_POSITION_CHARS}X}"
                copy = self.undecided.copied(half, place.queue_offset, place.position, message_id, now_ms)
                copies += [copy] if copy is not None else []
            else:
                self._not_done(half, result)
        self.checked += len(copies)
        if copies:
            self._due()
        await asyncio.gather(*(self._ask(copy) for copy in copies))

    async def _ask(self, half: Half) -> None:
        async with self._asking:
            await self._asker.ask(self.store, half.group, question(half, self.store))

    async def _give_up(self, epoch: int, halves: Sequence[Half]) -> None:
        results = await self._settle(epoch, halves, _parked)
        for half, result in zip(halves, results, strict=True):
            if result.status == SettleStatus.SETTLED:
                self.parked += 1
                self.undecided.apply(half, Event.PARKED)
                _log.warning(
                    "parked a transaction: decide it by hand",
                    broker=self.store.broker, transaction=half.key, group=half.group, checks=half.checks,
                )  # fmt: skip
            else:
                self._not_done(half, result)

    async def _settle_stale(self, epoch: int) -> None:
        """Settle older copies without a message. Copies the store did not settle stay for the next turn."""
        stale = list(self.undecided.stale)
        for at in range(0, len(stale), BATCH):
            part = stale[at : at + BATCH]
            items = [
                SettleItem(half.offset, half.position, [_op(half, OP_PROPERTIES)], "superseded")
                for half in part
            ]
            results = await self.store.settle(HALF_TOPIC, epoch, items)
            done = [
                half for half, result in zip(part, results, strict=True) if result.status in SILENT_OUTCOMES
            ]
            self.undecided.forget_stale(done)

    async def _settle(
        self, epoch: int, halves: Sequence[Half], output: Callable[[Half], tuple[SettleOutput, str]]
    ) -> list[SettleResult]:
        if not halves:
            return []
        items = [
            SettleItem(half.offset, half.position, [made[0], _op(half, REPLACED_OP_PROPERTIES)], made[1])
            for half, made in zip(halves, map(output, halves), strict=True)
        ]
        return await self.store.settle(HALF_TOPIC, epoch, items)

    def _not_done(self, half: Half, result: SettleResult) -> None:
        if result.status in SILENT_OUTCOMES:
            self.undecided.apply(half, Event.DECIDED)
        else:  # released at the end of the turn
            _log.warning("half not written", transaction=half.key, status=result.status, detail=result.detail)

    def _pause_seconds(self) -> float:
        due_ms = self.undecided.next_due_ms
        if due_ms is None:
            return self._poll_seconds
        return min(max((due_ms - self.now_ms()) / 1000, 0.01), self._poll_seconds)


def _copy_of(half: Half) -> tuple[SettleOutput, str]:
    put = {TRANSACTION_CHECK_TIMES: str(half.checks + 1), BEGUN_PROPERTY: str(half.begun_ms)}
    return SettleOutput(HALF_TOPIC, 0, set=put), "checked"


def _parked(half: Half) -> tuple[SettleOutput, str]:
    put = {TRANSACTION_CHECK_TIMES: str(half.checks), BEGUN_PROPERTY: str(half.begun_ms)}
    return SettleOutput(TRANS_CHECK_MAX_TIME_TOPIC, 0, set=put), "parked"


def _op(half: Half, properties: dict[str, str]) -> SettleOutput:
    """Return the op message that marks this copy as done for RocketMQ's own broker, should it open these files."""
    body = op_body(half.offset)
    return SettleOutput(OP_HALF_TOPIC, 0, body=None, body_base64=body, set=properties, properties="none")
