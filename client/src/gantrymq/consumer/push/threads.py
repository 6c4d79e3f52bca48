"""Threads for listeners that block.

They take calls from one deque and return ended ones in batches: they wake the loop once per batch, not per call.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from gantrymq.consumer.push.calls import Call


class ListenerThreads:
    """A limited number of threads, started on demand. `run` is called in them, `ended` in the loop.

    A call whose queue was dropped before a thread took it ends without an outcome.
    """

    def __init__(
        self, run: Callable[[Call], None], ended: Callable[[list[Call]], None], threads_max: int
    ) -> None:
        self._run = run
        self._ended = ended
        self._threads_max = threads_max
        self._loop = asyncio.get_running_loop()
        self._work = threading.Condition()
        """Guards all following fields that both sides change; the deque of ended calls needs no lock (one append is atomic)."""
        self._calls: deque[Call] = deque()
        self._in_hand: set[Call] = set()
        self._threads = 0
        self._idle = 0
        self._closed = False
        self._done: deque[Call] = deque()
        self._is_notified = False

    @property
    def is_busy(self) -> bool:
        """Whether calls wait, run, or have ended but are not handled yet."""
        return bool(self._calls or self._in_hand or self._done)

    def running(self) -> list[Call]:
        """Return the running calls."""
        with self._work:
            return list(self._in_hand)

    def submit(self, calls: Sequence[Call]) -> None:
        """Queue calls."""
        with self._work:
            self._calls.extend(calls)
            new = min(len(self._calls) - self._idle, self._threads_max - self._threads)
            self._work.notify(min(len(calls), self._idle))
            self._threads += max(new, 0)
        for _ in range(new):
            threading.Thread(target=self._serve, name="gantry listener", daemon=True).start()

    def close(self) -> None:
        """End every thread after its current call; waiting calls are dropped."""
        with self._work:
            self._closed = True
            self._calls.clear()
            self._work.notify_all()

    def _serve(self) -> None:
        call: Call | None = None
        while True:
            with self._work:
                if call is not None:
                    self._in_hand.discard(call)
                while not self._calls and not self._closed:
                    self._idle += 1
                    self._work.wait()
                    self._idle -= 1
                if self._closed:
                    self._threads -= 1
                    return
                call = self._calls.popleft()
                self._in_hand.add(call)
            if not call.queue.dropped:  # else another member has the queue, or it was restarted
                self._run(call)
            self._done.append(call)
            if not self._is_notified:
                self._is_notified = True
                with suppress(RuntimeError):  # the loop is closed: the result is dropped
                    self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._is_notified = False  # before taking them: calls that end from now on schedule the next handling
        ended: list[Call] = []
        while self._done:
            ended.append(self._done.popleft())
        if ended:
            self._ended(ended)
