"""The calls of one connection."""

from __future__ import annotations

from collections.abc import Sequence

from gantry_h2.events import Data, Ended, Event, Request, Reset, Sent
from gantry_h2.hpack.static_table import Header
from gantry_link.grpc.head import Head, read_head, refused
from gantry_link.grpc.one_call import OneCall, Serving
from gantry_link.grpc.status import GrpcError, GrpcStatus
from gantry_link.grpc.stream_call import StreamCall
from gantry_link.grpc.unary_call import UnaryCall
from gantry_link.http2.connection import Http2Connection

SHUTTING_DOWN = "the server shuts down"


class GrpcConnection:
    """Begins calls, and passes on what happens to them. The Handler of an Http2Connection."""

    def __init__(self, server: Serving, link: Http2Connection) -> None:
        self.server, self.link = server, link
        self._open: dict[int, OneCall] = {}
        self._last: tuple[tuple[Header, ...], Head] | None = None
        """The headers of the last call, read: a client that repeats a call sends the same ones, which HTTP/2 decodes to one object."""
        self._held_bytes = 0
        self._is_ended = False

    @property
    def is_running(self) -> bool:
        """Whether a shutdown should wait for a call."""
        return any(call.is_running for call in self._open.values())

    def take(self, events: Sequence[Event]) -> None:
        """Handle what happened, in its order."""
        calls = self._open
        for event in events:
            if isinstance(event, Request):
                self._begin(event)
            elif not isinstance(event, Ended):
                call = calls.get(event.stream)
                if call is None:
                    continue
                if isinstance(event, Data):
                    call.take(event.data, is_end=event.is_end)
                elif isinstance(event, Reset):
                    call.cancel()
                elif isinstance(event, Sent):
                    call.sent()
                else:
                    call.take(b"", is_end=True)  # trailers: nothing follows

    def writable(self) -> None:
        """Continue the streams that waited."""
        for call in list(self._open.values()):
            call.sent()

    def sweep(self, now: float) -> None:
        """End calls whose message does not arrive. `now` is the loop's time."""
        seconds = self.server.limits.http2.read_seconds
        for call in list(self._open.values()):
            call.sweep(now, seconds)

    def end(self) -> None:
        """End the calls that are open, and all that may still begin: the server shuts down."""
        self._is_ended = True
        for call in list(self._open.values()):
            call.fail(GrpcError(GrpcStatus.UNAVAILABLE, SHUTTING_DOWN))

    def lost(self) -> None:
        """End everything: the connection is over."""
        for call in list(self._open.values()):
            call.cancel()

    # Called by calls

    def ended(self, stream: int) -> None:
        """Forget a call."""
        del self._open[stream]
        if self.link.is_leaving and not self.is_running:
            self.link.calls_ended()

    def hold(self, more: int) -> None:
        """Count bytes of half requests, or release them with a negative number."""
        self._held_bytes += more
        self.link.hold_input(self._held_bytes)

    def _read(self, headers: tuple[Header, ...]) -> Head:
        if self._last is not None and self._last[0] is headers:
            return self._last[1]
        head = read_head(headers)
        self._last = headers, head
        return head

    def _begin(self, request: Request) -> None:
        stream = request.stream
        head = self._read(request.headers)
        if head.refusal:
            self.link.finish(stream, head.refusal)
            return
        if self._is_ended:
            self.link.finish(stream, refused(GrpcStatus.UNAVAILABLE, SHUTTING_DOWN))
            return
        methods = self.server.methods
        unary = methods.unary.get(head.path)
        if unary is not None:
            call = self._open[stream] = UnaryCall(self, stream, head, unary)
        else:
            streaming = methods.streaming.get(head.path)
            if streaming is None:
                self.link.finish(stream, refused(GrpcStatus.UNIMPLEMENTED, f"no method {head.path}"))
                return
            call = self._open[stream] = StreamCall(self, stream, head)
            call.start(streaming)
        if request.is_end:
            call.take(b"", is_end=True)
