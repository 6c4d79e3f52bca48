"""Pools connections by address: connects at first use, shares the connection, and reconnects after a loss.

After a failure the pool waits before the next attempt, with growing and jittered back-off, so that clients find a restarted store
within a second and do not all reconnect at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gantry_link.connections.calls import Answer
from gantry_link.connections.client_tls import TlsContext
from gantry_link.connections.connection import CONNECT_SECONDS, Connection, PushHandler, Signer, connect
from gantry_link.errors import LinkError, NotConnected
from gantry_link.limits import LinkLimits

BACKOFF_SECONDS_MIN = 0.05
BACKOFF_SECONDS_MAX = 1.0
IDLE_SWEEP_SECONDS = 10.0
FORGET_SECONDS = 60.0
"""Time after its last failure until an address without a connection is forgotten."""


@dataclass(slots=True)
class _Slot:
    """State of one address: its connection, or when to try again."""

    address: str
    connection_class: str = ""
    connection: Connection | None = None
    backoff_seconds: float = 0.0
    retry_at: float = 0.0
    reason: str = ""
    connecting: asyncio.Lock = field(default_factory=asyncio.Lock)


class ConnectionPool:
    """One connection per (address, connection class). The classes keep big replies from delaying small ones."""

    def __init__(  # noqa: PLR0913 - each sets another property of the connections
        self,
        *,
        on_push: PushHandler | None = None,
        limits: LinkLimits | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        rng: random.Random | None = None,
        sign: Signer | None = None,
        on_connected: Callable[[Connection, str], None] | None = None,
        on_lost: Callable[[Connection, str], None] | None = None,
        introduce: Callable[[Connection], Awaitable[None]] | None = None,
        tls: TlsContext | None = None,
    ) -> None:
        """`sign` signs every request. With `tls` every connection uses TLS. `rng` spreads retries and the choice of nameservers; it need not be secure.

        `introduce` is awaited with each new connection before anybody gets it. If it raises a LinkError, the connection is closed and
        nobody does.

        `on_connected` is called with each new connection and its class, before the first request; `on_lost` with each
        connection that ended, and its class.
        """
        self._on_connected, self._on_lost = on_connected, on_lost
        self._sign, self._introduce, self._tls = sign, introduce, tls
        self._unintroduced: set[Connection] = set()
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

    def get_nowait(self, address: str, connection_class: str = "") -> Connection | None:
        """Return the open connection, or None; then `await get`."""
        slot = self._slots.get((address, connection_class))
        if slot is None:
            return None
        connection = slot.connection
        return connection if connection is not None and connection.is_open else None

    async def get(self, address: str, connection_class: str = "") -> Connection:
        """Return an open connection; connect if necessary. Raises NotConnected if that fails or the back-off is not over."""
        connection = self.get_nowait(address, connection_class)
        if connection is not None:
            return connection
        if self._closed:
            raise NotConnected("the pool is closed")
        slot = self._slots.setdefault((address, connection_class), _Slot(address, connection_class))
        async with slot.connecting:  # concurrent callers share one attempt
            if slot.connection is not None and slot.connection.is_open:
                return slot.connection
            return await self._connect(slot)

    def retire(self, address: str, connection_class: str = "") -> None:
        """Use the connection for no new calls, as its server requested. Its open calls may still be answered."""
        slot = self._slots.get((address, connection_class))
        if slot is None or slot.connection is None:
            return
        self._retired = [old for old in self._retired if old.is_open]
        self._retired.append(slot.connection)
        slot.connection = None

    def give_up(self, wanted: Callable[[Answer], bool], why: str) -> None:
        """End the calls of all connections that `wanted` selects."""
        for connection in [*(slot.connection for slot in self._slots.values()), *self._retired]:
            if connection is not None:
                connection.give_up(wanted, why)

    def abandon(self, address: str, why: str) -> None:
        """End all calls to an address, and its connections: another server answers in its place now. A later call connects again."""
        for connection in [*(slot.connection for slot in self._slots.values()), *self._retired]:
            if connection is not None and connection.address == address:
                connection.abandon(why)

    def addresses(self) -> list[str]:
        """Return the addresses with an open connection."""
        return sorted(
            {slot.address for slot in self._slots.values() if slot.connection and slot.connection.is_open}
        )

    async def close(self) -> None:
        """Close every connection. Further calls raise NotConnected."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for slot in self._slots.values():
            if slot.connection is not None:
                slot.connection.close()
        for connection in self._retired:
            connection.close()
        for connection in list(self._unintroduced):
            connection.close()
        self._slots.clear()
        await asyncio.sleep(0)  # lets the transports leave the loop

    async def _connect(self, slot: _Slot) -> Connection:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now < slot.retry_at:
            raise NotConnected(f"{slot.reason} (next try in {slot.retry_at - now:.2f} s)")
        try:
            connection = await self._introduced(slot)
        except NotConnected as error:
            self.failed_connects += 1
            self._back_off(slot, str(error))
            raise
        self.connects += 1
        slot.connection, slot.backoff_seconds, slot.retry_at = connection, 0.0, 0.0
        if self._closed:
            connection.close()
            raise NotConnected("the pool is closed")
        if self._on_connected is not None:
            self._on_connected(connection, slot.connection_class)
        if self._sweeper is None:
            self._sweeper = loop.call_later(IDLE_SWEEP_SECONDS, self._sweep)
        return connection

    async def _introduced(self, slot: _Slot) -> Connection:
        """Return a new connection that nobody uses yet. Raises NotConnected."""
        connection = await connect(
            slot.address,
            on_push=self._on_push,
            limits=self.limits,
            within_seconds=self._connect_seconds,
            on_lost=lambda lost: self._lost(lost, slot.connection_class),
            sign=self._sign,
            tls=self._tls,
        )
        if self._introduce is None:
            return connection
        self._unintroduced.add(connection)
        is_introduced = False
        try:
            async with asyncio.timeout(self._connect_seconds):
                await self._introduce(connection)
            is_introduced = connection.is_open
        except TimeoutError as error:
            raise NotConnected(
                f"no introduction to {slot.address} within {self._connect_seconds:g} s"
            ) from error
        except LinkError as error:
            raise NotConnected(str(error)) from error
        finally:
            if not is_introduced:
                connection.close()
            self._unintroduced.discard(connection)
        if not is_introduced:
            raise NotConnected(f"{slot.address} closed the connection after the introduction")
        return connection

    def _lost(self, connection: Connection, connection_class: str) -> None:
        if self._on_lost is not None and not self._closed and connection not in self._unintroduced:
            self._on_lost(connection, connection_class)

    def _back_off(self, slot: _Slot, reason: str) -> None:
        slot.reason = reason
        slot.backoff_seconds = min(max(slot.backoff_seconds * 2, BACKOFF_SECONDS_MIN), BACKOFF_SECONDS_MAX)
        wait_seconds = slot.backoff_seconds * self.rng.uniform(0.5, 1.0)
        slot.retry_at = asyncio.get_running_loop().time() + wait_seconds

    def _sweep(self) -> None:
        """Close idle connections before the server does, and forget unused addresses."""
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
