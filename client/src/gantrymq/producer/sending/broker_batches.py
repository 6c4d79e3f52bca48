"""Batches per broker: sends of one turn of the event loop that may take any queue leave together, by one call of the connection.

Spares each send the search for its connection, two reads of the clock and four calls. Falls back to sending individually.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gantry_link.connections.calls import NEVER, Call
from gantry_link.connections.pool import ConnectionPool
from gantry_link.connections.turn import Turn
from gantrymq.producer.sending.backlog import Backlog
from gantrymq.producer.sending.send import Send


class BrokerBatch:
    """The sends for one broker at the end of this turn."""

    __slots__ = ("_backlog", "_launch", "_leave_bound", "_loop", "_pool", "_turn", "_waiting", "address")

    def __init__(
        self, address: str, pool: ConnectionPool, backlog: Backlog, launch: Callable[[Send], None]
    ) -> None:
        """`launch` sends one individually."""
        self.address: str = address
        self._pool = pool
        self._backlog = backlog
        self._launch = launch
        self._loop = asyncio.get_running_loop()
        self._turn = Turn.current()
        self._waiting: list[Send] = []
        self._leave_bound = self._leave

    def add(self, send: Send) -> None:
        """Add a send, which has its target, to leave at the end of this turn."""
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
        if connection is None or self.address in self._backlog.waiting:
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
                parts += send.target.pattern.parts(send.born_ms, properties, body, opaque)
        except Exception:  # noqa: BLE001 - an invalid message: launched individually, it reports its error
            return False
        return connection.ask_together(calls, earliest, b"".join(parts))


class BrokerBatches:
    """The batches of a producer by the address of the broker."""

    __slots__ = ("_backlog", "_batches", "_launch", "_pool")

    def __init__(self, pool: ConnectionPool, backlog: Backlog, launch: Callable[[Send], None]) -> None:
        self._pool, self._backlog, self._launch = pool, backlog, launch
        self._batches: dict[str, BrokerBatch] = {}

    def to(self, address: str) -> BrokerBatch:
        """Return the batch of a broker."""
        batch = self._batches.get(address)
        if batch is None:
            batch = self._batches[address] = BrokerBatch(address, self._pool, self._backlog, self._launch)
        return batch
