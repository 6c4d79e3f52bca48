"""One client's HTTP/2 connection: reads calls, and writes once at the end of each turn.

Bounded in both directions: while the client does not read, nothing is read from it, and the process's budget counts what waits for it and what it has sent of half requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from gantry_h2.connection import Connection
from gantry_h2.errors import ErrorCode
from gantry_h2.events import Ended, Event
from gantry_h2.hpack.static_table import Header
from gantry_link.connections.turn import Turn
from gantry_link.http2.limits import Http2Limits
from gantry_link.limits import COUNTED_BYTES, FREE_BYTES
from gantry_link.serving.budget import Account, Budget
from gantry_link.serving.output_watch import OutputWatch
from gantry_link.serving.tls_door import TLS_RECORD, certificate_name

PINGS_MIN = 3
"""A client is gone only if it left as many PINGs without an answer: this process may have been paused, too."""


class Handler(Protocol):
    """What serves the calls of one connection."""

    @property
    def is_running(self) -> bool:
        """Whether a shutdown should wait for a call of this connection."""
        ...

    def take(self, events: Sequence[Event], /) -> None:
        """Handle what happened, in its order."""
        ...

    def writable(self) -> None:
        """Continue the answers that waited: the socket has room again."""
        ...

    def sweep(self, now: float, /) -> None:
        """End calls whose message does not arrive. `now` is the loop's time."""
        ...

    def end(self) -> None:
        """End the calls that are open, and all that may still begin: the server shuts down."""
        ...

    def lost(self) -> None:
        """End everything: the connection is over."""
        ...


class Owner(Protocol):
    """The port of a connection."""

    @property
    def limits(self) -> Http2Limits:
        """The limits of its connections."""
        ...

    @property
    def budget(self) -> Budget:
        """The process's budget."""
        ...

    @property
    def watch(self) -> OutputWatch:
        """Checks connections with much output."""
        ...

    @property
    def is_draining(self) -> bool:
        """Whether it serves no new connections."""
        ...

    def handler_of(self, connection: Http2Connection, /) -> Handler:
        """Return what serves its calls."""
        ...

    def refusal_of(self, descriptor: int, /) -> tuple[str, str] | None:
        """Return why a new connection is refused as one word and as a message, or None."""
        ...

    def connected(self, connection: Http2Connection, /) -> None:
        """Handle a new connection."""

    def disconnected(self, connection: Http2Connection, /) -> None:
        """Handle its end."""

    def calls_ended(self) -> None:
        """Look again whether a shutdown has to wait for calls."""


