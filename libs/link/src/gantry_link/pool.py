"""Connections by address: made when first asked for, shared by all callers, made anew after they were lost.

After a failure an address is left alone for a moment that grows and is jittered, so that a store that comes back
is found within a second and is not met by everybody at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from gantry_link.calls import Answer
from gantry_link.connection import CONNECT_SECONDS, Connection, PushHandler, Signer, connect
from gantry_link.errors import NotConnected
from gantry_link.limits import LinkLimits

BACKOFF_SECONDS_MIN = 0.05
BACKOFF_SECONDS_MAX = 1.0
IDLE_SWEEP_SECONDS = 10.0
FORGET_SECONDS = 60.0
"""An address without a connection is forgotten so long after its last failure."""


@dataclass(slots=True)
class _Slot:
    """What is known about one address: its connection, or when to try again."""

    address: str
    lane: str = ""
    connection: Connection | None = None
    backoff_seconds: float = 0.0
    retry_at: float = 0.0
    reason: str = ""
    connecting: asyncio.Lock = field(default_factory=asyncio.Lock)


class ConnectionPool:
    """One connection per (address, lane). Lanes keep big replies out of the way of small ones."""

    def __init__(
        self,
        *,
        on_push: PushHandler | None = None,
        limits: LinkLimits | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        rng: random.Random | None = None,
        sign: Signer | None = None,
    ) -> None:
        """`sign` proves to every server who sends a request. `rng` spreads retries and the choice of nameservers; it guards nothing."""
        self.on_connected: Callable[[Connection, str], None] | None = None
        """Told of each new connection and its lane, before it carries anything."""
        self.on_lost: Callable[[Connection, str], None] | None = None
        """Told of each connection that ended, and its lane."""
        self._sign = sign
        self.limits: LinkLimits = limits or LinkLimits()
        self.connects: int = 0
        self.failed_connects: int = 0
        self._on_push = on_push
        self._connect_seconds = connect_seconds
        self.rng: random.Random = rng or random.Random()  # noqa: S311 - see above
        self._slots: dict[tuple[str, str], _Slot] = {}
        self._retired: list[Connection] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    def get_nowait(self, address: str, lane: str = "") -> Connection | None:
        """Return the open connection, or None: then `await get`."""
        slot = self._slots.get((address, lane))
        if slot is None:
            return None
        connection = slot.connection
        return connection if connection is not None and connection.is_open else None

    async def get(self, address: str, lane: str = "") -> Connection:
        """Return an open connection, connecting if need be; NotConnected when that fails or is not yet due again."""
        connection = self.get_nowait(address, lane)
        if connection is not None:
            return connection
        if self._closed:
            raise NotConnected("the pool is closed")
        slot = self._slots.setdefault((address, lane), _Slot(address, lane))
        async with slot.connecting:  # callers that come together share one attempt
            if slot.connection is not None and slot.connection.is_open:
                return slot.connection
            return await self._connect(slot)

    def retire(self, address: str, lane: str = "") -> None:
        """Give a connection up for new calls, as its server asked; what waits on it may still be answered."""
        slot = self._slots.get((address, lane))
        if slot is None or slot.connection is None:
            return
        self._retired = [old for old in self._retired if old.is_open]
        self._retired.append(slot.connection)
        slot.connection = None

    def give_up(self, wanted: Callable[[Answer], bool], why: str) -> None:
        """End the calls of every connection that `wanted` says."""
        for connection in [*(slot.connection for slot in self._slots.values()), *self._retired]:
            if connection is not None:
                connection.give_up(wanted, why)

    def addresses(self) -> list[str]:
        """Return the addresses with an open connection."""
        return sorted(
            {slot.address for slot in self._slots.values() if slot.connection and slot.connection.is_open}
        )

    async def close(self) -> None:
        """Close every connection; later calls raise NotConnected."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for slot in self._slots.values():
            if slot.connection is not None:
                slot.connection.close()
        for connection in self._retired:
            connection.close()
        self._slots.clear()
        await asyncio.sleep(0)  # lets the transports leave the loop

    async def _connect(self, slot: _Slot) -> Connection:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now < slot.retry_at:
            raise NotConnected(f"{slot.reason} (next try in {slot.retry_at - now:.2f} s)")
        try:
            connection = await connect(
                slot.address, on_push=self._on_push, limits=self.limits, within_seconds=self._connect_seconds
            )
        except NotConnected as error:
            self.failed_connects += 1
            self._back_off(slot, str(error))
            raise
        self.connects += 1
        slot.connection, slot.backoff_seconds, slot.retry_at = connection, 0.0, 0.0
        if self._closed:
            connection.close()
            raise NotConnected("the pool is closed")
        connection.sign = self._sign
        connection.on_lost = lambda lost: self._lost(lost, slot.lane)
        if self.on_connected is not None:
            self.on_connected(connection, slot.lane)
        if self._sweeper is None:
            self._sweeper = loop.call_later(IDLE_SWEEP_SECONDS, self._sweep)
        return connection

    def _lost(self, connection: Connection, lane: str) -> None:
        if self.on_lost is not None and not self._closed:
            self.on_lost(connection, lane)

    def _back_off(self, slot: _Slot, reason: str) -> None:
        slot.reason = reason
        slot.backoff_seconds = min(max(slot.backoff_seconds * 2, BACKOFF_SECONDS_MIN), BACKOFF_SECONDS_MAX)
        wait_seconds = slot.backoff_seconds * self.rng.uniform(0.5, 1.0)
        slot.retry_at = asyncio.get_running_loop().time() + wait_seconds

    def _sweep(self) -> None:
        """Close what has been idle for long, before the server does; forget addresses nobody uses."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for key, slot in list(self._slots.items()):
            connection = slot.connection
            if connection is None or not connection.is_open:
                slot.connection = None
                if not slot.connecting.locked() and now - slot.retry_at > FORGET_SECONDS:
                    del self._slots[key]
            elif not connection.open_calls and now - connection.last_used > self.limits.client_idle_seconds:
                connection.close()
        self._sweeper = loop.call_later(IDLE_SWEEP_SECONDS, self._sweep) if self._slots else None
