"""What the loop of a process needs from its network and its threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Jobs(Protocol):
    """Threads that take calls."""

    def run(self, function: Callable[[*Ts], T], *arguments: *Ts) -> asyncio.Future[T]:
        """Call `function` in a thread."""
        ...


class Sockets(Protocol):
    """The network of one process, as asyncio's loops offer it. Options that are not listed raise NotSimulated."""

    async def listen(self, factory: ProtocolFactory, host: Any, port: Any, **options: Any) -> Any:
        """As `create_server`, with `sock`, `backlog` and `ssl=None`."""
        ...

    async def connect(self, factory: ProtocolFactory, host: Any, port: Any, **options: Any) -> Any:
        """As `create_connection`, with `ssl=None`."""
        ...

    async def open_datagram(self, factory: ProtocolFactory, **options: Any) -> Any:
        """As `create_datagram_endpoint`, with `remote_addr`."""
        ...

    async def serve(self, factory: ProtocolFactory, sock: Any, **options: Any) -> Any:
        """As `connect_accepted_socket`."""
        ...

    async def resolve(self, host: Any, port: Any, **options: Any) -> Any:
        """As `getaddrinfo`."""
        ...
