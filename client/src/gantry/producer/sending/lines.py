"""Sends to one broker that may take any queue: those of one turn of the event loop are asked together, by one call of its connection.

Spares each send the search for its connection, two looks at the clock and four calls. Owns no fate of a send: what cannot leave so is launched one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gantry.producer.sending.crowd import Crowd
from gantry.producer.sending.send import Send
from gantry_link.calls import NEVER, Call
from gantry_link.pool import ConnectionPool
from gantry_link.turn import Turn


class Line:
    """What leaves for one broker at the end of this turn."""

    __slots__ = ("_crowd", "_launch", "_leave_bound", "_loop", "_pool", "_turn", "_waiting", "address")

    def __init__(
        self, address: str, pool: ConnectionPool, crowd: Crowd, launch: Callable[[Send], None]
    ) -> None:
        """`launch` sends one alone, whatever that takes."""
        self.address: str = address
        self._pool = pool
        self._crowd = crowd
        self._launch = launch
        self._loop = asyncio.get_running_loop()
        self._turn = Turn.current()
        self._waiting: list[Send] = []
        self._leave_bound = self._leave

    def add(self, send: Send) -> None:
        """Have a send, which has its target, leave at the end of this turn."""
        if not self._waiting:
            self._turn.at_end(self._leave_bound)
        self._waiting.append(send)

    def _leave(self) -> None:
        sends, self._waiting = self._waiting, []
        now = self._loop.time()
        for send in sends:
            send.started = now
        if not self._ask_together(sends, now):
            for send in sends:
                self._launch(send)

    def _ask_together(self, sends: list[Send], now: float) -> bool:
        connection = self._pool.get_nowait(self.address)
        if connection is None or self.address in self._crowd.waiting:
            return False
        calls: dict[int, Call] = {}
        parts: list[bytes] = []
        earliest = NEVER
        try:
            for opaque, send in zip(connection.next_opaques(len(sends)), sends, strict=True):
                deadline = send.deadline
                if deadline < earliest:  # noqa: PLR1730 - min() costs a call
                    earliest = deadline
                calls[opaque] = (send, deadline, now)
                properties, body, _ = send.prepared
                parts += send.target.pattern.parts(opaque, send.born_ms, properties, body)
        except Exception:  # noqa: BLE001 - a message that is none any more: launched alone, it says so to who waits
            return False
        return connection.ask_together(calls, earliest, b"".join(parts))


class Lines:
    """The lines of one producer, by the address of the broker: there are few, and they are small."""

    __slots__ = ("_crowd", "_launch", "_lines", "_pool")

    def __init__(self, pool: ConnectionPool, crowd: Crowd, launch: Callable[[Send], None]) -> None:
        self._pool, self._crowd, self._launch = pool, crowd, launch
        self._lines: dict[str, Line] = {}

    def to(self, address: str) -> Line:
        """Return the line to a broker."""
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = Line(address, self._pool, self._crowd, self._launch)
        return line
