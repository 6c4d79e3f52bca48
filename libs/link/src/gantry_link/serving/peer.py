"""One accepted connection of a server: reads whole frames, and writes once at the end of each turn.

Bounded in both directions: unread output is held up to a limit, and while the peer does not read, the server reads nothing from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from gantry_link.connections.calls import Calls
from gantry_link.connections.turn import Turn
from gantry_link.errors import ConnectionLost, LinkError, NotConnected
from gantry_link.limits import COUNTED_BYTES, FREE_BYTES, JOIN_BYTES_MAX, LinkLimits
from gantry_link.serving.budget import Account, Budget
from gantry_link.serving.output_watch import OutputWatch
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder, MalformedFrame, RawFrame
from gantry_wire.headers.typed_header import Header

Endpoint = tuple[str, int]
TLS_HANDSHAKE = b"\x16\x03"
"""First bytes of a TLS connection. As the length of a frame they are beyond its limit."""
PUSH_SECONDS = 10.0
"""Time-out of RocketMQ's broker for its requests to clients."""


class PeerOwner(Protocol):
    """The server of a peer: provides limits and the frame handler, and is notified of the connection's events."""

    @property
    def handler(self) -> Callable[[Peer, RawFrame], None]:
        """Called with every whole frame that is not an answer."""
        ...

    @property
    def limits(self) -> LinkLimits:
        """Limits of a peer's output and calls."""
        ...

    @property
    def budget(self) -> Budget:
        """The budget for half frames and unread answers."""
        ...

    @property
    def watch(self) -> OutputWatch:
        """Checks peers with much output."""
        ...

    def connected(self, peer: Peer, /) -> None:
        """Handle a new transport. May refuse (abort) it."""

    def disconnected(self, peer: Peer, /) -> None:
        """Handle the end of the transport."""

    def malformed(self, peer: Peer, error: WireError, /) -> None:
        """Handle an invalid stream."""

    def spoke_tls(self, peer: Peer, /) -> None:
        """Handle a stream that begins with a TLS record and no frame."""

    def overflowed(self, peer: Peer, message: str, /) -> None:
        """Count a peer that is being closed because it did not read its answers."""

    def hoarded(self, peer: Peer, message: str, /) -> None:
        """Count a peer that is being closed because the budget needs the bytes of its half frame."""

    def failed(self, peer: Peer, frame: RawFrame, error: Exception, /) -> None:
        """Answer `frame`, for which the handler raised `error`."""


