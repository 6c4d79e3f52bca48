"""Delivers what is due on one store: takes messages from the due queues, settles them in concurrent batches, acts on the answers.

One timer wakes it for the next due message. Failed messages are retried, and parked after a limit. The batches of one
queue leave in order over one connection. `round_pace` paces few messages, `burst_pace` a burst.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from math import ceil
from typing import NamedTuple

from gantry_chassis.logs.structured import get_logger
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.private_requests.settling import SettleItem, SettleReplyBody, SettleStatus
from scheduler.delivering.burst_pace import BurstPace
from scheduler.delivering.decisions import PARKED_OUTCOME, Then, deliver_all, judge, park
from scheduler.delivering.round_pace import AHEAD_SECONDS, Round, RoundPace
from scheduler.delivering.settler import Settler
from scheduler.index.due_index import DueIndex
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import Entry, queue_of
from scheduler.index.store_clock import StoreClock
from scheduler.metrics import SchedulerMetrics

AWAY_RETRY_MS = 300
AHEAD_MS = AHEAD_SECONDS * 1000
LOAD_SECONDS = 0.25
"""Interval between loads of far messages."""
FOREVER = float("inf")

_log = get_logger()


class Pace(NamedTuple):
    """How much is sent at once, and when an undeliverable message is parked."""

    batch_items: int = 512
    rounds_max: int = 8
    """See `round_pace`."""
    burst_per_second: float = 12_000.0
    """Applies when more is due than one batch holds; see `burst_pace`."""
    park_after_ms: int = 72 * 3_600_000


class Deliveries:
    """Sends the due messages of one store during one term."""

    def __init__(
        self,
        due_queues: DueQueues,
        settler: Settler,
        clock: StoreClock,
        metrics: SchedulerMetrics,
        pace: Pace,
    ) -> None:
        self._due_queues, self._settler, self._clock, self._metrics, self._pace = (
            due_queues,
            settler,
            clock,
            metrics,
            pace,
        )
        self._steady = due_queues.steady
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = FOREVER
        """Kept here because not every loop reports the time of a timer that is already due."""
        self._order = list(due_queues.due)
        self._tasks: set[asyncio.Task[None]] = set()
        self._rounds = RoundPace(pace.rounds_max)
        self._burst = BurstPace(pace.burst_per_second)
        self._broken: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        """Deliver until cancelled. Raises fatal errors of a delivery."""
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
        """Send what is due, load what is due soon, and set the timer for the next. Call it after arming anything."""
        if self._broken.done() or not self._clock.is_known:
            return
        may_begin = self._rounds.begin(self._steady(), self._next_due())
        for number in list(self._order):
            due_queue = self._due_queues.due[number]
            self._send_due(number, due_queue, may_begin=may_begin)
            load = due_queue.wants(self._due_queues.now_ms(number))
            if load is not None:
                self._start(self._due_queues.load(number, *load))
        self._set_timer()

    def _send_due(self, number: int, due_queue: DueIndex, *, may_begin: bool) -> None:
        """Send what is due in one due queue, as part of a round that may begin now, or as the next batch of a burst."""
        in_burst = number in self._burst.due_queues
        while self._burst.free_at() <= self._steady() if in_burst else may_begin:
            now_ms = self._due_queues.now_ms(number)
            batch = due_queue.take_due(now_ms if in_burst else now_ms + AHEAD_MS, self._pace.batch_items)
            is_full = len(batch) >= self._pace.batch_items
            self._burst.took(number, is_full=is_full)
            if is_full:  # due queues with a burst take turns
                self._order.remove(number)
                self._order.append(number)
            by_source: dict[int, list[Entry]] = {}
            for entry in batch:
                by_source.setdefault(entry.source, []).append(entry)
            in_burst = in_burst or is_full
            for source, entries in by_source.items():
                if in_burst:
                    self._burst.sent(self._steady(), len(entries))
                of = None if in_burst else self._rounds.sent()
                self._start(self._deliver(number, source, entries, of))
            if not is_full:
                return

    def _next_due(self, *, in_burst: bool = False) -> float:
        """Return when the next message is due, of the due queues with a burst or of the others; infinity when none is."""
        at, steady = FOREVER, self._steady()
        for number, due_queue in self._due_queues.due.items():
            next_ms = due_queue.next_ms if (number in self._burst.due_queues) is in_burst else None
            if next_ms is not None:
                at = min(at, steady + (next_ms - self._due_queues.now_ms(number)) / 1000)
        return at

    def _set_timer(self) -> None:
        steady = self._steady()
        at = self._rounds.opens_at(self._next_due())
        if self._burst.due_queues:
            at = min(at, max(self._next_due(in_burst=True), self._burst.free_at()))
        if any(due_queue.far_count for due_queue in self._due_queues.due.values()):
            at = min(at, steady + LOAD_SECONDS)
        timer = self._timer
        if timer is not None:
            if steady < self._timer_at <= at:
                return
            timer.cancel()
        # Loop timers have whole milliseconds. One that fires before the message is due would be set again and again.
        self._timer_at = at if at == FOREVER else ceil(max(at, steady) * 1000) / 1000
        self._timer = None if at == FOREVER else self._loop.call_at(self._timer_at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.wake()

    async def _deliver(self, due_queue: int, source: int, entries: Sequence[Entry], of: Round | None) -> None:
        """Settle what is due in one queue, as part of a round or of a burst."""
        try:
            due_queues = self._due_queues
            items = deliver_all(
                source, entries, due_queues.now_ms(due_queue), due_queues.behind_ms(due_queue)
            )
            reply = await self._settler.settle(queue_of(source), items)
            parked = self._judge_all(due_queue, entries, reply)
            if parked:
                await self._park(due_queue, source, parked)
        except (BrokerRefused, LinkError) as error:
            self._metrics.failures.labels("away").value += 1
            for entry in entries:  # answered messages are no longer in flight
                self._due_queues.put_back(due_queue, entry.key, AWAY_RETRY_MS, str(error))
        finally:
            if of is not None:
                self._rounds.answered(of)
            else:
                self._burst.answered(self._steady())

    def _judge_all(
        self, due_queue: int, entries: Sequence[Entry], reply: SettleReplyBody
    ) -> list[tuple[Entry, str]]:
        """Act on each result. Returns the messages to park, with their reasons."""
        due, now_ms, metrics = self._due_queues.due[due_queue], reply.store_time_ms, self._metrics
        parked: list[tuple[Entry, str]] = []
        settled, decided, observe = SettleStatus.SETTLED, due.decided, metrics.lateness.observe
        delivered = 0
        for entry, result in zip(entries, reply.results, strict=True):
            if result.status == settled:
                decided(entry.key)
                delivered += 1
                observe(max((result.time_ms or now_ms) - entry.due_ms, 0) / 1000)
                continue
            # The level may have been longer when the message was sent. Without a time in the message, the store knows
            # better.
            late_ms = self._due_queues.now_ms(due_queue) - max(entry.due_ms, result.due_ms)
            verdict = judge(result.status, result.detail, late_ms, self._pace.park_after_ms)
            if verdict.then is Then.DONE:
                due.decided(entry.key)
            elif verdict.then is Then.PARK:
                parked.append((entry, verdict.error))
            elif verdict.then is Then.GONE:
                due.decided(entry.key)
                _log.error(
                    "lost a delayed message: its record is gone", offset=entry.offset, topic=entry.topic
                )
                metrics.failures.labels(result.status).value += 1
            else:
                if result.status == SettleStatus.EARLY and result.due_ms <= entry.due_ms:
                    self._clock.was_early()
                self._later(due_queue, entry, result.status, verdict.wait_ms, verdict.error)
        metrics.delivered.value += delivered
        return parked

    def _later(self, due_queue: int, entry: Entry, status: str, wait_ms: int, error: str) -> None:
        self._metrics.failures.labels(status).value += 1
        self._due_queues.put_back(due_queue, entry.key, wait_ms, error)

    async def _park(self, due_queue: int, source: int, parked: Sequence[tuple[Entry, str]]) -> None:
        items: list[SettleItem] = [park(entry, why) for entry, why in parked]
        reply = await self._settler.settle(queue_of(source), items)
        for (entry, why), result in zip(parked, reply.results, strict=True):
            if result.status in (SettleStatus.SETTLED, SettleStatus.ALREADY):
                self._due_queues.due[due_queue].decided(entry.key)
                self._metrics.outcomes.labels(PARKED_OUTCOME).value += 1
                _log.warning("parked a message: its delivery failed for too long", topic=entry.topic, why=why)
            else:
                self._later(due_queue, entry, result.status, self._pace.park_after_ms // 100, result.detail)

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
