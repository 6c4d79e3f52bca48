"""Accepts connections and passes every whole frame to one synchronous handler. Several ports may share a server.

Knows no request codes. An exception of the handler is answered or closes the connection, depending on the error.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gantry_link.limits import LinkLimits
from gantry_link.serving.accepting import Accepting
from gantry_link.serving.budget import Budget, NoBudget
from gantry_link.serving.output_watch import OutputWatch
from gantry_link.serving.peer import Peer
from gantry_link.serving.tls_door import OpenDoor, TlsDoor, certificate_name
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.frames.frame_stream import RawFrame

Handler = Callable[[Peer, RawFrame], None]
"""Called for every whole frame, before the writes of the turn. It must not block.

It decodes the frame itself and drops answers (`Command.is_response`) whose call is no longer open.
"""

BACKLOG = 1024
EVERY_ADDRESS = "::"
"""IPv4 and IPv6, as for HTTP."""
SWEEPS_PER_IDLE_TIME = 12
CLOSING_SECONDS_MAX = 10.0
"""A closing peer that does not read its last bytes is aborted after this time."""
REPORT_CHARS_MAX = 512
CERTIFICATE = "certificate"
"""Attribute of a peer with a verified certificate: the name in it."""


@dataclass(slots=True)
class ServerMetrics:
    """Counts of connection events. Plain ints, read by metrics."""

    accepted: int = 0
    refused: int = 0
    closed_idle: int = 0
    closed_stalled: int = 0
    closed_malformed: int = 0
    closed_late: int = 0
    closed_hoarding: int = 0
    failed_requests: int = 0


class RemotingServer:
    """A listener for the remoting protocol."""

    def __init__(
        self,
        handler: Handler,
        *,
        on_connect: Callable[[Peer], None] | None = None,
        on_close: Callable[[Peer], None] | None = None,
        on_failure: Callable[[Peer, Exception], None] | None = None,
        limits: LinkLimits | None = None,
        budget: Budget | None = None,
        peers: dict[int, Peer] | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        """`on_failure` gets every exception of the handler that is our own bug, not the client's.

        `peers` is where it keeps its open connections by number: given by a caller that shares them with parts made before.
        `numbers` numbers the connections. Servers whose connections the same parts know by number must share it.
        `budget` is that of the process. It is notified of every connection refused or closed because of its peer.
        """
        self.handler = handler
        self.limits = limits or LinkLimits()
        self.budget: Budget = budget or NoBudget()
        self.watch = OutputWatch()
        self.metrics = ServerMetrics()
        self.peers: dict[int, Peer] = {} if peers is None else peers
        self._on_connect, self._on_close, self._on_failure = on_connect, on_close, on_failure
        self._listeners: list[asyncio.Server] = []
        self._accepting: list[Accepting] = []
        self._open_doors: list[OpenDoor] = []
        self._numbers = itertools.count(1) if numbers is None else numbers
        self._sweeper: asyncio.TimerHandle | None = None
        self._emptied = asyncio.Event()
        self._is_closing = False

    async def listen(self, host: str, port: int, door: TlsDoor | None = None) -> int:
        """Accept connections on another port (0: any free one) and return its number. Raises OSError if it is in use.

        `::` accepts IPv4 too. With a `door` the port speaks TLS too, and the name in a client's verified certificate becomes
        `attributes["certificate"]` of its peer.
        """
        self._is_closing = False
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {"backlog": BACKLOG} if door is None else {"start_serving": False}
        if host == EVERY_ADDRESS:
            listener = await loop.create_server(self._accepted, sock=_on_every_address(port), **options)
        else:
            listener = await loop.create_server(self._accepted, host, port, **options)
        self._listeners.append(listener)
        sockets = [_duplicate(one) for one in listener.sockets]
        if door is None:
            self._accepting += [Accepting(one, self.budget.has_descriptor) for one in sockets]
        else:
            self._open_doors += [self._opened(door, one) for one in sockets]
        if self._sweeper is None:
            self._sweeper = loop.call_later(self._sweep_seconds, self._sweep)
        return int(listener.sockets[0].getsockname()[1])

    async def close(self, drain_seconds: float = 0.0) -> None:
        """Stop accepting, send pending answers for at most `drain_seconds`, then abort the remaining connections."""
        self._is_closing = True
        self.stop_accepting()
        for peer in list(self.peers.values()):
            peer.close()
        try:
            async with asyncio.timeout(drain_seconds):
                await self._wait_until_empty()
        except TimeoutError:
            for peer in list(self.peers.values()):
                peer.abort()
            await self._wait_until_empty()
        for listener in self._listeners:
            await listener.wait_closed()
        self.watch.close()
        if self._sweeper is not None:
            self._sweeper.cancel()

    def stop_accepting(self) -> None:
        """Accept no new connections; keep the existing ones."""
        for listener in (*self._listeners, *self._accepting, *self._open_doors):
            listener.close()

    # Called by Peer

    def connected(self, peer: Peer) -> None:
        """Count and announce a new connection, or refuse it if there are too many."""
        if self._is_closing:  # it was being accepted during close(), which does not know it
            peer.abort()
            return
        refusal = self._refusal_of(peer.descriptor, 0)
        if refusal is not None:
            self.metrics.refused += 1
            self._report_refusal(peer, *refusal)
            peer.abort()
            return
        self.metrics.accepted += 1
        self.peers[peer.id] = peer
        self._emptied.clear()
        peer.last_active = asyncio.get_running_loop().time()
        if self._open_doors:
            name = certificate_name(peer.certificate)
            if name:
                peer.attributes[CERTIFICATE] = name
        if self._on_connect is not None:
            self._on_connect(peer)

    def disconnected(self, peer: Peer) -> None:
        """Forget a connection and notify its watchers."""
        self.watch.forget(peer)
        if self.peers.pop(peer.id, None) is None:
            return
        if not self.peers:
            self._emptied.set()
        watchers = [*peer.on_close, *([self._on_close] if self._on_close else [])]
        for notify in watchers:
            try:
                notify(peer)
            except Exception as error:  # noqa: BLE001 - the other watchers must be notified too
                self._report(peer, error)

    def malformed(self, peer: Peer, error: WireError) -> None:
        """Close an invalid stream after its pending answers, as RocketMQ does."""
        self.metrics.closed_malformed += 1
        self._report_refusal(peer, "malformed", f"it sent an invalid frame: {error}")
        peer.close()

    def spoke_tls(self, peer: Peer) -> None:
        """Close a connection that wants TLS, which is off here."""
        self.metrics.closed_malformed += 1
        self._report_refusal(peer, "tls", "it speaks TLS, and tls_mode=disabled")
        peer.abort()

    def overflowed(self, peer: Peer, message: str) -> None:
        """Count a peer that is being closed because it does not read its answers."""
        self.metrics.closed_stalled += 1
        self._report_refusal(peer, "stalled", message)

    def hoarded(self, peer: Peer, message: str) -> None:
        """Count a peer that is being closed because the budget needs the bytes of its half frame."""
        self.metrics.closed_hoarding += 1
        self._report_refusal(peer, "hoarding", message)

    def failed(self, peer: Peer, frame: RawFrame, error: Exception) -> None:
        """Answer an exception of the handler: a refusal with its code and remark, our own bug with code 1 as in Java."""
        if isinstance(error, WireError) and error.close:
            self.malformed(peer, error)
            return
        if not isinstance(error, WireError):
            self.metrics.failed_requests += 1
            self._report(peer, error)
        try:
            command = decode_command(frame)
        except WireError as unreadable:
            self.malformed(peer, unreadable)
            return
        if command.is_response or command.is_oneway:
            return
        code, remark, fields = _refusal(error)
        peer.send(encode_response(code, command.opaque, fields, remark=remark))

    def _opened(self, door: TlsDoor, listener: socket.socket) -> OpenDoor:
        listener.listen(BACKLOG)
        return door.open(listener, self._new_peer, self._refusal_at_the_door)

    def _refusal_at_the_door(self, descriptor: int, waiting: int) -> tuple[str, str] | None:
        refusal = self._refusal_of(descriptor, waiting)
        if refusal is not None:
            self.metrics.refused += 1
        return refusal

    def _accepted(self) -> Peer:
        """Create the peer of a connection that the loop accepted, and accept the other pending ones."""
        for waiting in self._accepting:
            waiting.soon(self._new_peer)
        return self._new_peer()

    def _new_peer(self) -> Peer:
        return Peer(self, next(self._numbers))

    @property
    def _sweep_seconds(self) -> float:
        return min(self.limits.idle_seconds, self.limits.frame_seconds) / SWEEPS_PER_IDLE_TIME

    def _refusal_of(self, descriptor: int, waiting: int) -> tuple[str, str] | None:
        """Return the reason to refuse a connection as one word and as a message, or None.

        `waiting` connections have not begun yet; they count as open ones.
        """
        if len(self.peers) + waiting >= self.limits.connections_max:
            return "connections", f"{self.limits.connections_max} connections are open, the limit"
        if self.budget.has_descriptor(descriptor):
            return None
        return "descriptors", self.budget.descriptor_refusal()

    def _report_refusal(self, peer: Peer, reason: str, message: str) -> None:
        self.budget.refused(reason, f"{peer.remote[0]}:{peer.remote[1]}", message)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for peer in list(self.peers.values()):
            if peer.half_frame_seconds(now) >= self.limits.frame_seconds and not peer.is_closing:
                self.metrics.closed_late += 1
                self._report_refusal(
                    peer, "late", f"a request did not come whole within {self.limits.frame_seconds} s"
                )
                peer.abort()
                continue
            if not peer.is_idle(now):
                continue
            silent_seconds = now - peer.last_active
            if peer.is_closing and silent_seconds > CLOSING_SECONDS_MAX:
                peer.abort()
            elif not peer.is_closing and silent_seconds > self.limits.idle_seconds:
                self.metrics.closed_idle += 1
                peer.abort()
        self._sweeper = loop.call_later(self._sweep_seconds, self._sweep)

    async def _wait_until_empty(self) -> None:
        while self.peers:
            self._emptied.clear()
            await self._emptied.wait()

    def _report(self, peer: Peer, error: Exception) -> None:
        if self._on_failure is not None:
            self._on_failure(peer, error)
            return
        context = {"message": f"handler failed for {peer.remote[0]}:{peer.remote[1]}", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


def _on_every_address(port: int) -> socket.socket:
    """Return a bound socket for IPv6 and IPv4: the event loop's own sockets are for IPv6 only. Raises OSError."""
    listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((EVERY_ADDRESS, port))
    except OSError:
        listener.close()
        raise
    return listener


def _duplicate(listener: socket.socket) -> socket.socket:
    """Return the same listening socket with a duplicated descriptor: the loop's socket object does not allow accept()."""
    duplicate = listener.dup()
    duplicate.setblocking(False)
    return duplicate


def _refusal(error: Exception) -> tuple[int, str, dict[str, str] | None]:
    if isinstance(error, RefusedRequest):
        return error.code, error.remark, error.fields
    if isinstance(error, WireError):
        return error.code, str(error), None
    frames = traceback.extract_tb(error.__traceback__)
    where = (
        f", {frames[-1].name}({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    )
    return ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}{where}"[:REPORT_CHARS_MAX], None
