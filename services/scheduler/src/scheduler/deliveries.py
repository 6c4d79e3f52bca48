"""Delivers what is due on one store: takes it from the lanes, settles it in batches, several at once, acts on the answers.

Wakes by one timer for the next message due. What fails waits and is tried again; what fails for too long is parked. The
batches of one queue leave in order over one connection. How few are paced says `round_pace`, how a burst, `burst_pace`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from math import ceil
from time import monotonic
from typing import NamedTuple

from gantry_chassis.logs import get_logger
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.settle_headers import SettleItem, SettleReplyBody, SettleStatus
from scheduler.burst_pace import BurstPace
from scheduler.decisions import PARKED_OUTCOME, Then, deliver_all, judge, park
from scheduler.due_index import DueIndex
from scheduler.entries import Entry, queue_of
from scheduler.figures import Figures
from scheduler.lanes import Lanes
from scheduler.round_pace import AHEAD_SECONDS, Round, RoundPace
from scheduler.settler import Settler
from scheduler.store_clock import StoreClock

AWAY_RETRY_MS = 300
AHEAD_MS = AHEAD_SECONDS * 1000
LOAD_SECONDS = 0.25
"""How often far messages are looked at while there are some."""
FOREVER = float("inf")

_log = get_logger()


class Pace(NamedTuple):
    """How much is sent at once, and when what cannot be delivered is set aside."""

    batch_items: int = 512
    rounds_max: int = 8
    """See `round_pace`."""
    burst_per_second: float = 12_000.0
    """When more is due than one batch holds: see `burst_pace`."""
    park_after_ms: int = 72 * 3_600_000


class Deliveries:
    """Sends the due messages of one store during one term."""

    def __init__(
        self, lanes: Lanes, settler: Settler, clock: StoreClock, figures: Figures, pace: Pace
    ) -> None:
        self._lanes, self._settler, self._clock, self._figures, self._pace = (
            lanes,
            settler,
            clock,
            figures,
            pace,
        )
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = FOREVER
        """Kept here: a timer that is due at once does not know its time in every loop."""
        self._order = list(lanes.due)
        self._tasks: set[asyncio.Task[None]] = set()
        self._rounds = RoundPace(pace.rounds_max)
        self._burst = BurstPace(pace.burst_per_second)
        self._broken: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        """Deliver until cancelled; raises what a delivery could not survive."""
        try:
            self.wake()
            await self._broken
        finally:
            self._broken.cancel()
            if self._timer is not None:
                self._timer.cancel()
            for task in self._tasks:
                task.cancel()

    def wake(self) -> None:
        """Send what is due, fetch what soon will be, and set the timer for the next. Called after anything was armed."""
        if self._broken.done() or not self._clock.is_known:
            return
        may_begin = self._rounds.begin(monotonic(), self._next_due())
        for number in list(self._order):
            lane = self._lanes.due[number]
            self._send_due(number, lane, may_begin=may_begin)
            load = lane.wants(self._lanes.now_ms(number))
            if load is not None:
                self._start(self._lanes.load(number, *load))
        self._set_timer()

    def _send_due(self, number: int, lane: DueIndex, *, may_begin: bool) -> None:
        """Send what is due in a lane, as one of the round that may begin now, or as the next of a burst."""
        in_burst = number in self._burst.lanes
        while self._burst.free_at() <= monotonic() if in_burst else may_begin:
            now_ms = self._lanes.now_ms(number)
            batch = lane.take_due(now_ms if in_burst else now_ms + AHEAD_MS, self._pace.batch_items)
            is_full = len(batch) >= self._pace.batch_items
            self._burst.took(number, is_full=is_full)
            if is_full:  # of two lanes with a burst each has its turn
                self._order.remove(number)
                self._order.append(number)
            by_source: dict[int, list[Entry]] = {}
            for entry in batch:
                by_source.setdefault(entry.source, []).append(entry)
            in_burst = in_burst or is_full
            for source, entries in by_source.items():
                if in_burst:
                    self._burst.sent(monotonic(), len(entries))
                of = None if in_burst else self._rounds.sent()
                self._start(self._deliver(number, source, entries, of))
            if not is_full:
                return

    def _next_due(self, *, in_burst: bool = False) -> float:
        """Return when the next message is due of the lanes with a burst, or of the others; infinity when there is none."""
        at, steady = FOREVER, monotonic()
        for number, lane in self._lanes.due.items():
            next_ms = lane.next_ms if (number in self._burst.lanes) is in_burst else None
            if next_ms is not None:
                at = min(at, steady + (next_ms - self._lanes.now_ms(number)) / 1000)
        return at

    def _set_timer(self) -> None:
        steady = monotonic()
        at = self._rounds.opens_at(self._next_due())
        if self._burst.lanes:
            at = min(at, max(self._next_due(in_burst=True), self._burst.free_at()))
        if any(lane.far_count for lane in self._lanes.due.values()):
            at = min(at, steady + LOAD_SECONDS)
        timer = self._timer
        if timer is not None:
            if steady < self._timer_at <= at:
                return
            timer.cancel()
        # a loop's timers know whole milliseconds: one that is over before the message is due would be set again and again
        self._timer_at = at if at == FOREVER else ceil(max(at, steady) * 1000) / 1000
        self._timer = None if at == FOREVER else self._loop.call_at(self._timer_at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.wake()

    async def _deliver(self, lane: int, source: int, entries: Sequence[Entry], of: Round | None) -> None:
        """Settle what is due in one queue, as a part of a round, or of a burst."""
        try:
            lanes = self._lanes
            items = deliver_all(source, entries, lanes.now_ms(lane), lanes.behind_ms(lane))
            reply = await self._settler.settle(queue_of(source), items)
            parked = self._judge_all(lane, entries, reply)
            if parked:
                await self._park(lane, source, parked)
        except (BrokerRefused, LinkError) as error:
            self._figures.failures.labels("away").value += 1
            for entry in entries:  # those that were answered already are in flight no more
                self._lanes.put_back(lane, entry.key, AWAY_RETRY_MS, str(error))
        finally:
            if of is not None:
                self._rounds.answered(of)
            else:
                self._burst.answered(monotonic())

    def _judge_all(
        self, lane: int, entries: Sequence[Entry], reply: SettleReplyBody
    ) -> list[tuple[Entry, str]]:
        """Act on each result; return what is to be parked, with the reasons."""
        due, now_ms, figures = self._lanes.due[lane], reply.store_time_ms, self._figures
        parked: list[tuple[Entry, str]] = []
        settled, decided, observe = SettleStatus.SETTLED, due.decided, figures.lateness.observe
        delivered = 0
        for entry, result in zip(entries, reply.results, strict=True):
            if result.status == settled:
                decided(entry.key)
                delivered += 1
                observe(max((result.time_ms or now_ms) - entry.due_ms, 0) / 1000)
                continue
            # of a message whose level was longer when it was sent, and does not say so, the store knows better when it is due
            late_ms = self._lanes.now_ms(lane) - max(entry.due_ms, result.due_ms)
            verdict = judge(result.status, result.detail, late_ms, self._pace.park_after_ms)
            if verdict.then is Then.DONE:
                due.decided(entry.key)
            elif verdict.then is Then.PARK:
                parked.append((entry, verdict.error))
            elif verdict.then is Then.GONE:
                due.decided(entry.key)
                _log.error(
                    "a delayed message is lost: its record is gone", offset=entry.offset, topic=entry.topic
                )
                figures.failures.labels(result.status).value += 1
            else:
                if result.status == SettleStatus.EARLY and result.due_ms <= entry.due_ms:
                    self._clock.was_early()
                self._later(lane, entry, result.status, verdict.wait_ms, verdict.error)
        figures.delivered.value += delivered
        return parked

    def _later(self, lane: int, entry: Entry, status: str, wait_ms: int, error: str) -> None:
        self._figures.failures.labels(status).value += 1
        self._lanes.put_back(lane, entry.key, wait_ms, error)

    async def _park(self, lane: int, source: int, parked: Sequence[tuple[Entry, str]]) -> None:
        items: list[SettleItem] = [park(entry, why) for entry, why in parked]
        reply = await self._settler.settle(queue_of(source), items)
        for (entry, why), result in zip(parked, reply.results, strict=True):
            if result.status in (SettleStatus.SETTLED, SettleStatus.ALREADY):
                self._lanes.due[lane].decided(entry.key)
                self._figures.outcomes.labels(PARKED_OUTCOME).value += 1
                _log.warning("parked: could not be delivered for too long", topic=entry.topic, why=why)
            else:
                self._later(lane, entry, result.status, self._pace.park_after_ms // 100, result.detail)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._broken.done() or task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._broken.set_exception(error)
        else:
            self.wake()
