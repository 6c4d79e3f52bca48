"""The HTTP/1.1 connection of every service: uvicorn's protocol, with bounds on slow clients and without upgrades.

Bounds the size of a head, the time to send a request and the time to read an answer. The process's budget counts what
a connection holds. Every refusal states its reason.

No service speaks another protocol on its HTTP port, so upgrades are ignored (RFC 9110, section 7.8) and the body
belongs to the request. Java's HttpClient asks for h2c with every first request. The parser below ends such a request
behind its head, so what follows would be lost or read as the next request.
"""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gantry_chassis.http.authorizing import CERTIFICATE, Certificate
from gantry_chassis.peers.budget import Account, Budget

HEAD_BYTES_MAX = 64 * 1024
READ_BYTES_MAX = 256 * 1024
"""Bytes the event loop reads from a socket at once."""
TLS_HANDSHAKE = b"\x16\x03"
"""First bytes of a TLS connection."""
FREE_BYTES = 4 * 1024
"""Bytes of an incomplete request a connection may hold uncounted."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a client may keep a connection waiting, and which descriptors the port may use."""

    read_seconds: float
    """Longest time to receive a whole request; for the first one, from the start of the connection."""
    unsent_seconds: float
    """Longest time a client may read nothing of a waiting answer."""
    descriptors_more: int = 0
    """Reserved descriptors this port may use, so that operators get in when nobody else does."""


