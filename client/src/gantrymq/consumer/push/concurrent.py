"""Concurrent consumption: passes messages of all queues to a listener, several calls at a time, in no defined order.

Workers take the chunks that pulls bring. A worker calls the listener for one batch after the other, and records a run of
immediately successful calls together: no task, timer or record per message. A call that waits keeps its worker;
the rest of the chunk goes to another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gantrymq.consumer.push.calls import Call, Calling
from gantrymq.consumer.push.listeners import Way
from gantrymq.consumer.push.threads import ListenerThreads
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.message import ReceivedMessage

log: logging.Logger = logging.getLogger("gantrymq")

LOOP_SLICE_SECONDS = 0.004
"""The longest time that listeners run in the loop before other work gets its turn."""


class Sink(Protocol):
    """The receiver of ended calls."""

    def done(
        self, queue: ProcessQueue, messages: Sequence[ReceivedMessage], calls: int, seconds: float
    ) -> None:
        """Record messages as consumed."""
        ...

    def judge(self, call: Call) -> None:
        """Handle a call that did not succeed immediately."""
        ...


@dataclass(slots=True)
class Chunk:
    """Messages of one queue that wait for the listener, from `at` on."""

    queue: ProcessQueue
    messages: list[ReceivedMessage]
    at: int = 0


class ConcurrentConsumer:
    """Calls a listener for pulled messages. Owned by one event loop."""

    def __init__(self, calling: Calling, sink: Sink, batch_size: int, workers_max: int) -> None:
        """Call with at most `batch_size` messages, and at most `workers_max` calls at a time."""
        self._calling = calling
        self._steady = calling.steady
        self._sink = sink
        self._batch_size = batch_size
        self._workers_max = workers_max
        self._ready: deque[Chunk] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._workers: dict[asyncio.Task[None], None] = {}
        self._waiting: dict[Call, None] = {}
        # In the order of their start: a set's order depends on addresses in memory.
        self._threads: ListenerThreads | None = None
        if calling.way is Way.THREAD:
            self._threads = ListenerThreads(calling.run, self._threads_ended, workers_max)

    @property
    def is_busy(self) -> bool:
        """Whether messages wait for the listener, or are being consumed."""
        return bool(self._ready or self._waiting or (self._threads is not None and self._threads.is_busy))

    def submit(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Queue messages for consumption."""
        size = self._batch_size
        if self._threads is not None:
            prepare, now = self._calling.prepare, self._steady()
            parts = [messages[at : at + size] for at in range(0, len(messages), size)]
            self._threads.submit([prepare(Call(queue, part, now)) for part in parts])
        else:
            self._ready.append(Chunk(queue, messages))
            self._wake_worker()

    def expire(self, before: float) -> list[Call]:
        """Return the running calls that began before a time (of the steady clock); their results are ignored from now on."""
        running = list(self._waiting) if self._threads is None else self._threads.running()
        late = [call for call in running if call.started < before and not call.expired]
        for call in late:
            call.expired = True
        return late

    def stop_taking(self) -> None:
        """Start no more calls; running ones continue."""
        self._ready.clear()
        if self._threads is not None:
            self._threads.close()

    async def close(self) -> None:
        """Stop the workers; waiting calls are cancelled, or left behind in their threads."""
        self.stop_taking()
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    # In the loop

    def _wake_worker(self) -> None:
        while self._idle:
            waiting = self._idle.pop()
            if not waiting.done():
                waiting.set_result(None)
                return
        if len(self._workers) < self._workers_max:
            worker = asyncio.get_running_loop().create_task(self._work(), name="gantry listener")
            self._workers[worker] = None
            worker.add_done_callback(self._workers.pop)

    async def _work(self) -> None:
        self._calling.enter()
        loop = asyncio.get_running_loop()
        while True:
            slice_end = self._steady() + LOOP_SLICE_SECONDS
            while self._ready:
                try:
                    await self._serve(self._ready.popleft(), slice_end)
                except Exception:
                    log.exception("a fault of the SDK: consuming failed, these messages stay unconsumed")
                if self._steady() > slice_end:
                    await asyncio.sleep(0)
                    slice_end = self._steady() + LOOP_SLICE_SECONDS
            waiting = loop.create_future()
            self._idle.append(waiting)
            await waiting

    async def _serve(self, chunk: Chunk, slice_end: float) -> None:
        """Call the listener for a chunk until a call does not succeed immediately, or the slice is over."""
        queue, messages, size, steady = chunk.queue, chunk.messages, self._batch_size, self._steady
        start = at = chunk.at
        started = now = steady()
        call = None
        while at < len(messages) and now < slice_end and not queue.dropped:
            call = self._calling.start(queue, messages[at : at + size])
            if call is not None:
                break
            at += size
            now = steady()
        if at > start:
            done = messages if at - start >= len(messages) else messages[start:at]
            self._sink.done(queue, done, -(-len(done) // size), now - started)
        chunk.at = at if call is None else at + size
        if chunk.at < len(messages) and not queue.dropped:
            self._ready.appendleft(chunk)
            if call is not None and call.waits is not None:
                self._wake_worker()
        if call is not None:
            await self._finish(call)

    async def _finish(self, call: Call) -> None:
        if call.waits is not None:
            self._waiting[call] = None
            try:
                await self._calling.finish(call)
            finally:
                del self._waiting[call]
        self._end(call)

    # In threads

    def _threads_ended(self, calls: list[Call]) -> None:
        for call in calls:
            self._calling.conclude(call)
            self._end(call)

    def _end(self, call: Call) -> None:
        if call.expired or call.outcome is None:  # None: its queue was dropped before a thread took it
            return
        if call.is_plain_success:
            self._sink.done(call.queue, call.messages, 1, call.seconds)
        else:
            self._sink.judge(call)