class Http2Connection(asyncio.Protocol):
    """A connected client."""

    def __init__(self, owner: Owner) -> None:
        self.host, self.peer, self.user, self.is_secure = "", "", "", False
        """`peer` is "host:port", `user` the name in a verified certificate."""
        self.is_paused = False
        """Whether the socket has no room: streams wait."""
        self._owner, self._limits = owner, owner.limits
        self._loop = asyncio.get_running_loop()
        self._turn = Turn.current()
        self._h2 = Connection(self._limits.connection, self._loop.time())
        self._handler: Handler | None = None
        self._transport: asyncio.Transport | None = None
        self._input: Account | None = None
        self._output: Account | None = None
        self._is_scheduled = self._is_closing = self._is_active = self._has_heard = False
        self._gathered_bytes = self._written_bytes = 0
        self._buffered_bytes = self._calls_bytes = self._pings = 0
        self._counted_at = self._watched_at = COUNTED_BYTES
        self._quiet_since = self._loop.time()
        """Since when there is no call."""
        self._heard_at, self._first_byte = self._quiet_since, b""
        self._leaving_since = 0.0
        """Since when the client should close, or we do; 0 while nobody should."""
        self._taken = (0, self._quiet_since)
        """Bytes that the client took up to the last change, and when a sweep saw that."""

    # --- the transport -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or refuse the connection."""
        self._transport = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        self.host = str(name[0]) if name else ""
        self.peer = (f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}") if name else ""
        sock = transport.get_extra_info("socket")
        if self._owner.is_draining:  # it was being accepted
            self.abort()
            return
        refusal = self._owner.refusal_of(-1 if sock is None else int(sock.fileno()))
        if refusal is not None:
            self.cut(*refusal)
            return
        self.is_secure = transport.get_extra_info("sslcontext") is not None
        self.user = certificate_name(transport.get_extra_info("peercert")) if self.is_secure else ""
        pause = self._limits.output_pause_bytes
        self._transport.set_write_buffer_limits(high=pause, low=pause // 4)
        self._handler = self._owner.handler_of(self)
        self._owner.connected(self)
        self._soon()

    def data_received(self, data: bytes) -> None:
        """Handle the calls in it."""
        if self._is_closing or self._handler is None:
            return
        self._has_heard = True
        self._first_byte = self._first_byte or data[:1]
        events = self._h2.receive(data, self._loop.time())
        if events:
            self._is_active = True
            self._handler.take(events)
            last = events[-1]
            if type(last) is Ended:
                self._fault(last)
                return
        buffered = self._h2.buffered_bytes
        if buffered != self._buffered_bytes:
            self._buffered_bytes = buffered
            self._count_input()
        if self._leaving_since or self._h2.has_output:
            self._soon()

    def pause_writing(self) -> None:
        """Stop reading: the client does not read."""
        self.is_paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Continue: the client has read."""
        self.is_paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        if self._handler is not None:
            self._handler.writable()

    def eof_received(self) -> None:
        """Close: a client that sends nothing more cannot open its windows."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - each end is the same
        """End all calls and free what they hold."""
        self._is_closing = True
        self._transport = None
        self._close_accounts()
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.lost()
        self._h2 = Connection(self._limits.connection, 0.0)  # answers may be megabytes: free them now
        self._owner.disconnected(self)

    # --- answers -----------------------------------------------------------------------------------------------

    def answer(
        self, stream: int, headers: tuple[Header, ...], data: bytes, trailers: tuple[Header, ...]
    ) -> None:
        """Send a whole answer. Like all that follows, it does nothing for a call that is over."""
        self._h2.answer(stream, headers, data, trailers)
        self._gathered(len(data))

    def begin(self, stream: int, headers: tuple[Header, ...]) -> None:
        """Send the headers of an answer."""
        self._h2.begin_answer(stream, headers)
        self._soon()

    def send(self, stream: int, data: bytes) -> None:
        """Send content. What the client's windows do not allow waits."""
        self._h2.send(stream, data)
        self._gathered(len(data))

    def finish(self, stream: int, trailers: tuple[Header, ...]) -> None:
        """End an answer. Where no answer began, these headers are all of it."""
        self._h2.finish(stream, trailers)
        self._soon()

    def reset(self, stream: int, code: ErrorCode) -> None:
        """End a call without an answer, or without the rest of it."""
        self._h2.reset(stream, code)
        self._soon()

    def consumed(self, stream: int, size: int) -> None:
        """Allow the client to send as much again."""
        self._h2.consumed(stream, size)
        if self._h2.has_output:
            self._soon()

    def is_held_back(self, stream: int) -> bool:
        """Whether a part of an answer waits for the client's windows."""
        return self._h2.pending_bytes(stream) > 0

    def is_blocked(self, stream: int) -> bool:
        """Whether a part of an answer waits for the client's windows, or more waits for its socket than should."""
        return (
            self.is_paused
            or self._gathered_bytes > self._limits.output_pause_bytes
            or self._h2.pending_bytes(stream) > 0
        )

    # --- what a client makes us hold -----------------------------------------------------------------------------

    def hold_input(self, size: int) -> None:
        """Count the bytes of half requests that all calls hold."""
        self._calls_bytes = size
        self._count_input()

    def _count_input(self) -> None:
        size = self._buffered_bytes + self._calls_bytes
        if self._input is None:
            if size <= FREE_BYTES or self._is_closing:
                return
            self._input = self._owner.budget.account(
                self.host, "a half request", lambda why: self.cut("hoarding", why)
            )
        self._input.hold(size if size > FREE_BYTES else 0)

    def note_unsent(self) -> bool:
        """Count what waits for the client. Returns False if it is little."""
        if self._is_closing:
            return False
        unsent = self._unsent_bytes
        is_much = unsent > COUNTED_BYTES
        if is_much or self._output is not None:
            self._count_output(unsent if is_much else 0)
        return is_much

    @property
    def is_running(self) -> bool:
        """Whether a shutdown should wait for a call of this connection."""
        return self._handler is not None and self._handler.is_running

    # --- ends --------------------------------------------------------------------------------------------------

    @property
    def is_leaving(self) -> bool:
        """Whether the client can begin no more calls, or soon."""
        return self._leaving_since > 0

    def calls_ended(self) -> None:
        """Report that no call is left for which a shutdown should wait."""
        self._owner.calls_ended()

    def drain(self) -> None:
        """Let the client begin no more calls; close when those that it has begun are over."""
        if self._handler is not None and not self._leaving_since:
            self._leaving_since = self._loop.time()
            self._h2.drain()
            self._soon()

    def end_calls(self) -> None:
        """End the calls that are open: the server shuts down."""
        if self._handler is not None:
            self._handler.end()

    def close(self) -> None:
        """Send what is written, then close."""
        if not self._is_closing:
            self._write()
            self._is_closing = True
            self._leaving_since = self._loop.time()
            if self._transport is not None:
                self._transport.close()

    def cut(self, reason: str, message: str) -> None:
        """Close at once, counted as refused. `reason` is one word."""
        self._owner.budget.refused(reason, self.peer, message)
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        self._is_closing = True
        self._leaving_since = self._loop.time()
        self._close_accounts()
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now: float) -> None:
        """Close if the client has stalled, or has no call for long. `now` is the loop's time."""
        limits = self._limits
        if self._is_closing:
            if now - self._leaving_since > limits.closing_seconds:
                self.abort()
            return
        assert self._handler is not None, "a connection without a handler is closing"
        self._handler.sweep(now)
        if self._is_stalled(now):
            self.cut(
                "stalled", f"nothing of {self._unsent_bytes} bytes was taken in {limits.unsent_seconds} s"
            )
        elif self._is_active or self._h2.open_calls:
            self._is_active, self._quiet_since = False, now
            self._look_for_client(now)
        elif self._leaving_since:
            if now - self._leaving_since > limits.closing_seconds:
                self.close()
        elif now - self._quiet_since > limits.idle_seconds:
            self.drain()

    def _look_for_client(self, now: float) -> None:
        """Ask a client with open calls whether it is there. One whose machine is gone closes nothing."""
        if self._has_heard or self.is_paused:
            self._has_heard, self._heard_at, self._pings = False, now, 0
            return
        silent = now - self._heard_at
        if silent > self._limits.silent_seconds and self._pings >= PINGS_MIN:
            self.cut("silent", f"it sent nothing within {silent:.0f} s, not even the answer to a PING")
        elif silent > self._limits.ping_seconds:
            self._pings += 1
            self._h2.ping()
            self._soon()

    def _is_stalled(self, now: float) -> bool:
        if self._transport is None or not self._unsent_bytes:
            self._taken = (-1, now)
            return False
        taken = self._written_bytes - self._transport.get_write_buffer_size()
        if taken != self._taken[0]:
            self._taken = (taken, now)
        return now - self._taken[1] > self._limits.unsent_seconds

    def _fault(self, ended: Ended) -> None:
        if self._first_byte == bytes((TLS_RECORD,)) and not self.is_secure:
            self.cut("tls", "it speaks TLS, and tls_mode=disabled")
            return
        reason = "flooding" if ended.code == ErrorCode.ENHANCE_YOUR_CALM else "malformed"
        self._owner.budget.refused(reason, self.peer, ended.reason)
        self.close()

    # --- output ------------------------------------------------------------------------------------------------

    @property
    def _unsent_bytes(self) -> int:
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return waiting + self._h2.held_bytes

    def _soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._turn.write_at_end(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._is_closing:
            return
        self._write()
        if self._leaving_since and self._h2.is_drained:
            self.close()

    def _write(self) -> None:
        output = self._h2.take_output()
        is_much = self._gathered_bytes > self._limits.output_pause_bytes
        self._gathered_bytes, self._counted_at = 0, COUNTED_BYTES
        if self._transport is None:
            return
        if output:
            self._transport.write(output)
            self._written_bytes += len(output)
        if self._written_bytes > self._watched_at or self._h2.held_bytes > COUNTED_BYTES:
            self._watched_at = self._written_bytes + COUNTED_BYTES
            self._owner.watch.soon(self)
        if is_much and not self.is_paused and self._handler is not None:
            self._handler.writable()

    def _gathered(self, size: int) -> None:
        """Count output of this turn, each time it is COUNTED_BYTES more."""
        self._gathered_bytes += size
        if self._gathered_bytes > self._counted_at:
            self._counted_at = self._gathered_bytes + COUNTED_BYTES
            self._count_output(self._unsent_bytes + self._gathered_bytes)
        self._soon()

    def _count_output(self, size: int) -> None:
        if self._is_closing:
            return
        if self._output is None:
            message = "answers it does not read"
            self._output = self._owner.budget.account(
                self.host, message, lambda why: self.cut("stalled", why)
            )
        self._output.hold(size)

    def _close_accounts(self) -> None:
        accounts = self._input, self._output
        self._input = self._output = None  # breaks the reference cycle with this connection
        for account in accounts:
            if account is not None:
                account.close()


MakeHandler = Callable[[Http2Connection], Handler]