class Peer(asyncio.Protocol):
    """A connected client. `send` is cheap: it appends, and one write per turn sends everything."""

    __slots__ = (
        "_active",
        "_calls",
        "_closing",
        "_completes",
        "_counted_at",
        "_decoder",
        "_flush_bound",
        "_gathered_bytes",
        "_half_since",
        "_handler",
        "_held",
        "_input",
        "_output",
        "_output_bytes_max",
        "_output_pause_bytes",
        "_parts",
        "_paused_by_output",
        "_paused_by_owner",
        "_reading",
        "_server",
        "_transport",
        "_turn",
        "_uncounted_bytes",
        "attributes",
        "closed_by_client",
        "id",
        "last_active",
        "local",
        "on_close",
        "remote",
        "stalled_bytes",
    )

    def __init__(self, server: PeerOwner, identifier: int) -> None:
        self.id = identifier
        self.remote: Endpoint = ("", 0)
        self.local: Endpoint = ("", 0)
        self.attributes: dict[str, Any] = {}
        self.on_close: list[Callable[[Peer], None]] = []
        self.closed_by_client = False
        """Whether the client closed the connection or died: it ended in order, and not here. A reset may come from the network."""
        self.last_active = 0.0
        """Loop time of the last idle sweep that saw traffic."""
        self.stalled_bytes = 0
        self._server = server
        self._handler = server.handler
        self._turn = Turn.current()
        self._decoder = FrameDecoder()
        self._parts: list[bytes] = []
        self._gathered_bytes = 0
        self._output_bytes_max = server.limits.output_bytes_max
        self._output_pause_bytes = server.limits.output_pause_bytes
        self._held: list[RawFrame] = []
        self._flush_bound = self._flush
        self._transport: asyncio.Transport | None = None
        self._calls: Calls | None = None
        self._input: Account | None = None
        self._output: Account | None = None
        self._counted_at = COUNTED_BYTES
        self._uncounted_bytes = 0
        self._completes = False
        self._half_since = 0.0
        self._active = True
        self._closing = False
        self._paused_by_output = False
        self._paused_by_owner = False
        self._reading = True

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closing, so that `send` drops bytes."""
        return self._closing

    @property
    def descriptor(self) -> int:
        """The descriptor number, or -1."""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        return -1 if sock is None else int(sock.fileno())

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The client's verified certificate, in the form of `ssl.SSLSocket.getpeercert`. None or empty without one."""
        return None if self._transport is None else self._transport.get_extra_info("peercert")

    @property
    def buffered_bytes(self) -> int:
        """Unsent bytes: gathered in this turn, or not yet taken by the socket."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._gathered_bytes + waiting

    def send(self, data: bytes) -> None:
        """Queue bytes for the end of this turn. Drops bytes for a closed peer."""
        if self._closing:
            return
        if not self._parts:
            self._turn.write_at_end(self._flush_bound)
        self._parts.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes > self._counted_at:
            self._check_gathered()

    def send_parts(self, parts: Sequence[bytes]) -> None:
        """Queue consecutive parts without copying them."""
        if self._closing:
            return
        if not self._parts:
            self._turn.write_at_end(self._flush_bound)
        self._parts += parts
        self._gathered_bytes += sum(map(len, parts))
        if self._gathered_bytes > self._counted_at:
            self._check_gathered()

    def request(
        self,
        code: int,
        header: Header | dict[str, str] | None = None,
        body: bytes = b"",
        timeout: float = PUSH_SECONDS,
    ) -> asyncio.Future[Command]:
        """Send a request to the client. The future gets its answer or a LinkError."""
        if self._closing:
            raise NotConnected("the client has disconnected")
        if self._calls is None:
            self._calls = Calls(_cannot_withdraw, self._server.limits.calls_max, None)
        opaque = self._calls.next_opaque()
        frame = encode_request(code, opaque, header, body)
        answer = self._calls.open(opaque, timeout)
        self.send(frame)
        return answer

    def pause_reading(self) -> None:
        """Stop reading from this peer until `resume_reading`. TCP then slows it down."""
        self._paused_by_owner = True
        self._set_reading()

    def resume_reading(self) -> None:
        """Undo `pause_reading`."""
        self._paused_by_owner = False
        self._set_reading()

    def close(self) -> None:
        """Send the queued bytes, then close."""
        if self._closing:
            return
        self._flush()
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once and drop the queued bytes."""
        self._closing = True
        self._parts.clear()
        self._gathered_bytes = 0
        self._close_accounts()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport and register with the server."""
        self._transport = cast("asyncio.Transport", transport)
        self.remote = _endpoint(transport.get_extra_info("peername"))
        self.local = _endpoint(transport.get_extra_info("sockname"))
        pause = self._output_pause_bytes
        self._transport.set_write_buffer_limits(high=pause, low=pause // 4)
        self._server.connected(self)

    def data_received(self, data: bytes) -> None:
        """Handle every whole frame."""
        self._active = True
        if self._closing:
            return
        try:
            frames = self._decoder.receive(data)
        except MalformedFrame as error:
            self._handle(error.frames)
            if data.startswith(TLS_HANDSHAKE):
                self._server.spoke_tls(self)
            else:
                self._server.malformed(self, error)
            return
        if frames:
            self._completes = True
            self._handle(frames)
        held = self._decoder.buffered_bytes
        if held > FREE_BYTES or self._input is not None:
            self._count_input(held)

    def pause_writing(self) -> None:
        """Stop reading: the client does not read."""
        self._paused_by_output = True
        self._set_reading()

    def resume_writing(self) -> None:
        """Continue: the client has read."""
        self._paused_by_output = False
        self._resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """End all calls and free all buffers."""
        self.closed_by_client = exc is None and not self._closing
        self._closing = True
        self._transport = None
        self._parts.clear()
        self._gathered_bytes = 0
        # The half frame and the held frames can be megabytes: free them now, not at the next garbage collection.
        self._decoder = FrameDecoder()
        self._held = []
        self._close_accounts()
        self._flush_bound = _nothing_to_flush  # the bound method keeps the peer in a reference cycle
        if self._calls is not None:
            self._calls.fail_all(_lost)
        self._server.disconnected(self)

    def is_idle(self, now: float) -> bool:
        """Return whether no bytes moved since the previous sweep. Otherwise sets `last_active` to `now`."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        moved = self._active or waiting < self.stalled_bytes
        self.stalled_bytes = waiting
        self._active = False
        if moved:
            self.last_active = now
        return not moved

    def half_frame_seconds(self, now: float) -> float:
        """Return for how long sweeps have seen the current frame incomplete. 0 while reading is paused."""
        is_same = bool(self._decoder.buffered_bytes) and not self._completes and self._reading
        self._completes = False
        self._half_since = (self._half_since or now) if is_same else 0.0
        return now - self._half_since if is_same else 0.0

    def note_unsent(self) -> bool:
        """Count the unsent bytes of this peer. Returns False if they are few."""
        transport = self._transport
        if self._closing or transport is None:
            return False
        unsent = transport.get_write_buffer_size()
        is_much = unsent > COUNTED_BYTES
        if is_much or self._output is not None:
            self._count_output(unsent if is_much else 0)
        return is_much

    def _count_input(self, size: int) -> None:
        if self._closing:
            return
        if self._input is None:
            self._input = self._server.budget.account(self.remote[0], "a half request", self._cut_input)
        self._input.hold(size if size > FREE_BYTES else 0)

    def _count_output(self, size: int) -> None:
        if self._output is None:
            message = "answers it does not read"
            self._output = self._server.budget.account(self.remote[0], message, self._overflow)
        self._output.hold(size)

    def _check_gathered(self) -> None:
        """Check the output limits each time COUNTED_BYTES more were gathered in this turn."""
        size = self._gathered_bytes
        if size > self._output_bytes_max:
            self._overflow(f"{size} bytes of answers wait for it, at most {self._output_bytes_max} may")
            return
        self._counted_at = min(size + COUNTED_BYTES, self._output_bytes_max)
        self._count_output(self.buffered_bytes)

    def _cut_input(self, message: str) -> None:
        self._server.hoarded(self, message)
        self.abort()

    def _close_accounts(self) -> None:
        accounts = self._input, self._output
        self._input = self._output = None  # breaks the reference cycle with this peer
        for account in accounts:
            if account is not None:
                account.close()

    def _handle(self, frames: list[RawFrame]) -> None:
        if self._calls:
            frames = self._take_answers(frames)
        if self._held:
            self._held += frames
            return
        handler, pause_bytes = self._handler, self._output_pause_bytes
        for done, frame in enumerate(frames, start=1):
            try:
                handler(self, frame)
            except Exception as error:  # noqa: BLE001 - one failed request must not affect the others of the turn
                self._server.failed(self, frame, error)
            if self._closing:
                return
            if (
                self._gathered_bytes > pause_bytes
            ):  # small requests, big answers: hold the rest until the socket drains
                self._held += frames[done:]
                self._set_reading()
                return

    def _resume(self) -> None:
        """Handle the held frames, then read again, as far as the socket has room."""
        held, self._held = self._held, []
        if not self._closing:
            self._handle(held)
        self._set_reading()

    def _take_answers(self, frames: list[RawFrame]) -> list[RawFrame]:
        """Pass answers to our own requests to their callers and return the other frames. Called only with open calls."""
        assert self._calls is not None
        others: list[RawFrame] = []
        for frame in frames:
            try:
                command = decode_command(frame)
            except Exception:  # noqa: BLE001 - the handler decodes it again and decides
                others.append(frame)
                continue
            if not command.is_response:
                others.append(frame)
            else:
                self._calls.resolve(command)
        return others

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        size, self._gathered_bytes = self._gathered_bytes, 0
        transport = self._transport
        if not parts or transport is None:
            return
        if not self._paused_by_output:
            self._active = True
        if len(parts) == 1:
            transport.write(parts[0])
        elif size <= JOIN_BYTES_MAX:
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)
        if not self._paused_by_output:
            if self._held:
                self._turn.at_end(self._resume)
        elif transport.get_write_buffer_size() > self._output_bytes_max:
            self._overflow(f"more than {self._output_bytes_max} bytes of answers wait for it")
            return
        self._uncounted_bytes += size
        if self._uncounted_bytes > COUNTED_BYTES:
            self._uncounted_bytes = 0
            self._counted_at = COUNTED_BYTES
            self._server.watch.soon(self)

    def _overflow(self, message: str) -> None:
        self._server.overflowed(self, message)
        self.abort()

    def _set_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        wanted = not (self._paused_by_output or self._paused_by_owner or self._held)
        if wanted != self._reading:
            self._reading = wanted
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()


def _nothing_to_flush() -> None:
    """Do nothing: a closed peer has no output."""


def _cannot_withdraw(_opaque: int) -> bool:
    return False


def _lost(sent: bool) -> LinkError:
    return ConnectionLost("the client closed the connection before it answered", sent=sent)


def _endpoint(name: Any) -> Endpoint:
    return (str(name[0]), int(name[1])) if name else ("", 0)
