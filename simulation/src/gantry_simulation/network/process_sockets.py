"""The network of one process, behind its event loop: `create_server`, `create_connection` and the rest."""

from __future__ import annotations

import asyncio
import errno
import heapq
import socket
from typing import Any

from gantry_simulation.network.datagram import DatagramTransport
from gantry_simulation.network.endpoint import Address, Endpoint
from gantry_simulation.network.fake_socket import AcceptedSocket, FakeSocket, ListeningSocket
from gantry_simulation.network.network import LOOPBACKS, WILDCARDS, Host, Listener, Network
from gantry_simulation.network.server import Server
from gantry_simulation.network.transport import Transport
from gantry_simulation.world.not_simulated import NotSimulated
from gantry_simulation.world.ports import ProtocolFactory
from gantry_simulation.world.process_loop import ProcessLoop

BACKLOG = 100
FIRST_DESCRIPTOR = 10
UNUSED_OPTIONS = frozenset(
    {"ssl", "family", "flags", "proto", "type", "reuse_address", "start_serving", "local_addr"}
)
"""Accepted while they are empty or say what happens anyway."""


class ProcessSockets:
    """Implements the port `Sockets` of the loop."""

    def __init__(self, network: Network, host: Host) -> None:
        self._network, self._host = network, host
        self._next_descriptor = FIRST_DESCRIPTOR
        self._free_descriptors: list[int] = []

    @property
    def _loop(self) -> ProcessLoop:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        return loop

    def take_descriptor(self) -> int:
        """Return the lowest free descriptor number of this process."""
        if self._free_descriptors:
            return heapq.heappop(self._free_descriptors)
        self._next_descriptor += 1
        return self._next_descriptor

    def free_descriptor(self, number: int) -> None:
        """Let a number be used again."""
        heapq.heappush(self._free_descriptors, number)

    def listening_socket(
        self, host: str, port: int, *, backlog: int, reuse_port: bool = False
    ) -> ListeningSocket:
        """Return a bound socket; the port 0 chooses one. Raises OSError when the port is in use."""
        host = "127.0.0.1" if host == "localhost" else host
        if host != self._host.address and host not in (*WILDCARDS, *LOOPBACKS):
            raise OSError(errno.EADDRNOTAVAIL, f"Cannot assign requested address {host}")
        port = port or self._network.free_port(self._host)
        sock = ListeningSocket(Address(host, port), backlog, self)
        # Bound and without a server it keeps connections waiting, as a kernel does between bind and accept.
        listener = Listener(self, host, reuse_port, backlog, lambda: len(sock.pending), sock.pending.append)
        try:
            self._network.listen(self._host, port, listener)
        except OSError:
            sock.close()
            raise
        sock.listener = listener
        return sock

    def reachable_address(self, listen: str) -> str:
        """Return where others reach what listens on this address."""
        return self._host.address if listen in WILDCARDS else listen

    async def listen(self, factory: ProtocolFactory, host: Any, port: Any, **options: Any) -> Server:
        """Listen on a port, or on the bound socket `sock`."""
        given: ListeningSocket | None = options.pop("sock", None)
        backlog: int = options.pop("backlog", BACKLOG)
        reuse_port = bool(options.pop("reuse_port", False))
        _check(options)
        loop = self._loop
        bound = given or self.listening_socket(host, port or 0, backlog=backlog, reuse_port=reuse_port)
        listener = bound.listener

        def accept(endpoint: Endpoint) -> None:
            sock = FakeSocket(endpoint.local, endpoint.peer.local, self, is_mapped=bound.is_dual)
            loop.call_soon(Transport(loop, endpoint, factory(), sock).start)

        def free() -> None:
            self._network.close_port(self._host, bound.local.port, listener)
            bound.close()

        server = Server(loop, bound, accept, free)

        def arrived(endpoint: Endpoint) -> None:
            bound.pending.append(endpoint)
            server.arrived()

        listener.arrived = arrived
        return server

    async def connect(
        self, factory: ProtocolFactory, host: Any, port: Any, **options: Any
    ) -> tuple[Transport, asyncio.BaseProtocol]:
        """Connect to a host and port. Raises OSError as a kernel would; cancelled, it closes the connection that comes late."""
        _check(options)
        host = "127.0.0.1" if host == "localhost" else str(host)
        loop = self._loop
        waiter: asyncio.Future[Endpoint] = loop.create_future()

        def connected(endpoint: Endpoint) -> None:
            if waiter.done() or loop.is_closed():
                endpoint.leave(reset=True)
            else:
                loop.deliver(_resolve, waiter, endpoint)

        def failed(error: OSError) -> None:
            loop.deliver(_fail, waiter, error)

        self._network.connect(self._host, self, Address(host, int(port)), connected, failed)
        endpoint = await waiter
        return await self._begin(endpoint, factory, FakeSocket(endpoint.local, endpoint.peer.local, self))

    async def open_datagram(
        self, factory: ProtocolFactory, **options: Any
    ) -> tuple[DatagramTransport, asyncio.BaseProtocol]:
        """Return an endpoint that is connected to `remote_addr`."""
        remote = options.pop("remote_addr", None)
        _check(options)
        if remote is None:
            raise NotSimulated("the simulated network has no datagrams without remote_addr")
        loop = self._loop
        local = Address(self._host.address, self._network.free_port(self._host))
        protocol = factory()
        transport = DatagramTransport(loop, protocol, FakeSocket(local, Address(*remote), self))
        started: asyncio.Future[None] = loop.create_future()
        loop.call_soon(transport.start, started)
        await started
        return transport, protocol

    async def serve(
        self, factory: ProtocolFactory, sock: Any, **options: Any
    ) -> tuple[Transport, asyncio.BaseProtocol]:
        """Begin a connection that `ListeningSocket.accept` returned."""
        _check(options)
        assert isinstance(sock, AcceptedSocket)
        return await self._begin(sock.endpoint, factory, sock)

    async def resolve(self, host: Any, port: Any, **options: Any) -> list[Any]:
        """Return the address itself: names are addresses in the simulated network."""
        _check(options)
        family = socket.AF_INET6 if ":" in str(host) else socket.AF_INET
        return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def _begin(
        self, endpoint: Endpoint, factory: ProtocolFactory, sock: FakeSocket
    ) -> tuple[Transport, asyncio.BaseProtocol]:
        loop = self._loop
        protocol = factory()
        transport = Transport(loop, endpoint, protocol, sock)
        started: asyncio.Future[None] = loop.create_future()
        loop.call_soon(transport.start, started)
        try:
            await started
        except BaseException:
            transport.close()
            raise
        return transport, protocol


def _resolve(waiter: asyncio.Future[Endpoint], endpoint: Endpoint) -> None:
    if waiter.done():
        endpoint.leave(reset=True)
    else:
        waiter.set_result(endpoint)


def _fail(waiter: asyncio.Future[Endpoint], error: OSError) -> None:
    if not waiter.done():
        waiter.set_exception(error)


def _check(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if name not in UNUSED_OPTIONS or (name in ("ssl", "local_addr") and value is not None):
            raise NotSimulated(f"the simulated network has no option {name}={value!r}")
