"""Follows the masters of brokers with replicas: another one may lead at any moment, while the old one keeps its connections.

Queries a nameserver every second, and at once while a master does not answer. Costs nothing without replicas. Calls to a replaced master end.
"""

from __future__ import annotations

import asyncio
import logging

from gantry_link.calling.store_calls import SMALL
from gantry_link.connections.pool import ConnectionPool
from gantrymq.connection import routes
from gantrymq.connection.routing import Routing

log: logging.Logger = logging.getLogger("gantrymq")
LOOK_SECONDS = 0.1
POLL_SECONDS = 1.0
SILENT_SECONDS = 0.25
"""A master that has not answered an open call for this long is looked for at once."""
LEAVE_SECONDS = 0.1
"""Time for answers of a replaced master that are under way, before its calls end."""


class Masters:
    """The masters of one client's brokers."""

    def __init__(self, pool: ConnectionPool, routing: Routing) -> None:
        self._pool, self._routing = pool, routing
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._looked: dict[str, float] = {}
        routing.changed.append(lambda _topic: self._wake.set())
        routing.moved.append(self._moved)

    async def run(self) -> None:
        """Look for masters until cancelled."""
        while True:
            brokers = self._routing.replicated()
            if not brokers:
                self._wake.clear()
                await self._wake.wait()
                continue
            now = self._loop.time()
            for broker in brokers:
                if now >= self._looked.get(broker, 0.0) + self._interval(broker):
                    self._looked[broker] = now
                    try:
                        await self._routing.look_for_master(broker)
                    except Exception:
                        log.exception("the query for the master of %s failed", broker)
            await asyncio.sleep(LOOK_SECONDS)

    def _interval(self, broker: str) -> float:
        """Return how long the last look for a master is good enough."""
        address = self._routing.address_of(broker, routes.MASTER)
        connection = None if address is None else self._pool.get_nowait(address, SMALL)
        if address is None or (connection is not None and connection.silent_seconds >= SILENT_SECONDS):
            return LOOK_SECONDS
        return POLL_SECONDS

    def _moved(self, _broker: str, address: str) -> None:
        self._loop.call_later(LEAVE_SECONDS, self._leave_if_gone, address)

    def _leave_if_gone(self, address: str) -> None:
        """End the calls to a replaced master; each may have been carried out."""
        masters = {self._routing.address_of(broker, routes.MASTER) for broker in self._routing.brokers()}
        if address not in masters:
            self._pool.abandon(address, "was left: another replica leads the broker now")
