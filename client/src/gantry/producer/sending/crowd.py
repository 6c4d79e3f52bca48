"""Sends that a connection has no room for: they wait here, in their order, until the broker has read what is before them.

Owns the waiting only. Nobody overtakes: while something waits for a broker, what comes later for it waits too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from gantry.errors import ConnectionFailed, GantryError, TimedOut
from gantry.producer.sending.send import Send

LOOK_SECONDS = 0.01
"""How soon room that has come is seen: tens of megabytes wait then, so it is never the limit."""


class Crowd:
    """The waiting sends of one producer, by the address of the broker."""

    def __init__(self, launch: Callable[[Send], None], end: Callable[[Send, GantryError], None]) -> None:
        """`launch` sends, or adds the send here again when there is still no room; `end` ends it badly."""
        self.waiting: dict[str, deque[Send]] = {}
        self._launch = launch
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, send: Send) -> None:
        """Have a send wait."""
        self.waiting.setdefault(send.target.address, deque()).append(send)
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        """End what waits."""
        if self._timer is not None:
            self._timer.cancel()
        waiting, self.waiting = self.waiting, {}
        for send in (each for line in waiting.values() for each in line):
            words = f"the producer was closed before {send.target.address} had room for the message"
            self._end(send, ConnectionFailed(words, sent=send.tries_done > 0))

    def _look(self) -> None:
        """Let go what there is room for, and end what has no time left."""
        now = self._loop.time()
        for address, line in list(self.waiting.items()):
            del self.waiting[address]
            while line:
                send = line.popleft()
                if self._is_late(send, now):
                    continue
                send.started = now
                self._launch(send)
                if address in self.waiting:  # it is back: there was no room for it
                    line.appendleft(send)
                    break
            if line:
                self.waiting[address] = line
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look) if self.waiting else None

    def _is_late(self, send: Send, now: float) -> bool:
        if now < send.deadline:
            return False
        words = f"{send.target.address} did not read what was sent before it within the time"
        self._end(send, TimedOut(f"sending to topic {send.topic}: {words}", sent=send.tries_done > 0))
        return True
