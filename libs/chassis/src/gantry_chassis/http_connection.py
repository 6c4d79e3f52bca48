"""The HTTP/1.1 connection of every service: uvicorn's protocol with bounds on what a client may keep waiting, and no upgrades.

A head has a size, a request a time to come whole, an answer a time to be read, and what is held of all that counts in the budget of
the process. What is refused is said in words.

No service speaks another protocol on its HTTP port, so an upgrade is ignored (RFC 9110, section 7.8) and the body belongs to the request.
Java's HttpClient asks for h2c with every first request. The parser below ends the message behind the head of such a request: what follows
is lost, or read as the next request.
"""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gantry_chassis.budget import Account, Budget

HEAD_BYTES_MAX = 64 * 1024
READ_BYTES_MAX = 256 * 1024
"""What the event loop reads from a socket at once."""
FREE_BYTES = 4 * 1024
"""What a connection may hold of a half request uncounted."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a client may keep a connection waiting, and which descriptors it may have."""

    read_seconds: float
    """A whole request must arrive within this time, the first one from the beginning of the connection."""
    unsent_seconds: float
    """So long may a client read nothing of an answer that waits for it."""
    descriptors_more: int = 0
    """So many of those kept for files may be used by this port: who looks after the process must get in when nobody else does."""


class HttpConnection(HttpToolsProtocol):
    """Reads within bounds; a request that asks for an upgrade is read a second time, without the asking."""

    _is_read_again = False
    """The head at hand asks for an upgrade: nothing begins before it is read again without."""
    _refusal = ""
    """Why the request at hand cannot be read, where the parser does not know."""
    _is_long = False
    _is_amid = False
    """Bytes of a request were read whose end was not."""
    _read_size = 0
    _head_size = 0
    """Bytes read since the head began, the whole of the first read included; 0 while there is no head."""
    _amid_size = 0
    """The same of the whole request."""
    _reading_since = 0.0
    """Loop time since when a request, or the first one, is awaited whole; 0 while none is."""
    _unsent = (0, 0.0)
    """Bytes the client had not read when last looked, and since when they are so many."""
    _input: Account | None = None
    _output: Account | None = None

    def __init__(self, budget: Budget, bounds: Bounds, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._budget, self._bounds = budget, bounds

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin a connection, or refuse it where the descriptors left are for files."""
        self._reading_since = self.loop.time()
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        more = self._bounds.descriptors_more
        if sock is not None and not self._budget.has_descriptor(sock.fileno() - more):
            self._refuse("descriptors", HTTPStatus.SERVICE_UNAVAILABLE, self._budget.descriptor_refusal())

    def connection_lost(self, exc: Exception | None) -> None:
        """End, and hold nothing any more."""
        super().connection_lost(exc)
        accounts = self._input, self._output
        self._input = self._output = None  # they know this connection: a cycle otherwise
        for account in accounts:
            if account is not None:
                account.close()

    def data_received(self, data: bytes) -> None:
        """Read what came; a head that does not end is cut off here."""
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

    def on_headers_complete(self) -> None:
        """Begin the call, unless the head is over its limit, is refused or has to be read again."""
        if self._head_size > HEAD_BYTES_MAX:  # a body may have come with it: now count exactly
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
                self._refusal = "CONNECT is not served: this is no proxy"
                raise ValueError(self._refusal)
            self._is_read_again = True
            return
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the request is whole, unless only its head was."""
        if not self._is_read_again:
            self._is_amid = False
            self._reading_since = 0.0
            super().on_message_complete()

    def pause_writing(self) -> None:
        """Note that the client reads slower than it is answered."""
        super().pause_writing()
        self._unsent = (self.unsent_bytes, self.loop.time())
        self._count_output(self.unsent_bytes)

    def resume_writing(self) -> None:
        """Go on where the client read what it was sent."""
        super().resume_writing()
        self._count_output(0)

    @property
    def unsent_bytes(self) -> int:
        """What waits for the client to read it."""
        return self.transport.get_write_buffer_size()

    def cut_if_stalled(self, now: float) -> None:
        """Close a connection whose request does not arrive, or whose answer is not read: it would stay for ever."""
        unsent_bytes, bounds = self.unsent_bytes, self._bounds
        if unsent_bytes != self._unsent[0]:
            self._unsent = (unsent_bytes, now)
            if self._output is not None and self.flow.write_paused:
                self._output.hold(unsent_bytes)
        if unsent_bytes and now - self._unsent[1] > bounds.unsent_seconds:
            words = f"{unsent_bytes} bytes of answers were not read within {bounds.unsent_seconds} s"
            self._cut("stalled", words)
        elif self._reading_since and now - self._reading_since > bounds.read_seconds:
            if self._is_amid:
                words = f"the request did not come whole within {bounds.read_seconds} s; nothing was done"
                self._refuse("late", HTTPStatus.REQUEST_TIMEOUT, words)
            else:
                self.transport.abort()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - our words say more
        """Answer what is no HTTP, or has too large a head, and close."""
        if self._is_long:
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            words = f"path and headers may have {HEAD_BYTES_MAX} bytes together"
        else:
            status, words = HTTPStatus.BAD_REQUEST, self._refusal or "this is no request of HTTP/1.1"
        self._budget.refused("malformed", self._peer(), words)
        self._write_refusal(status, words)
        self.transport.close()

    def head_refusal(self) -> str:
        """Return why the head at hand is refused, whole as it is; empty where it is not."""
        return ""

    def refusal(self, status: HTTPStatus, words: str) -> tuple[bytes, str]:  # noqa: ARG002 - others show the status
        """Return the body, and its media type, in which this service refuses a request that no handler sees."""
        return msgspec.json.encode({"error": words}) + b"\n", "application/json"

    # What goes wrong

    def _refuse(self, reason: str, status: HTTPStatus, words: str) -> None:
        """Refuse in words the request at hand, where its answer has not begun and no other one is due; then close."""
        if not self._may_answer():
            self._cut(reason, words)
            return
        self._budget.refused(reason, self._peer(), words)
        self._write_refusal(status, words)
        self.transport.close()

    def _cut(self, reason: str, words: str) -> None:
        self._budget.refused(reason, self._peer(), words)
        self.transport.abort()

    def _may_answer(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if self.transport.is_closing() or self.pipeline or self.unsent_bytes:
            return False
        if cycle is None or self._head_size:  # the cycle, if any, is that of the request before
            return cycle is None or cycle.response_complete
        return not (cycle.response_complete or cycle.response_started)

    def _write_refusal(self, status: HTTPStatus, words: str) -> None:
        body, media_type = self.refusal(status, words)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {media_type}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)

    def _peer(self) -> str:
        return f"{self.client[0]}:{self.client[1]}" if self.client else ""

    # What is held

    def _count_input(self) -> None:
        """Count what is kept of a half request; what comes after its answer has begun is dropped, and not kept."""
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
            words = "answers it does not read"
            self._output = self._budget.account(host, words, lambda why: self._cut("stalled", why))
        self._output.hold(size)

    def _cut_input(self, why: str) -> None:
        self._refuse("hoarding", HTTPStatus.SERVICE_UNAVAILABLE, f"{why}; nothing was done, try again")

    # How it is read

    def _parse(self, data: bytes) -> None:
        rest: bytes | memoryview = data
        while True:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return
            except httptools.HttpParserUpgrade as asked:
                rest = memoryview(rest)[asked.args[0] :]
                if not self._read_head_again():
                    return
            else:
                return

    def _read_head_again(self) -> bool:
        """Give the head without its `Upgrade` to a new parser, which then goes on with the body; False when that refuses it."""
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
    """Return a parser with the settings that uvicorn gives its own."""
    parser = httptools.HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