class HttpConnection(HttpToolsProtocol):
    """Reads within bounds. A request with an upgrade is parsed a second time without it."""

    _is_read_again = False
    """The current head asks for an upgrade: the call begins after it was parsed again without."""
    _refusal = ""
    """Why the current request is refused, when the parser does not know."""
    _is_long = False
    _is_amid = False
    """Part of a request was read, but not its end."""
    _read_size = 0
    _head_size = 0
    """Bytes read since the head began, including the whole first read; 0 outside a head."""
    _amid_size = 0
    """The same of the whole request."""
    _reading_since = 0.0
    """Loop time since which a whole request is awaited; 0 while none is."""
    _unsent = (0, 0.0)
    """Unread bytes at the last check, and since when there are this many."""
    certificate: Certificate | None = None
    """The client's verified certificate."""
    _input: Account | None = None
    _output: Account | None = None

    def __init__(self, budget: Budget, bounds: Bounds, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._budget, self._bounds = budget, bounds

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin a connection, or refuse it when the remaining descriptors are for files."""
        self._reading_since = self.loop.time()
        super().connection_made(transport)
        self.certificate = transport.get_extra_info("peercert") or None
        sock = transport.get_extra_info("socket")
        more = self._bounds.descriptors_more
        if sock is not None and not self._budget.has_descriptor(sock.fileno() - more):
            self._refuse("descriptors", HTTPStatus.SERVICE_UNAVAILABLE, self._budget.descriptor_refusal())

    def connection_lost(self, exc: Exception | None) -> None:
        """Close, and release everything held."""
        super().connection_lost(exc)
        accounts = self._input, self._output
        self._input = self._output = (
            None  # their callbacks refer to this connection: a reference cycle otherwise
        )
        for account in accounts:
            if account is not None:
                account.close()

    def data_received(self, data: bytes) -> None:
        """Parse new data, and cut off a head without an end."""
        self._unset_keepalive_if_required()
        self._read_size = len(data)
        if self._head_size:
            self._head_size += len(data)
        self._parse(data)
        if self._head_size > HEAD_BYTES_MAX + READ_BYTES_MAX and not self.transport.is_closing():
            self._is_long = True
            self.send_400_response("")
        if self._is_amid or self._input is not None:
            self._amid_size += len(data)
            self._count_input()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._is_amid = True
        self._head_size = self._read_size
        self._amid_size = 0
        self._reading_since = self._reading_since or self.loop.time()
        super().on_message_begin()
        if self.certificate is not None:
            cast("dict[str, Any]", self.scope)[CERTIFICATE] = self.certificate

    def on_headers_complete(self) -> None:
        """Begin the call, unless the head is too large, refused or must be parsed again."""
        if self._head_size > HEAD_BYTES_MAX:  # the data may include the body: now count exactly
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > HEAD_BYTES_MAX:
                self._is_long = True
                raise ValueError(f"the head of the request has {size} bytes")  # the parser stops here
        self._refusal = self.head_refusal()
        if self._refusal:
            raise ValueError(self._refusal)
        self._head_size = 0
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                self._refusal = "CONNECT is not supported: this is not a proxy"
                raise ValueError(self._refusal)
            self._is_read_again = True
            return
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Record that the request is complete, unless only its head was."""
        if not self._is_read_again:
            self._is_amid = False
            self._reading_since = 0.0
            super().on_message_complete()

    def pause_writing(self) -> None:
        """Record that the client reads slower than it is answered."""
        super().pause_writing()
        self._unsent = (self.unsent_bytes, self.loop.time())
        self._count_output(self.unsent_bytes)

    def resume_writing(self) -> None:
        """Continue after the client has read what it was sent."""
        super().resume_writing()
        self._count_output(0)

    @property
    def unsent_bytes(self) -> int:
        """Bytes waiting for the client to read them."""
        return self.transport.get_write_buffer_size()

    def cut_if_stalled(self, now: float) -> None:
        """Close a connection whose request does not arrive or whose answer is not read; it would stay open for ever."""
        unsent_bytes, bounds = self.unsent_bytes, self._bounds
        if unsent_bytes != self._unsent[0]:
            self._unsent = (unsent_bytes, now)
            if self._output is not None and self.flow.write_paused:
                self._output.hold(unsent_bytes)
        if unsent_bytes and now - self._unsent[1] > bounds.unsent_seconds:
            message = f"{unsent_bytes} bytes of answers were not read within {bounds.unsent_seconds} s"
            self._cut("stalled", message)
        elif self._reading_since and now - self._reading_since > bounds.read_seconds:
            if self._is_amid:
                message = f"the request did not come whole within {bounds.read_seconds} s; nothing was done"
                self._refuse("late", HTTPStatus.REQUEST_TIMEOUT, message)
            else:
                self.transport.abort()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - our words say more
        """Answer data that is not HTTP or has too large a head, and close."""
        if self._is_long:
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            message = f"path and headers may have {HEAD_BYTES_MAX} bytes together"
        else:
            status, message = HTTPStatus.BAD_REQUEST, self._refusal or "not a valid HTTP request"
        self._budget.refused("malformed", self._peer(), message)
        self._write_refusal(status, message)
        self.transport.close()

    def head_refusal(self) -> str:
        """Return why the current head is refused, or an empty text.

        Of two headers with credentials a proxy may check the first one, and a service would read the last.
        """
        if [name for name, _value in self.headers].count(b"authorization") > 1:
            return "a request has one header Authorization"
        return ""

    def refusal(self, status: HTTPStatus, message: str) -> tuple[bytes, str]:  # noqa: ARG002 - others show the status
        """Return the body and media type of a refusal that no handler sees."""
        return msgspec.json.encode({"error": message}) + b"\n", "application/json"

    # Refusals

    def _refuse(self, reason: str, status: HTTPStatus, message: str) -> None:
        """Refuse the current request if its answer has not begun and no other one is due; then close."""
        if not self._may_answer():
            self._cut(reason, message)
            return
        self._budget.refused(reason, self._peer(), message)
        self._write_refusal(status, message)
        self.transport.close()

    def _cut(self, reason: str, message: str) -> None:
        self._budget.refused(reason, self._peer(), message)
        self.transport.abort()

    def _may_answer(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if self.transport.is_closing() or self.pipeline or self.unsent_bytes:
            return False
        if cycle is None or self._head_size:  # the cycle, if any, belongs to the request before
            return cycle is None or cycle.response_complete
        return not (cycle.response_complete or cycle.response_started)

    def _write_refusal(self, status: HTTPStatus, message: str) -> None:
        body, media_type = self.refusal(status, message)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {media_type}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)

    def _peer(self) -> str:
        return f"{self.client[0]}:{self.client[1]}" if self.client else ""

    # Accounting

    def _count_input(self) -> None:
        """Count the kept bytes of an incomplete request. Bytes after the answer has begun are dropped and not counted."""
        held = self._amid_size if self._is_amid and self._is_kept() else 0
        if self._input is None:
            if held <= FREE_BYTES or self.transport.is_closing():
                return
            host = self.client[0] if self.client else ""
            self._input = self._budget.account(host, "a half request", self._cut_input)
        self._input.hold(held if held > FREE_BYTES else 0)

    def _is_kept(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if self._head_size or cycle is None:
            return True
        return not (cycle.response_complete or cycle.response_started)

    def _count_output(self, size: int) -> None:
        if self._output is None:
            if not size or self.transport.is_closing():
                return
            host = self.client[0] if self.client else ""
            message = "answers it does not read"
            self._output = self._budget.account(host, message, lambda why: self._cut("stalled", why))
        self._output.hold(size)

    def _cut_input(self, why: str) -> None:
        self._refuse("hoarding", HTTPStatus.SERVICE_UNAVAILABLE, f"{why}; nothing was done, try again")

    # Parsing

    def _parse(self, data: bytes) -> None:
        rest: bytes | memoryview = data
        while True:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserError:
                if bytes(rest[:2]) == TLS_HANDSHAKE:
                    self._cut("tls", "it speaks TLS, and tls_mode=disabled")
                else:
                    self.send_400_response("Invalid HTTP request received.")
                return
            except httptools.HttpParserUpgrade as asked:
                rest = memoryview(rest)[asked.args[0] :]
                if not self._read_head_again():
                    return
            else:
                return

    def _read_head_again(self) -> bool:
        """Parse the head without its `Upgrade` in a new parser, which continues with the body.

        Returns False when that refuses it.
        """
        asked = self.parser
        head = [b"%b %b HTTP/%b" % (asked.get_method(), self.url, asked.get_http_version().encode())]
        head += [b"%b: %b" % (name, value) for name, value in self.headers if name != b"upgrade"]
        self._is_read_again = False
        self.parser = _new_parser(self)
        try:
            self.parser.feed_data(b"\r\n".join([*head, b"", b""]))
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
            return False
        return True


def _new_parser(connection: HttpConnection) -> Any:
    """Return a parser with uvicorn's settings."""
    parser = httptools.HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
