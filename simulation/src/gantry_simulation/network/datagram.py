"""A connected datagram endpoint. It knows its two addresses, as a kernel tells them before anything is sent, and sends nothing."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from gantry_simulation.network.fake_socket import FakeSocket
from gantry_simulation.world.not_simulated import NotSimulated
from gantry_simulation.world.process_loop import ProcessLoop


class DatagramTransport(asyncio.DatagramTransport):
    """What `create_datagram_endpoint` returns. To send raises NotSimulated; nothing arrives."""

    def __init__(self, loop: ProcessLoop, protocol: asyncio.BaseProtocol, sock: FakeSocket) -> None:
        """`start` begins it."""
        super().__init__(
            {"sockname": sock.getsockname(), "peername": sock.getpeername(), "socket": sock},
        )
        self._loop, self._socket = loop, sock
        self._protocol = cast("asyncio.DatagramProtocol", protocol)
        self._closing = False

    def start(self, started: asyncio.Future[None]) -> None:
        """Call `connection_made`. Call it in a turn."""
        self._protocol.connection_made(self)
        if not started.done():
            started.set_result(None)

    def sendto(self, data: Any, addr: Any = None) -> None:  # noqa: ARG002 - asyncio's signature
        """Raise NotSimulated."""
        raise NotSimulated("the simulated network carries no datagrams")

    def is_closing(self) -> bool:
        """Whether `close` or `abort` was called."""
        return self._closing

    def close(self) -> None:
        """End it, then call `connection_lost(None)`."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._ended)

    def abort(self) -> None:
        """As `close`: nothing waits to be sent."""
        self.close()

    def _ended(self) -> None:
        self._protocol.connection_lost(None)
        self._socket.close()
