"""The socket objects that the product looks at: an address, a descriptor number, and `accept` of a listener."""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import Protocol

from gantry_simulation.network.endpoint import Address, Endpoint


class Descriptors(Protocol):
    """Numbers of a process's descriptors. As in a kernel, the next one is the lowest that is free."""

    def take_descriptor(self) -> int:
        """Return a free number."""
        ...

    def free_descriptor(self, number: int) -> None:
        """Let a number be used again."""
        ...


class FakeSocket:
    """A connected socket, as `get_extra_info("socket")` returns it."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(self, local: Address, remote: Address | None, descriptors: Descriptors) -> None:
        self._local, self._remote, self._descriptors = local, remote, descriptors
        self._descriptor = descriptors.take_descriptor()
        self.resets: bool = False
        """It lingers for no time: closing it sends a reset."""

    def fileno(self) -> int:
        """Return the descriptor number, -1 once closed. It names no real file."""
        return self._descriptor

    def close(self) -> None:
        """Free the descriptor. What it belongs to ends by its own `close`."""
        if self._descriptor >= 0:
            self._descriptors.free_descriptor(self._descriptor)
            self._descriptor = -1

    def getsockname(self) -> tuple[str, int]:
        """Return the local host and port."""
        return self._local.host, self._local.port

    def getpeername(self) -> tuple[str, int]:
        """Return the remote host and port."""
        if self._remote is None:
            raise OSError(107, "Transport endpoint is not connected")
        return self._remote.host, self._remote.port

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """Do nothing, except for SO_LINGER with no time: no other option changes the simulated network."""
        if (level, option) == (socket.SOL_SOCKET, socket.SO_LINGER) and isinstance(value, bytes):
            self.resets = struct.unpack("ii", value) == (1, 0)

    def setblocking(self, flag: bool) -> None:
        """Do nothing: nothing blocks."""


class AcceptedSocket(FakeSocket):
    """A connection that the product accepted by itself, for `connect_accepted_socket`."""

    def __init__(self, endpoint: Endpoint, descriptors: Descriptors) -> None:
        super().__init__(endpoint.local, endpoint.peer.local, descriptors)
        self.endpoint = endpoint


class ListeningSocket(FakeSocket):
    """A bound port with the connections that nobody accepted yet. Duplicates share them."""

    def __init__(self, local: Address, backlog: int, descriptors: Descriptors) -> None:
        super().__init__(local, None, descriptors)
        self.local, self.backlog = local, backlog
        self.pending: deque[Endpoint] = deque()

    def accept(self) -> tuple[FakeSocket, tuple[str, int]]:
        """Return the first pending connection. Raises BlockingIOError when there is none."""
        if not self.pending:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        endpoint = self.pending.popleft()
        accepted = AcceptedSocket(endpoint, self._descriptors)
        return accepted, accepted.getpeername()

    def dup(self) -> ListeningSocket:
        """Return a socket with the same pending connections."""
        other = ListeningSocket(self.local, self.backlog, self._descriptors)
        other.pending = self.pending
        return other
