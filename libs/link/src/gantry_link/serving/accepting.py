"""Accepts all pending connections of a listening socket in the turn in which the loop accepts one.

uvloop accepts one connection per turn (libuv since 1.45). On a busy server with long turns, each new client would wait as many turns
as there are clients before it, and its request would stay unread: of 256 clients that connected together to a busy gateway, 98 were
accepted after three seconds. Knows no protocol.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

ACCEPTS_MAX = 256
"""Connections accepted per turn; the others wait for the next turn."""


class Accepting:
    """Accepts the pending connections of one non-blocking listening socket.

    `has_descriptor(number)` returns whether a connection may use this descriptor. If not, that connection is the last one accepted
    in its turn and its protocol must refuse it: the remaining descriptors are reserved for files.
    """

    def __init__(self, listener: socket.socket, has_descriptor: Callable[[int], bool]) -> None:
        self._listener = listener
        self._has_descriptor = has_descriptor
        self._begun: set[asyncio.Task[object]] = set()

    def close(self) -> None:
        """Close the socket."""
        self._listener.close()

    def soon(self, make: Callable[[], asyncio.BaseProtocol]) -> None:
        """Accept pending connections soon after the loop accepted one. `make` creates the protocol of each."""
        asyncio.get_running_loop().call_soon(self._take, make)

    def _take(self, make: Callable[[], asyncio.BaseProtocol]) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTS_MAX):
            try:
                connection, _address = self._listener.accept()
            except OSError:
                return  # none pending, no descriptor left, or the listener is closed: the loop handles these
            connection.setblocking(False)
            begun = loop.create_task(loop.connect_accepted_socket(make, connection), name="accepted")
            self._begun.add(begun)
            begun.add_done_callback(self._begun.discard)
            if not self._has_descriptor(connection.fileno()):
                return
