"""Takes every connection that waits at a listening socket, in the turn of the loop in which it accepted one.

uvloop accepts one connection a turn (libuv since 1.45). Where turns are long because there is much to do, whoever connects would wait
for as many turns as there are others before it, with a request that nobody reads: of 256 clients that came together to a gateway that
they kept busy, 98 were accepted after three seconds. Knows no protocol.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

ACCEPTS_MAX = 256
"""Connections taken at once; the others in the next turn."""


class Accepting:
    """The connections that wait at one listening socket, which does not block.

    `has_descriptor(number)` says whether a connection may have its descriptor; one that may not is the last of its turn, and its
    protocol has to refuse it: a crowd must not use up what is kept for files.
    """

    def __init__(self, listener: socket.socket, has_descriptor: Callable[[int], bool]) -> None:
        self._listener = listener
        self._has_descriptor = has_descriptor
        self._begun: set[asyncio.Task[object]] = set()

    def close(self) -> None:
        """Close the socket."""
        self._listener.close()

    def soon(self, make: Callable[[], asyncio.BaseProtocol]) -> None:
        """Take what waits when the loop has accepted a connection; `make` makes the protocol of each."""
        asyncio.get_running_loop().call_soon(self._take, make)

    def _take(self, make: Callable[[], asyncio.BaseProtocol]) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTS_MAX):
            try:
                connection, _address = self._listener.accept()
            except OSError:
                return  # nobody waits, no descriptor is left, or the listener is closed: for the loop to see
            connection.setblocking(False)
            begun = loop.create_task(loop.connect_accepted_socket(make, connection), name="accepted")
            self._begun.add(begun)
            begun.add_done_callback(self._begun.discard)
            if not self._has_descriptor(connection.fileno()):
                return
