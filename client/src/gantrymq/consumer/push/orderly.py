"""Orderly consumption: one call at a time per queue, in the order of its offsets, while this member holds the queue's lock.

One task per queue. Failed messages are retried after a pause, and later ones wait behind them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from gantrymq.consumer.push.calls import Call, Calling
from gantrymq.consumer.push.listeners import Way
from gantrymq.consumer.push.threads import ListenerThreads
from gantrymq.consumer.retrying.outcomes import Outcome, plan_orderly
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.message import MessageQueue, ReceivedMessage

log: logging.Logger = logging.getLogger("gantrymq")

LOOP_SLICE_SECONDS = 0.004
LOCK_LOOK_SECONDS = 0.1
"""How often a queue without a valid lock checks for one."""


class OrderlySink(Protocol):
    """The receiver of ended orderly calls."""

    def commit_orderly(self, queue: ProcessQueue, count: int, offset: int, seconds: float) -> None:
        """Record messages as consumed, and everything below `offset`."""
        ...

    def suspend(
        self,
        queue: ProcessQueue,
        messages: Sequence[ReceivedMessage],
        outcome: Outcome,
        seconds: float,
        rest_seconds: float,
    ) -> None:
        """Record that the queue pauses after a failure of these messages."""
        ...

    async def bury(self, message: ReceivedMessage, outcome: Outcome) -> bool:
        """Make a message a dead letter; False if that failed."""
        ...


class OrderlyConsumer:
    """Runs one call at a time per queue, and a limited number in all."""

    def __init__(
        self,
        calling: Calling,
        sink: OrderlySink,
        *,
        batch_size: int,
        calls_max: int,
        attempts_max: int,
        rest_seconds: float,
        needs_lock: bool = True,
    ) -> None:
        """`attempts_max` -1: no limit. Broadcasting members need no lock: no other member has their queues."""
        self._calling = calling
        self._steady = calling.steady
        self._sink = sink
        self._batch_size = batch_size
        self._attempts_max = attempts_max
        self._rest_seconds = rest_seconds
        self._needs_lock = needs_lock
        self._free = asyncio.Semaphore(calls_max)
        self._arrived: dict[ProcessQueue, asyncio.Event] = {}
        self._serving: dict[MessageQueue, ProcessQueue] = {}
        """The ProcessQueue of each running call: a queue that is restarted has another ProcessQueue."""
        self._ends: dict[Call, asyncio.Future[None]] = {}
        self._in_hand = 0
        self._threads: ListenerThreads | None = None
        if calling.way is Way.THREAD:
            self._threads = ListenerThreads(calling.run, self._threads_ended, calls_max)

    @property
    def is_busy(self) -> bool:
        """Whether a call runs, or its messages are becoming dead letters."""
        return self._in_hand > 0

    def arrived(self, queue: ProcessQueue) -> None:
        """React to new messages of a queue."""
        event = self._arrived.get(queue)
        if event is not None:
            event.set()

    def close(self) -> None:
        """Stop the threads."""
        if self._threads is not None:
            self._threads.close()

    async def serve(self, queue: ProcessQueue) -> None:
        """Consume a queue until it is dropped."""
        self._calling.enter()
        arrived = self._arrived[queue] = asyncio.Event()
        try:
            while not queue.dropped:
                if not len(queue):
                    arrived.clear()
                    await arrived.wait()
                elif not self._may_work(queue):
                    await asyncio.sleep(LOCK_LOOK_SECONDS)
                else:
                    async with self._free:
                        rest = await self._serve_alone(queue)
                    await asyncio.sleep(rest)
        finally:
            del self._arrived[queue]

    async def _serve_alone(self, queue: ProcessQueue) -> float:
        """As `_serve_some`; pauses while a call from before a restart of the queue still runs: after a reset, or a new lock."""
        if self._serving.setdefault(queue.queue, queue) is not queue:
            return LOCK_LOOK_SECONDS
        try:
            return await self._serve_some(queue)
        finally:
            del self._serving[queue.queue]

    async def _serve_some(self, queue: ProcessQueue) -> float:
        """Call the listener until the queue is empty, pauses or must let others go first; return the length of the pause."""
        slice_end = self._steady() + LOOP_SLICE_SECONDS
        while len(queue) and not queue.dropped and self._may_work(queue):
            self._in_hand += 1
            try:
                rest = await self._serve_batch(queue, queue.take(self._batch_size))
            except asyncio.CancelledError:
                queue.give_back()
                raise
            finally:
                self._in_hand -= 1
            if rest is not None:
                return rest
            if self._steady() > slice_end:
                break
        return 0.0

    async def _serve_batch(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> float | None:
        """Call the listener once, and handle the outcome; return how long the queue pauses, None if it continues."""
        started = self._steady()
        call = await self._call(queue, messages)
        if call is not None and call.outcome is None:  # the queue was dropped before a thread took the call
            queue.give_back()
            return 0.0
        return await self._end(queue, messages, call, started)

    async def _call(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> Call | None:
        if self._threads is None:
            call = self._calling.start(queue, messages)
            if call is not None:
                await self._calling.finish(call)
            return call
        call = self._calling.prepare(Call(queue, messages, self._steady()))
        ended = self._ends[call] = asyncio.get_running_loop().create_future()
        self._threads.submit([call])
        await ended
        return call

    async def _end(
        self, queue: ProcessQueue, messages: list[ReceivedMessage], call: Call | None, started: float
    ) -> float | None:
        """Handle the outcome of a call; return how long the queue pauses, None if it continues."""
        seconds = self._steady() - started
        if call is None or call.outcome is None or call.outcome.failure is None:
            self._commit(queue, len(messages), seconds)
            return None
        outcome, context = call.outcome, call.context
        rest = self._rest_seconds
        if context is not None and context.suspend_seconds is not None:
            rest = context.suspend_seconds
        plan = plan_orderly(outcome, messages, self._attempts_max, rest)
        if plan.bury:
            buried = await asyncio.gather(*[self._sink.bury(each, outcome) for each in messages])
            if all(buried):
                self._commit(queue, len(messages), seconds)
                return None
        rest = plan.rest_seconds if plan.rest_seconds is not None else self._rest_seconds
        self._sink.suspend(queue, messages, outcome, seconds, rest)
        for message in messages:
            message.reconsume_times += 1
        queue.give_back()
        return rest

    def _may_work(self, queue: ProcessQueue) -> bool:
        return not self._needs_lock or queue.has_valid_lock(self._steady())

    def _commit(self, queue: ProcessQueue, count: int, seconds: float) -> None:
        offset = queue.commit()
        if queue.on_room is not None:
            queue.on_room()
        self._sink.commit_orderly(queue, count, offset, seconds)

    def _threads_ended(self, calls: list[Call]) -> None:
        for call in calls:
            self._calling.conclude(call)
            ended = self._ends.pop(call, None)
            if ended is not None and not ended.done():
                ended.set_result(None)
