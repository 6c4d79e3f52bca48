"""The port of an HTTP/2 server: accepts connections, checks them, and drains them at the end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

from gantry_link.http2.connection import Handler, Http2Connection, MakeHandler
from gantry_link.http2.limits import Http2Limits
from gantry_link.serving.accepting import Accepting
from gantry_link.serving.budget import Budget
from gantry_link.serving.output_watch import OutputWatch
from gantry_link.serving.tls_door import OpenDoor, TlsDoor

BACKLOG = 2048
PROTOCOLS = ("h2",)
"""What TLS clients are offered (ALPN); clients of gRPC refuse a connection without it."""
GOODBYE_SECONDS = 1.0
"""Time for clients to answer the last goodbye, after all calls are over."""


class ListeningSocket(Protocol):
    """Opens a port."""

    def __call__(self, host: str, port: int, *, backlog: int, reuse_port: bool = False) -> socket.socket:
        """Return a listening, non-blocking socket. Raises OSError."""
        ...


class Http2Server:
    """Serves one port until closed. The process's `budget` counts what clients make it hold."""

    def __init__(
        self,
        make_handler: MakeHandler,
        budget: Budget,
        *,
        drain_seconds: float,
        listen: ListeningSocket,
        limits: Http2Limits,
    ) -> None:
        """`make_handler` returns what serves the calls of a connection. `listen` opens the port. `drain_seconds` bounds how long a shutdown waits for calls."""
        self.budget, self.limits = budget, limits
        self.watch = OutputWatch()
        self.connections: dict[Http2Connection, None] = {}
        self._make_handler, self._listen, self._drain_seconds = make_handler, listen, drain_seconds
        self._listener: asyncio.Server | None = None
        self._accepting: Accepting | None = None
        self._open_door: OpenDoor | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self.is_draining = False
        self._changed = asyncio.Event()
        """A call or a connection ended while the server drains."""

    async def start(self, host: str, port: int, *, reuse_port: bool, door: TlsDoor | None = None) -> int:
        """Listen and return the port; with a `door`, for TLS too. Raises OSError if the port is taken."""
        listener = self._listen(host, port, backlog=BACKLOG, reuse_port=reuse_port)
        number = int(listener.getsockname()[1])
        if door is not None:
            self._open_door = door.open(
                listener, self._new_connection, self._refusal_at_the_door, protocols=PROTOCOLS
            )
            return number
        self._accepting = Accepting(listener, self.budget.has_descriptor)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._accepted, sock=listener, backlog=BACKLOG)
        return number

    def drain(self) -> None:
        """Accept no more connections, and let clients begin no more calls. Those that they have begun continue."""
        self.is_draining = True
        for listener in (self._listener, self._accepting, self._open_door):
            if listener is not None:
                listener.close()
        for connection in list(self.connections):
            connection.drain()

    async def close(self) -> None:
        """Drain, wait for running calls at most `drain_seconds`, end the others with UNAVAILABLE, and close all connections."""
        self.drain()
        await self._wait(self._drain_seconds, lambda: self._is_running)
        for connection in list(self.connections):
            connection.end_calls()
        await self._wait(GOODBYE_SECONDS, lambda: bool(self.connections))
        for connection in list(self.connections):
            connection.close()
        await self._wait(GOODBYE_SECONDS, lambda: bool(self.connections))
        for connection in list(self.connections):
            connection.abort()
        while self.connections:
            self._changed.clear()
            await self._changed.wait()
        if self._listener is not None:
            await self._listener.wait_closed()
        self.watch.close()
        if self._sweeper is not None:
            self._sweeper.cancel()

    # Called by connections

    def handler_of(self, connection: Http2Connection) -> Handler:
        """Return what serves the calls of a connection."""
        return self._make_handler(connection)

    def refusal_of(self, descriptor: int) -> tuple[str, str] | None:
        """Return why a new connection is refused as one word and as a message, or None."""
        if self.budget.has_descriptor(descriptor):
            return None
        return "descriptors", self.budget.descriptor_refusal()

    def connected(self, connection: Http2Connection) -> None:
        """Keep a new connection."""
        self.connections[connection] = None
        if self._sweeper is None:
            self._sweep_later()

    def disconnected(self, connection: Http2Connection) -> None:
        """Forget a connection."""
        self.watch.forget(connection)
        self.connections.pop(connection, None)
        self._changed.set()

    def calls_ended(self) -> None:
        """Look again whether the shutdown has to wait."""
        self._changed.set()

    def sweep(self) -> None:
        """Check all connections."""
        now = asyncio.get_running_loop().time()
        for connection in list(self.connections):
            connection.sweep(now)

    @property
    def _is_running(self) -> bool:
        return any(connection.is_running for connection in self.connections)

    async def _wait(self, seconds: float, is_needed: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(seconds):
                while is_needed():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return

    def _refusal_at_the_door(self, descriptor: int, _waiting: int) -> tuple[str, str] | None:
        return self.refusal_of(descriptor)

    def _accepted(self) -> Http2Connection:
        """Create the protocol of a connection that the loop accepted, and accept the other pending ones."""
        if self._accepting is not None:
            self._accepting.soon(self._new_connection)
        return self._new_connection()

    def _new_connection(self) -> Http2Connection:
        return Http2Connection(self)

    def _sweep_later(self) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(self.limits.sweep_seconds, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        self.sweep()
        if self.connections:
            self._sweep_later()
