"""The socket objects that the product looks at: an address, a descriptor number, and `accept` of a listener."""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import Protocol

from gantry_simulation.network.endpoint import Address, Endpoint
from gantry_simulation.network.network import Listener
from gantry_simulation.world.not_simulated import NotSimulated

Name = tuple[str, int] | tuple[str, int, int, int]
"""Host and port; with IPv6 also flow and scope, both 0."""


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

    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(
        self, local: Address, remote: Address | None, descriptors: Descriptors, *, is_mapped: bool = False
    ) -> None:
        """`is_mapped`: a listener of `::` accepted it, which shows IPv4 addresses as IPv6 ones."""
        self._local, self._remote, self._descriptors = local, remote, descriptors
        self.family = socket.AF_INET6 if is_mapped or ":" in local.host else socket.AF_INET
        self._descriptor = descriptors.take_descriptor()
        self.resets: bool = False
        """It lingers for no time: closing it sends a reset."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):  # what copying and printing look for
            raise AttributeError(name)
        raise NotSimulated(f"the simulated socket has no {name}")

    def fileno(self) -> int:
        """Return the descriptor number, -1 once closed. It names no real file."""
        return self._descriptor

    def close(self) -> None:
        """Free the descriptor. What it belongs to ends by its own `close`."""
        if self._descriptor >= 0:
            self._descriptors.free_descriptor(self._descriptor)
            self._descriptor = -1

    def getsockname(self) -> Name:
        """Return the local address."""
        return self._name(self._local)

    def getpeername(self) -> Name:
        """Return the remote address."""
        if self._remote is None:
            raise OSError(107, "Transport endpoint is not connected")
        return self._name(self._remote)

    def _name(self, address: Address) -> Name:
        if self.family == socket.AF_INET:
            return address.host, address.port
        is_ipv6 = ":" in address.host
        return (address.host if is_ipv6 else f"::ffff:{address.host}", address.port, 0, 0)

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """Do nothing, except for SO_LINGER with no time: no other option changes the simulated network."""
        if (level, option) == (socket.SOL_SOCKET, socket.SO_LINGER) and isinstance(value, bytes):
            self.resets = struct.unpack("ii", value) == (1, 0)

    def setblocking(self, flag: bool) -> None:
        """Do nothing: nothing blocks."""


class AcceptedSocket(FakeSocket):
    """A connection that the product accepted by itself, for `connect_accepted_socket`."""

    def __init__(self, endpoint: Endpoint, descriptors: Descriptors, *, is_mapped: bool) -> None:
        super().__init__(endpoint.local, endpoint.peer.local, descriptors, is_mapped=is_mapped)
        self.endpoint = endpoint


class ListeningSocket(FakeSocket):
    """A bound port with the connections that nobody accepted yet. Duplicates share them."""

    listener: Listener
    """Its entry in the network."""

    def __init__(self, local: Address, backlog: int, descriptors: Descriptors) -> None:
        super().__init__(local, None, descriptors)
        self.local, self.backlog = local, backlog
        self.pending: deque[Endpoint] = deque()

    @property
    def is_dual(self) -> bool:
        """Whether it takes IPv4 and IPv6."""
        return self.local.host == "::"

    def accept(self) -> tuple[FakeSocket, Name]:
        """Return the first pending connection. Raises BlockingIOError when there is none."""
        if not self.pending:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        endpoint = self.pending.popleft()
        accepted = AcceptedSocket(endpoint, self._descriptors, is_mapped=self.is_dual)
        return accepted, accepted.getpeername()

    def dup(self) -> ListeningSocket:
        """Return a socket with the same pending connections."""
        other = ListeningSocket(self.local, self.backlog, self._descriptors)
        other.pending, other.listener = self.pending, self.listener
        return other
