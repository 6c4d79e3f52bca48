"""A running push consumer: connects pulls, listener, offsets, rebalancing and returns, and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gantry_link.clients.store import StoreClient
from gantrymq.connection.instance import ClientInstance
from gantrymq.consumer.push.calls import Call, Calling
from gantrymq.consumer.push.concurrent import ConcurrentConsumer
from gantrymq.consumer.push.listeners import Listener
from gantrymq.consumer.push.orderly import OrderlyConsumer
from gantrymq.consumer.retrying.failures import FailureLog, next_delivery
from gantrymq.consumer.retrying.outcomes import DEAD_LETTER_LEVEL, Outcome, attempts_max_of, split
from gantrymq.consumer.retrying.returning import Failed, Returning
from gantrymq.consumer.shared.assigned_queues import LOCK_RENEW_SECONDS, LOCK_RETRY_SECONDS, AssignedQueues
from gantrymq.consumer.shared.flow import FlowLimits
from gantrymq.consumer.shared.locking import Locks
from gantrymq.consumer.shared.offsets import BrokerOffsets, FileOffsets, OffsetStore
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.consumer.shared.pulling import Pipeline
from gantrymq.consumer.shared.rebalancing import Rebalancer
from gantrymq.consumer.shared.repeating import repeat
from gantrymq.consumer.shared.settings import ConsumerSettings, offsets_path
from gantrymq.consumer.shared.statistics import SAMPLE_SECONDS, ConsumerStatistics
from gantrymq.consumer.subscriptions.subscription import Subscription
from gantrymq.hooks import ConsumeHook, MessageFilter
from gantrymq.machine import Machine
from gantrymq.message import ReceivedMessage
from gantrymq.settings import DEFAULT_INSTANCE

log: logging.Logger = logging.getLogger("gantrymq")

EXPIRED_LEVEL = 3
"""Delay level (10 s) of messages whose call took too long (ProcessQueue.cleanExpiredMsg)."""
EXPIRY_LOOKS = 10
"""A call that takes too long is detected at most a tenth of the timeout late."""
STOP_LOOK_SECONDS = 0.005
LAST_REBALANCE_SECONDS = 1.0
"""The longest wait for a rebalance in progress when the consumer is closed."""


@dataclass(slots=True, frozen=True)
class Plan:
    """The configuration of a consumer, fixed at its start. `group` and topics are the names in the cluster."""

    group: str
    namespace: str
    settings: ConsumerSettings
    subscriptions: Mapping[str, Subscription]
    listener: Listener
    hooks: Sequence[ConsumeHook]
    filters: Sequence[MessageFilter]


class Running:
    """A started consumer. Its methods run in its loop."""

    def __init__(self, instance: ClientInstance, plan: Plan) -> None:
        settings = plan.settings
        self.instance = instance
        self.plan = plan
        self.machine: Machine = instance.settings.machine
        self.steady: Callable[[], float] = self.machine.steady
        self.group: str = plan.group
        self.namespace: str = plan.namespace
        self.filters: Sequence[MessageFilter] = plan.filters
        self.flow: FlowLimits = settings.flow
        self.orderly: bool = settings.orderly
        self.pull_batch_size: int = settings.pull_batch_size
        self.pull_interval: float = settings.pull_interval
        self.hold_seconds: float = settings.hold_seconds
        self.resumed: asyncio.Event = asyncio.Event()
        self.resumed.set()
        self.statistics: ConsumerStatistics = ConsumerStatistics()
        self.offsets: OffsetStore = self._make_offsets()
        self._suggested: dict[str, int] = {}
        self._failures = FailureLog(plan.group, self.steady)
        attempts_max = attempts_max_of(settings.attempts_max, orderly=settings.orderly)
        calling = Calling(plan.listener, plan.group, self.steady, plan.hooks)
        self._concurrent: ConcurrentConsumer | None = None
        self._orderly: OrderlyConsumer | None = None
        if settings.orderly:
            self._orderly = OrderlyConsumer(
                calling, self, batch_size=settings.batch_size, calls_max=settings.concurrency,
                attempts_max=attempts_max, rest_seconds=settings.suspend_seconds,
                needs_lock=not settings.is_broadcasting,
            )  # fmt: skip
        else:
            self._concurrent = ConcurrentConsumer(calling, self, settings.batch_size, settings.concurrency)
        told_max = -1 if settings.attempts_max is None else settings.attempts_max
        self.returning: Returning = Returning(
            instance, plan.group, told_max, self._returned, self._again, self.machine
        )
        needs_locks = settings.orderly and not settings.is_broadcasting
        locks = Locks(plan.group, instance.client_id, instance.store) if needs_locks else None
        self.assigned: AssignedQueues = AssignedQueues(
            instance, plan.group, settings, self.offsets, locks, self._work_of, self.steady
        )
        strategy = None if settings.is_broadcasting else settings.strategy
        self.rebalancer: Rebalancer = Rebalancer(
            instance, self.assigned, plan.group, plan.subscriptions, strategy, settings.rebalance_interval
        )
        self._relock = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to work."""
        settings = self.plan.settings
        loop = asyncio.get_running_loop()
        jobs: list[tuple[str, Coroutine[Any, Any, None]]] = [
            ("rebalance", self.rebalancer.run()),
            ("returns", self.returning.run()),
            ("offsets", repeat(settings.commit_interval, self.offsets.write)),
            ("statistics", repeat(SAMPLE_SECONDS, self._sample)),
        ]
        if self._orderly is not None and not settings.is_broadcasting:
            jobs.append(("locks", self._keep_locks()))
        if self._concurrent is not None:
            jobs.append(("expiry", repeat(settings.consume_timeout / EXPIRY_LOOKS, self._expire)))
        self._tasks = [loop.create_task(job, name=f"gantry {self.group} {name}") for name, job in jobs]

    async def stop(self) -> None:
        """Hand every queue over: start no calls, wait for running ones, write offsets, release locks."""
        try:
            await self._hand_over()
        finally:  # also if the caller is cancelled
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.returning.close()
            if self._concurrent is not None:
                await self._concurrent.close()
            if self._orderly is not None:
                self._orderly.close()
            await self.assigned.close()

    async def _hand_over(self) -> None:
        settings = self.plan.settings
        self.rebalancer.close()
        for rebalancing in self._tasks[:1]:
            await asyncio.wait([rebalancing], timeout=LAST_REBALANCE_SECONDS)
            rebalancing.cancel()
            await asyncio.gather(rebalancing, return_exceptions=True)
        for held in self.assigned.queues.values():
            held.dropped = True
        end = self.steady() + settings.close_timeout
        if self._concurrent is not None:
            self._concurrent.stop_taking()
        while self._is_busy() and self.steady() < end:  # noqa: ASYNC110 - rare, and short
            await asyncio.sleep(STOP_LOOK_SECONDS)
        if self._is_busy():
            log.warning(
                "group %s stops while calls of its listener still run after %g s; their messages are delivered again",
                self.group, settings.close_timeout,
            )  # fmt: skip
        await self.assigned.finish_drops(force=True)

    # Interface to the pipelines

    def gate(self, queue: ProcessQueue) -> asyncio.Event:
        """Return the event that is set while queues may be pulled."""
        del queue
        return self.resumed

    def store_to_pull(self, broker: str) -> StoreClient:
        """Return the master, the suggested slave, or any slave while the master is down."""
        instance = self.instance
        wanted = self._suggested.get(broker, 0)
        address = instance.routing.address_of(broker, wanted) if wanted else None
        return instance.store_at(address or instance.broker_address(broker, slave_ok=True))

    def suggested(self, broker: str, broker_id: int) -> None:
        """Note from which of its addresses a broker wants to be read."""
        self._suggested[broker] = broker_id

    def committed(self, queue: ProcessQueue) -> int | None:
        """Return the offset to commit with a pull."""
        if self.plan.settings.is_broadcasting:
            return None
        return self.offsets.table.get(queue.queue) or None

    def arrived(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Pass messages to the listener; if none waits, skipped messages count as consumed."""
        if not len(queue):
            self.offsets.table.advance(queue.queue, queue.commit_offset)
        elif self._orderly is not None:
            self._orderly.arrived(queue)
        elif self._concurrent is not None and messages:
            self._concurrent.submit(queue, messages)

    def offset_moved(self, queue: ProcessQueue, offset: int) -> None:
        """Restart a queue at its current beginning or end: the requested offset is gone, or does not exist yet."""
        log.warning(
            "group %s: %s was reset, or has no offset %d: continuing at %d",
            self.group, queue.queue, queue.next_offset, offset,
        )  # fmt: skip
        self.offsets.table.put(queue.queue, offset)
        self.assigned.begin(queue.queue, offset)

    # Ended concurrent calls

    def done(
        self, queue: ProcessQueue, messages: Sequence[ReceivedMessage], calls: int, seconds: float
    ) -> None:
        """Record messages as consumed."""
        counts = self.statistics.of(queue.queue.topic, queue.last_consumed)
        counts.consumed += len(messages)
        counts.calls += calls
        counts.call_seconds += seconds
        self._remove(queue, messages)

    def judge(self, call: Call) -> None:
        """Split the messages of a call that did not simply succeed."""
        outcome, context = call.outcome, call.context
        assert outcome is not None, "a call is judged after its end"
        is_broadcasting = self.plan.settings.is_broadcasting
        ack_index = context.ack_index if context is not None else None
        parts = split(outcome, call.messages, ack_index, broadcasting=is_broadcasting)
        self.done(call.queue, parts.done, 1, call.seconds)
        if parts.again:
            self.statistics.of(call.queue.queue.topic, self.steady()).failed += len(parts.again)
            level = context.delay_level if context is not None else 0
            self._send_back(call.queue, parts.again, level, outcome)
        elif outcome.failure is not None:
            then = ["it is not delivered again: broadcast messages have no retries"] * len(call.messages)
            self._failures.write(call.messages, outcome, then)

    def _send_back(
        self, queue: ProcessQueue, messages: Sequence[ReceivedMessage], level: int, outcome: Outcome
    ) -> None:
        if outcome.failure is None:
            outcome = Outcome("the listener acknowledged only those before it")
        attempts_max = self.plan.settings.attempts_max
        then = [next_delivery(level, message.reconsume_times, attempts_max) for message in messages]
        self._failures.write(messages, outcome, then)
        self.returning.put(Failed(queue, messages, level, outcome.failure or ""))

    # Ended orderly calls

    def commit_orderly(self, queue: ProcessQueue, count: int, offset: int, seconds: float) -> None:
        """Record messages as consumed in order, and everything below `offset`."""
        counts = self.statistics.of(queue.queue.topic, self.steady())
        counts.consumed += count
        counts.calls += 1
        counts.call_seconds += seconds
        queue.last_consumed = self.steady()
        if not queue.released:
            self.offsets.table.advance(queue.queue, offset)

    def suspend(
        self,
        queue: ProcessQueue,
        messages: Sequence[ReceivedMessage],
        outcome: Outcome,
        seconds: float,
        rest_seconds: float,
    ) -> None:
        """Record that a queue pauses after a failure."""
        counts = self.statistics.of(queue.queue.topic, self.steady())
        counts.failed += len(messages)
        counts.calls += 1
        counts.call_seconds += seconds
        then = [f"it is delivered again here in {rest_seconds:g} s, the rest of its queue after it"] * len(
            messages
        )
        self._failures.write(messages, outcome, then)

    async def bury(self, message: ReceivedMessage, outcome: Outcome) -> bool:
        """Make a message a dead letter."""
        self._failures.write([message], outcome, ["it becomes a dead letter"])
        return await self.returning.send_back(message, DEAD_LETTER_LEVEL, outcome.failure or "")

    # Internals

    def _make_offsets(self) -> OffsetStore:
        plan, instance = self.plan, self.instance
        if not plan.settings.is_broadcasting:
            return BrokerOffsets(plan.group, instance.store)
        host = instance.client_id.partition("@")[0]
        names = (host, instance.settings.instance_name or DEFAULT_INSTANCE, instance.settings.unit)
        return FileOffsets(offsets_path(plan.settings.offsets_dir, names, plan.group))

    def _work_of(self, queue: ProcessQueue) -> list[Coroutine[Any, Any, None]]:
        topic = queue.queue.topic
        statistics = self.statistics.of(topic, self.steady())
        pipeline = Pipeline(self, queue, self.plan.subscriptions, statistics)
        return [pipeline.run()] if self._orderly is None else [pipeline.run(), self._orderly.serve(queue)]

    def _remove(self, queue: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        offset = queue.remove(messages)
        queue.last_consumed = self.steady()
        if queue.on_room is not None:
            queue.on_room()
        if not queue.released:
            self.offsets.table.advance(queue.queue, offset)

    def _returned(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self._remove(queue, messages)

    def _again(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        if self._concurrent is not None and not queue.dropped:
            self._concurrent.submit(queue, messages)

    def _is_busy(self) -> bool:
        consuming = self._concurrent or self._orderly
        return self.returning.is_busy or (consuming is not None and consuming.is_busy)

    def renew_locks_soon(self) -> None:
        """Renew the locks now: another replica leads a broker, and knows of none."""
        self._relock.set()

    async def _keep_locks(self) -> None:
        while True:
            unanswered = self.assigned.has_unanswered_locks
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOCK_RETRY_SECONDS if unanswered else LOCK_RENEW_SECONDS):
                    await self._relock.wait()
            self._relock.clear()
            try:
                await self._renew_locks()
            except Exception:
                log.exception("the locks of a consumer could not be renewed")

    async def _renew_locks(self) -> None:
        if await self.assigned.renew_locks():
            self.rebalancer.soon()

    async def _sample(self) -> None:
        self.statistics.sample(self.steady())

    async def _expire(self) -> None:
        assert self._concurrent is not None
        limit = self.plan.settings.consume_timeout
        for call in self._concurrent.expire(self.steady() - limit):
            words = f"the listener took longer than {limit:g} s, its result is ignored"
            self._send_back(call.queue, call.messages, EXPIRED_LEVEL, Outcome(words))
