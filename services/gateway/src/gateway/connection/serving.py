"""The HTTP server: its own protocol and socket, and a shutdown that lets running requests finish."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from uvicorn import Config, Server

from gantry_chassis.http.in_order import keep_order, shut_down
from gantry_chassis.http.server import Door, OpenDoor, open_door
from gantry_chassis.machine.addresses import ListeningSocket, listening_socket
from gantry_chassis.machine.memory import forget_cycles, give_back
from gantry_chassis.peers.budget import Budget
from gantry_link.serving.accepting import Accepting
from gateway.connection.fast_path import FastPath
from gateway.connection.fast_protocol import FastProtocol
from gateway.connection.http_protocol import BOUNDS, GatewayProtocol

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 75
SWEEP_SECONDS = 15.0
PEAK_BYTES = 32 * 1024 * 1024
"""The server returns memory to the system when the peak since the last sweep exceeds current use by this much."""


class HttpServer:
    """Serves an ASGI application on one port until closed. The memory that clients use counts in the process's `budget`."""

    def __init__(
        self,
        app: Callable[..., Any],
        fast_path: FastPath | None,
        budget: Budget,
        *,
        drain_seconds: int,
        listen: ListeningSocket = listening_socket,
    ) -> None:
        """`listen` opens the port."""
        self.budget = budget
        self._listen = listen
        bounds = (budget, BOUNDS)
        self._protocol = (
            partial(FastProtocol, fast_path, *bounds) if fast_path else partial(GatewayProtocol, *bounds)
        )
        self._accepting: Accepting | None = None
        self._open_door: OpenDoor | None = None
        config = Config(
            app,
            http=cast("type[asyncio.Protocol]", self._accepted),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=drain_seconds,
        )
        config.load()
        self._server = Server(config)
        keep_order(self._server)
        self._server.lifespan = config.lifespan_class(config)
        self._sockets: list[socket.socket] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int, *, reuse_port: bool, door: Door | None = None) -> int:
        """Listen and return the port; with a `door`, for TLS too. Raises OSError if the port is taken."""
        listener = self._listen(host, port, backlog=BACKLOG, reuse_port=reuse_port)
        self._sockets = [listener]
        self._accepting = Accepting(listener, self.budget.has_descriptor)
        # Call uvicorn's startup and shutdown only: its main loop would wake an idle process and replace the
        # signal handlers.
        await self._server.startup(sockets=[] if door else self._sockets)
        if door is not None:
            self._open_door = open_door(door, listener, self._server, self.budget)
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self.sweep)
        return int(listener.getsockname()[1])

    async def close(self) -> None:
        """Stop listening, let running requests finish, close the connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._open_door is not None:
            self._open_door.close()
        await shut_down(self._server, self._sockets)
        await asyncio.sleep(0)

    def _accepted(self, **options: Any) -> GatewayProtocol:
        """Create the protocol of an accepted connection; if uvicorn accepted it, accept the connections queued behind it."""
        assert self._accepting is not None, "uvicorn listens since `start`"
        if self._open_door is None:
            self._accepting.soon(partial(self._protocol, **options))
        return self._protocol(**options)

    def sweep(self) -> None:
        """Close stalled connections, return memory when much is free, and schedule the next sweep."""
        loop = asyncio.get_running_loop()
        self.cut_stalled(loop.time())
        if self.budget.take_peak() - self.budget.held > PEAK_BYTES:
            forget_cycles()
            give_back()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweeper = loop.call_later(SWEEP_SECONDS, self.sweep)

    def cut_stalled(self, now: float) -> None:
        """Close connections that have stalled for too long at `now`."""
        for connection in self.connections:
            connection.cut_if_stalled(now)

    @property
    def connections(self) -> list[GatewayProtocol]:
        """The open connections."""
        return [one for one in self._server.server_state.connections if isinstance(one, GatewayProtocol)]
