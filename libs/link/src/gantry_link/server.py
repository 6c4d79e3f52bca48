"""Accepts connections and hands every whole frame to one synchronous handler. Several ports may share a server.

Knows no request code: what a handler raises is answered or ends the connection, as the error says.
"""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from gantry_link.accepting import Accepting
from gantry_link.budget import Budget, NoBudget
from gantry_link.limits import LinkLimits
from gantry_link.output_watch import OutputWatch
from gantry_link.peer import Peer
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.frame import RawFrame, decode_command, encode_response

Handler = Callable[[Peer, RawFrame], None]
"""Called for every whole frame that arrived, before anything of the turn is written. It must not block.

It decodes the frame itself and drops answers (`Command.is_response`) that nobody waits for any more.
"""

BACKLOG = 1024
EVERY_ADDRESS = "::"
"""IPv4 and IPv6, as for HTTP."""
SWEEPS_PER_IDLE_TIME = 12
CLOSING_SECONDS_MAX = 10.0
"""A closed peer that does not take its last bytes is cut off after this time."""
REPORT_CHARS_MAX = 512


@dataclass(slots=True)
class ServerFigures:
    """What happened to connections; plain ints, read by metrics."""

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
    ) -> None:
        """`on_failure` is told of every exception of the handler that is our own bug, not the client's.

        `budget` is that of the process; it hears of every connection that is refused or closed for what its peer did.
        """
        self.handler = handler
        self.limits = limits or LinkLimits()
        self.budget: Budget = budget or NoBudget()
        self.watch = OutputWatch()
        self.figures = ServerFigures()
        self.peers: dict[int, Peer] = {}
        self._on_connect, self._on_close, self._on_failure = on_connect, on_close, on_failure
        self._listeners: list[asyncio.Server] = []
        self._accepting: list[Accepting] = []
        self._next_id = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._emptied = asyncio.Event()
        self._is_closing = False

    async def listen(self, host: str, port: int) -> int:
        """Accept connections on one more port (0: any free one) and return its number; OSError when it is taken.

        `::` accepts IPv4 too.
        """
        self._is_closing = False
        loop = asyncio.get_running_loop()
        if host == EVERY_ADDRESS:
            listener = await loop.create_server(self._accepted, sock=_on_every_address(port), backlog=BACKLOG)
        else:
            listener = await loop.create_server(self._accepted, host, port, backlog=BACKLOG)
        self._listeners.append(listener)
        self._accepting += [Accepting(_again(one), self.budget.has_descriptor) for one in listener.sockets]
        if self._sweeper is None:
            self._sweeper = loop.call_later(self._sweep_seconds, self._sweep)
        return int(listener.sockets[0].getsockname()[1])

    async def close(self, drain_seconds: float = 0.0) -> None:
        """Stop accepting, let answers leave for at most `drain_seconds`, then cut the rest."""
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
        """Take no new connections; those that exist live on."""
        for listener in (*self._listeners, *self._accepting):
            listener.close()

    # What a Peer reports

    def connected(self, peer: Peer) -> None:
        """Count and announce a new connection, or refuse it when there are too many."""
        if self._is_closing:  # it was being accepted: who closes would never hear of it
            peer.abort()
            return
        refusal = self._refusal(peer)
        if refusal is not None:
            self.figures.refused += 1
            self._tell(peer, *refusal)
            peer.abort()
            return
        self.figures.accepted += 1
        self.peers[peer.id] = peer
        self._emptied.clear()
        peer.last_active = asyncio.get_running_loop().time()
        if self._on_connect is not None:
            self._on_connect(peer)

    def disconnected(self, peer: Peer) -> None:
        """Forget a connection and tell those who care."""
        self.watch.forget(peer)
        if self.peers.pop(peer.id, None) is None:
            return
        if not self.peers:
            self._emptied.set()
        watchers = [*peer.on_close, *([self._on_close] if self._on_close else [])]
        for tell in watchers:
            try:
                tell(peer)
            except Exception as error:  # noqa: BLE001 - the other watchers must hear of it too
                self._report(peer, error)

    def malformed(self, peer: Peer, error: WireError) -> None:
        """End a stream that is out of step: answer what was whole, then close, as RocketMQ does."""
        self.figures.closed_malformed += 1
        self._tell(peer, "malformed", f"what it sends is no frame: {error}")
        peer.close()

    def overflowed(self, peer: Peer, words: str) -> None:
        """Count a peer that does not read what it asked for; its connection is being cut."""
        self.figures.closed_stalled += 1
        self._tell(peer, "stalled", words)

    def hoarded(self, peer: Peer, words: str) -> None:
        """Count a peer whose half frame others need the bytes of; its connection is being cut."""
        self.figures.closed_hoarding += 1
        self._tell(peer, "hoarding", words)

    def failed(self, peer: Peer, frame: RawFrame, error: Exception) -> None:
        """Answer what a handler raised: a refusal in its words, our own bug as code 1 in Java's manner."""
        if isinstance(error, WireError) and error.close:
            self.malformed(peer, error)
            return
        if not isinstance(error, WireError):
            self.figures.failed_requests += 1
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

    def _accepted(self) -> Peer:
        """Make the peer of a connection that the loop has accepted, and take those that wait behind it."""
        for waiting in self._accepting:
            waiting.soon(self._new_peer)
        return self._new_peer()

    def _new_peer(self) -> Peer:
        self._next_id += 1
        return Peer(self, self._next_id)

    @property
    def _sweep_seconds(self) -> float:
        return min(self.limits.idle_seconds, self.limits.frame_seconds) / SWEEPS_PER_IDLE_TIME

    def _refusal(self, peer: Peer) -> tuple[str, str] | None:
        """Return why a connection may not come in: in a word, and in words."""
        if len(self.peers) >= self.limits.connections_max:
            return "connections", f"{self.limits.connections_max} connections are open, more are not served"
        if self.budget.has_descriptor(peer.descriptor):
            return None
        return "descriptors", self.budget.descriptor_refusal()

    def _tell(self, peer: Peer, reason: str, words: str) -> None:
        self.budget.refused(reason, f"{peer.remote[0]}:{peer.remote[1]}", words)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for peer in list(self.peers.values()):
            if peer.half_frame_seconds(now) >= self.limits.frame_seconds and not peer.is_closing:
                self.figures.closed_late += 1
                self._tell(peer, "late", f"a request did not come whole within {self.limits.frame_seconds} s")
                peer.abort()
                continue
            if not peer.is_idle(now):
                continue
            silent_seconds = now - peer.last_active
            if peer.is_closing and silent_seconds > CLOSING_SECONDS_MAX:
                peer.abort()
            elif not peer.is_closing and silent_seconds > self.limits.idle_seconds:
                self.figures.closed_idle += 1
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
    """Return a bound socket for IPv6 and IPv4: the event loop makes its own for IPv6 alone. Raises OSError."""
    listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((EVERY_ADDRESS, port))
    except OSError:
        listener.close()
        raise
    return listener


def _again(listener: socket.socket) -> socket.socket:
    """Return the same listening socket by a descriptor of ours: the loop's own object accepts nothing for us."""
    again = socket.fromfd(listener.fileno(), listener.family, listener.type)
    again.setblocking(False)
    return again


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
