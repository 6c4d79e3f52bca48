"""The HTTP/1.1 connection: uvicorn's protocol with one write per answer, limits, and problems for what cannot be read."""

import asyncio
from collections.abc import Callable, Collection

from uvicorn.protocols.http.flow_control import FlowControl

from gantry_chassis.http_connection import HttpConnection

HEAD_BYTES_MAX = 64 * 1024
READ_BYTES_MAX = 256 * 1024
"""What the event loop reads from a socket at once."""
READ_SECONDS_MAX = 75.0
"""A whole request must arrive within this time; longer than a body may take, which is answered in words."""
UNSENT_SECONDS_MAX = 60.0
"""So long may a client read nothing of an answer that waits for it."""
UNSENT_BYTES_MAX = 256 * 1024 * 1024
"""What may wait for slow clients in all; over it the one that has read nothing for longest is cut."""


class JoinedWrites(asyncio.Transport):
    """A transport that writes once a turn: head and body of an answer would be two system calls otherwise."""

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
        """Keep `data` for the end of this turn."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def close(self) -> None:
        """Write what is kept, and close when it is sent."""
        self.flush()
        self._transport.close()

    def write_now(self, data: bytes) -> None:
        """Write at once, where nothing is kept; dropped where the connection was lost."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def flush(self) -> None:
        """Write what is kept; nobody reads it where the connection was lost meanwhile."""
        parts, self._parts = self._parts, []
        if self._transport.is_closing():
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif parts:
            self._transport.writelines(parts)


class OneAtATime(FlowControl):
    """Reads on only where no request waits behind another, and where the answer before it has left."""

    def __init__(self, transport: asyncio.Transport, pipeline: Collection[object]) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        """Read on, unless what was read already waits."""
        if not self._pipeline and not self.write_paused:
            super().resume_reading()


class GatewayProtocol(HttpConnection):
    """uvicorn's HTTP/1.1 with one write per answer, a bound on the head, and problems for what cannot be read."""

    _read_size = 0
    _head_size = 0
    """Bytes read since the head began, the whole of the first read included; 0 while there is no head."""
    _is_long = False
    _words = "this is no HTTP/1.1 request"
    _reading_since = 0.0
    """Loop time since when a request, or the first one, is awaited whole; 0 while none is."""
    _is_answer_unsent = False
    """An answer is complete, and more of it than a little waits for the client to read."""
    _is_lost = False
    _on_lost: Callable[[], object] | None = None
    """Called when the connection is closed: what the request at hand waits for is waited for in vain then."""
    _unsent = (0, 0.0)
    """Bytes the client had not read when last looked, and since when they are so many."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin a connection."""
        self._reading_since = self.loop.time()
        self._joined = JoinedWrites(transport)
        super().connection_made(self._joined)
        self.flow = OneAtATime(self._joined, self.pipeline)

    def on_response_complete(self) -> None:
        """Go on to the next request once the client has read this answer, or nearly."""
        self._joined.flush()
        if self.flow.write_paused and not self.transport.is_closing():
            self._is_answer_unsent = True
            self.flow.pause_reading()
            return
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Note that the client reads slower than it is answered; cut the slowest where they hold too much together."""
        super().pause_writing()
        self._unsent = (self._joined.get_write_buffer_size(), self.loop.time())
        ours: list[GatewayProtocol] = [one for one in self.connections if isinstance(one, GatewayProtocol)]
        slow = [one for one in ours if one.flow.write_paused]
        if sum([one.unsent_bytes for one in slow]) > UNSENT_BYTES_MAX:
            slow.sort(key=GatewayProtocol.waited_since)
            slow[0].transport.abort()

    def resume_writing(self) -> None:
        """Go on where the client read what it was sent."""
        super().resume_writing()
        if self._is_answer_unsent:
            self._is_answer_unsent = False
            super().on_response_complete()

    @property
    def unsent_bytes(self) -> int:
        """What waits for the client to read it."""
        return self._joined.get_write_buffer_size()

    def waited_since(self) -> float:
        """Loop time when the client was last seen to read, while answers wait for it."""
        return self._unsent[1]

    def connection_lost(self, exc: Exception | None) -> None:
        """End, and remember it for answers on their way."""
        self._is_lost = True
        super().connection_lost(exc)
        if self._on_lost is not None:
            self._on_lost()

    def _was_lost(self) -> bool:
        return self._is_lost

    def _when_lost(self, call: Callable[[], object] | None) -> None:
        self._on_lost = call

    def data_received(self, data: bytes) -> None:
        """Read what came; a head that does not end is cut off here."""
        self._read_size = len(data)
        if self._head_size:
            self._head_size += len(data)
        super().data_received(data)
        if self._head_size > HEAD_BYTES_MAX + READ_BYTES_MAX and not self.transport.is_closing():
            self._is_long = True
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._head_size = self._read_size
        self._reading_since = self._reading_since or self.loop.time()
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """Note that the request is whole."""
        self._reading_since = 0.0
        super().on_message_complete()

    def cut_if_stalled(self, now: float) -> None:
        """Close a connection whose request does not arrive, or whose answer is not read: it would stay for ever."""
        unsent_bytes = self.unsent_bytes
        if unsent_bytes != self._unsent[0]:
            self._unsent = (unsent_bytes, now)
        is_unread = unsent_bytes and now - self.waited_since() > UNSENT_SECONDS_MAX
        if is_unread or (self._reading_since and now - self._reading_since > READ_SECONDS_MAX):
            self.transport.abort()

    def on_headers_complete(self) -> None:
        """Begin the call, unless its head is over the limit."""
        if self._head_size > HEAD_BYTES_MAX:  # a body may have come with it: now count exactly
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > HEAD_BYTES_MAX:
                self._is_long = True
                raise ValueError(f"the head of the request has {size} bytes")  # the parser stops here
        self._head_size = 0
        assert self.parser is not None, "the connection is open: its parser is what calls this"
        names = [name for name, _value in self.headers]
        if names.count(b"host") != 1 and self.parser.get_http_version() == "1.1":
            self._words = "a request of HTTP/1.1 has one header Host"
            raise ValueError(self._words)
        if b"transfer-encoding" in names and dict(self.headers)[b"transfer-encoding"].lower() != b"chunked":
            self._words = "Transfer-Encoding may be chunked; a packed body has Content-Encoding"
            raise ValueError(self._words)
        self.scope["gateway.is_lost"] = self._was_lost  # type: ignore[typeddict-unknown-key]
        self.scope["gateway.when_lost"] = self._when_lost  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - our words say more
        """Answer what is no HTTP, or has too large a head, as a problem, and close."""
        status, title = (431, "Request Header Fields Too Large") if self._is_long else (400, "Bad Request")
        words = (
            f"path and headers may have {HEAD_BYTES_MAX} bytes together"
            if self._is_long
            else self._refusal or self._words
        )
        body = (
            f'{{"title":"{title}","status":{status},"code":"INVALID_PARAMETER","retryable":false,"requestId":"",'
            f'"detail":"{words}","field":"headers","type":"about:blank"}}\n'
        ).encode()
        head = (
            f"HTTP/1.1 {status} {title}\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        ).encode()
        self.transport.write(head + body)
        self.transport.close()
