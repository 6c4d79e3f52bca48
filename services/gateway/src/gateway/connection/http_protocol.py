"""The gateway's HTTP/1.1 connection: one write per response, one request at a time, problems for unreadable requests."""

import asyncio
from collections.abc import Callable, Collection
from http import HTTPStatus

import msgspec
from uvicorn.protocols.http.flow_control import FlowControl

from gantry_chassis.http.connection import Bounds, HttpConnection

READ_SECONDS_MAX = 75.0
"""Time limit for a whole request. Longer than the limit for a body, which the gateway reports as a problem."""
UNSENT_SECONDS_MAX = 60.0
"""Time limit for a client that does not read a pending response."""
BOUNDS = Bounds(read_seconds=READ_SECONDS_MAX, unsent_seconds=UNSENT_SECONDS_MAX)
CODES = {
    HTTPStatus.BAD_REQUEST: "INVALID_PARAMETER",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "INVALID_PARAMETER",
    HTTPStatus.REQUEST_TIMEOUT: "REQUEST_TIMEOUT",
    HTTPStatus.SERVICE_UNAVAILABLE: "SERVICE_NOT_AVAILABLE",
}
"""Problem codes of the errors that a connection answers by itself."""


class JoinedWrites(asyncio.Transport):
    """A transport that writes once per turn of the loop: head and body of a response need one system call instead of two."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._parts: list[bytes | bytearray | memoryview] = []
        self._loop = asyncio.get_running_loop()
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.set_protocol = transport.set_protocol
        self.abort = transport.abort
        self.get_write_buffer_size = transport.get_write_buffer_size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Buffer `data` until the end of this turn."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def close(self) -> None:
        """Flush the buffer, and close the connection once it is sent."""
        self.flush()
        self._transport.close()

    def write_now(self, data: bytes) -> None:
        """Write at once; only valid while the buffer is empty. Does nothing if the connection is lost."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def flush(self) -> None:
        """Write the buffer; drop it if the connection is lost."""
        parts, self._parts = self._parts, []
        if self._transport.is_closing():
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif parts:
            self._transport.writelines(parts)


class OneAtATime(FlowControl):
    """Resumes reading only if no request is queued and the last response has been sent."""

    def __init__(self, transport: asyncio.Transport, pipeline: Collection[object]) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        """Resume reading, unless a request is queued."""
        if not self._pipeline and not self.write_paused:
            super().resume_reading()


class GatewayProtocol(HttpConnection):
    """The chassis' HTTP/1.1 connection with one write per response, one request at a time, and problems for unreadable requests."""

    _is_answer_unsent = False
    """A response is complete, but much of it still waits for the client to read."""
    _is_lost = False
    _on_lost: Callable[[], object] | None = None
    """Called when the connection closes, so that the current request stops waiting."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Open the connection."""
        self._joined = JoinedWrites(transport)
        super().connection_made(self._joined)
        self.flow = OneAtATime(self._joined, self.pipeline)

    def on_response_complete(self) -> None:
        """Continue with the next request once the client has read most of this response."""
        self._joined.flush()
        if self.flow.write_paused and not self.transport.is_closing():
            self._is_answer_unsent = True
            self.flow.pause_reading()
            return
        super().on_response_complete()

    def resume_writing(self) -> None:
        """Continue once the client has read the pending response."""
        super().resume_writing()
        if self._is_answer_unsent:
            self._is_answer_unsent = False
            super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark the connection as lost, so that pending responses are not written."""
        self._is_lost = True
        super().connection_lost(exc)
        if self._on_lost is not None:
            self._on_lost()

    def _was_lost(self) -> bool:
        return self._is_lost

    def _when_lost(self, call: Callable[[], object] | None) -> None:
        self._on_lost = call

    def head_refusal(self) -> str:
        """Return why the head is refused: no single Host header, another Transfer-Encoding than chunked, or as by the chassis."""
        assert self.parser is not None, "the connection is open: its parser calls this"
        names = [name for name, _value in self.headers]
        if names.count(b"host") != 1 and self.parser.get_http_version() == "1.1":
            return "a request of HTTP/1.1 has one header Host"
        if b"transfer-encoding" in names and dict(self.headers)[b"transfer-encoding"].lower() != b"chunked":
            return "Transfer-Encoding may be chunked; a packed body has Content-Encoding"
        return super().head_refusal()

    def on_headers_complete(self) -> None:
        """Start the request, with callables in its scope that report a lost connection."""
        self.scope["gateway.is_lost"] = self._was_lost  # type: ignore[typeddict-unknown-key]
        self.scope["gateway.when_lost"] = self._when_lost  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def refusal(self, status: HTTPStatus, message: str) -> tuple[bytes, str]:
        """Return the problem for an unreadable request."""
        problem = {
            "title": status.phrase,
            "status": status.value,
            "code": CODES[status],
            "retryable": status in {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.SERVICE_UNAVAILABLE},
            "requestId": "",
            "detail": message,
            "type": "about:blank",
        }
        if CODES[status] == "INVALID_PARAMETER":
            problem["field"] = "headers"
        return msgspec.json.encode(problem) + b"\n", "application/problem+json"
