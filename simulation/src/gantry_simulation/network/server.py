"""A listening server of one process: accepts one connection per turn, as uvloop does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gantry_simulation.network.endpoint import Endpoint
from gantry_simulation.network.fake_socket import ListeningSocket
from gantry_simulation.world.process_loop import ProcessLoop

Accept = Callable[[Endpoint], None]


class Server(asyncio.AbstractServer):
    """What `create_server` returns. The port is free after `close`."""

    def __init__(
        self, loop: ProcessLoop, sock: ListeningSocket, accept: Accept, free: Callable[[], None]
    ) -> None:
        """`accept` begins a connection, in a turn; `free` releases the port."""
        self._loop, self._accept, self._free = loop, accept, free
        self._socket: ListeningSocket | None = sock
        self._pending = sock.pending
        self._accept_is_due = False
        self.arrived()

    @property
    def sockets(self) -> Sequence[ListeningSocket]:
        """The listening socket; none after `close`."""
        return () if self._socket is None else (self._socket,)

    def is_serving(self) -> bool:
        """Whether it accepts connections."""
        return self._socket is not None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of its process."""
        return self._loop

    async def start_serving(self) -> None:
        """Do nothing: a server listens from its creation."""

    def arrived(self) -> None:
        """Accept pending connections in turns from now on. The network calls it."""
        if self._pending and not self._accept_is_due:
            self._accept_is_due = True
            self._loop.deliver(self._accept_one)

    def _accept_one(self) -> None:
        self._accept_is_due = False
        if self._socket is None or not self._pending:
            return
        self._accept(self._pending.popleft())
        self.arrived()

    def close(self) -> None:
        """Stop listening. Pending connections are reset."""
        if self._socket is None:
            return
        self._socket = None
        self._free()
        while self._pending:
            self._pending.popleft().leave(reset=True)

    async def wait_closed(self) -> None:
        """Return at once: connections outlive their server."""
