"""The backlog: sends that a connection has no room for wait here, in order, until the broker has read earlier ones.

Nothing overtakes: while something waits for a broker, later sends for it wait too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from gantrymq.errors import ConnectionFailed, GantryError, TimedOut
from gantrymq.producer.sending.send import Send

LOOK_SECONDS = 0.01
"""The interval of checks for room: tens of megabytes wait then, so it never limits the rate."""


class Backlog:
    """The waiting sends of a producer, by the address of the broker."""

    def __init__(self, launch: Callable[[Send], None], end: Callable[[Send, GantryError], None]) -> None:
        """`launch` sends, or adds the send here again if there is still no room; `end` fails it."""
        self.waiting: dict[str, deque[Send]] = {}
        self._launch = launch
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, send: Send) -> None:
        """Add a send."""
        self.waiting.setdefault(send.target.address, deque()).append(send)
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        """Fail all waiting sends."""
        if self._timer is not None:
            self._timer.cancel()
        waiting, self.waiting = self.waiting, {}
        for send in (each for line in waiting.values() for each in line):
            words = f"the producer was closed before {send.target.address} had room for the message"
            self._end(send, ConnectionFailed(words, sent=False))

    def _look(self) -> None:
        """Launch the sends for which there is room, and fail those whose time is over."""
        now = self._loop.time()
        for address, line in list(self.waiting.items()):
            del self.waiting[address]
            while line:
                send = line.popleft()
                if self._is_late(send, now):
                    continue
                send.started = now
                self._launch(send)
                if address in self.waiting:  # it was added again: there was no room for it
                    line.appendleft(send)
                    break
            if line:
                self.waiting[address] = line
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look) if self.waiting else None

    def _is_late(self, send: Send, now: float) -> bool:
        if now < send.deadline:
            return False
        words = f"{send.target.address} did not read earlier messages within the time"
        self._end(send, TimedOut(f"sending to topic {send.topic}: {words}", sent=False))
        return True
