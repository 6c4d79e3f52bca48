# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
"""The HTTP connection with a fast path beside uvicorn's parser, for one whole request with a known head.

Reading and answering a request through uvicorn costs 50 to 60 us (parser callbacks, scope, event, task, checked headers); the fast path
costs 5. Everything except one whole request with a known head, on an idle connection, goes through uvicorn. A head is known by all its
bytes except the digits of its Content-Length.
"""

import asyncio
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any, cast

from gantry_chassis.http.authorizing import CERTIFICATE
from gantry_wire.frames.frame_template import marked_number
from gateway.connection.fast_path import FastPath, KnownHead
from gateway.connection.http_protocol import GatewayProtocol
from gateway.http.call import Event

KNOWN_BYTES_MAX = 2048
"""Longer heads are not learned."""
LENGTH_DIGITS_MAX = 7

_END = b"\r\n\r\n"
_END_SIZE = len(_END)
_cut_length = marked_number((b"\r\ncontent-length: ", b"\r\nContent-Length: "), b"\r", LENGTH_DIGITS_MAX)
_CHANGING = frozenset({b"x-request-id", b"traceparent", b"tracestate", b"mq-idempotency-key"})
"""Headers whose value differs in each request: learning a head with one of them is useless."""
_OTHERWISE = frozenset({b"expect", b"upgrade", b"transfer-encoding", b"content-encoding"})
"""Headers that need more than a body and a reply."""
_STAYS = (b"connection", b"keep-alive")
_EVENT = b"ce-"

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


CLOSING = (b"connection", b"close")


class FastExchange:
    """A request in progress, in place of uvicorn's request cycle: the connection sets it when it closes."""

    __slots__ = (
        "_body",
        "_gone",
        "_known",
        "_left",
        "_protocol",
        "_start",
        "disconnected",
        "keep_alive",
        "response_complete",
    )

    def __init__(self, protocol: "FastProtocol", known: KnownHead, body: bytes) -> None:
        self._protocol, self._known = protocol, known
        self._left: bytes | None = body
        self._start: Event | None = None
        self._body = b""
        self._gone: asyncio.Future[None] | None = None
        self.keep_alive = True
        self.disconnected = self.response_complete = False

    @property
    def message_event(self) -> "FastExchange":
        """The event that uvicorn sets when the client disconnects."""
        return self

    def set(self) -> None:
        """Wake the call that waits for the client to disconnect."""
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    @property
    def address(self) -> str:
        """The client's address."""
        client = self._protocol.client
        return str(client[0]) if client else ""

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed."""
        return self._protocol.is_lost

    @property
    def is_answered(self) -> bool:
        """Whether the whole reply was written."""
        return self.response_complete

    def scope(self) -> dict[str, Any]:
        """Return the request's scope."""
        return self._protocol.scope_of(self._known)

    # For `Call`

    async def receive(self) -> Event:
        """Return the body, then wait until the client disconnects."""
        if self._left is not None:
            body, self._left = self._left, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not (self.is_lost or self.response_complete):
            self._gone = asyncio.get_running_loop().create_future()
            await self._gone
        return {"type": "http.disconnect"}

    async def send(self, event: Event) -> None:
        """Take the start of a reply, then the parts of its body; writes the whole reply with the last part."""
        if self._start is None:
            self._start = event
            return
        self._body += event.get("body", b"")
        if not event.get("more_body", False):
            self._answer(self._start["status"], self._start["headers"], self._body)

    def _answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        if CLOSING in headers:
            self.keep_alive = False
        elif not self.keep_alive:
            headers = [*headers, CLOSING]
        lines = [STATUS_LINES[status]]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
        self.write(b"".join((*lines, b"\r\n", body)))

    def write(self, answer: bytes) -> None:
        """Write the bytes of the whole reply; the connection continues with the next request."""
        if self.response_complete:
            return
        self.response_complete = True
        self.set()
        self._protocol.end_fast(self, answer)

    def abort(self) -> None:
        """Close the connection without a reply."""
        self._protocol.transport.abort()


class FastProtocol(GatewayProtocol):
    """A connection with known heads."""

    _head: bytes | None = None
    """The head that uvicorn's parser is reading, if it may be learned."""
    _answered_at = 0.0
    """Loop time of the last reply by the fast path; the idle timeout starts there."""

    def __init__(self, fast_path: FastPath, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._fast_path = fast_path
        self._find = fast_path.heads.get

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed."""
        return self._is_lost

    def data_received(self, data: bytes) -> None:
        """Start a request with a known head by the fast path; parse everything else."""
        exchange = cast("FastExchange | None", self.cycle)
        if self._is_amid or not (exchange is None or exchange.response_complete) or self.flow.write_paused:
            super().data_received(data)
            return
        parts = cut(data)
        if parts is None:
            super().data_received(data)
            return
        head, body_at = parts
        known = self._find(head)
        if known is None:
            self._head = head
            super().data_received(data)
            self._head = None
            return
        self._reading_since = 0.0
        body = data[body_at:]
        exchange = FastExchange(self, known, body)
        self.cycle = cast("Any", exchange)
        self._fast_path.start(known, exchange, body, self.tasks)

    def end_fast(self, exchange: FastExchange, answer: bytes) -> None:
        """Write a reply, and continue with the next request."""
        if self._is_lost:
            return
        self._joined.write_now(answer)
        if not exchange.keep_alive:
            self.transport.close()
            return
        self._answered_at = self.loop.time()
        flow = self.flow
        if self.pipeline or flow.write_paused or flow.read_paused or self.timeout_keep_alive_task is None:
            self.on_response_complete()
        else:
            self.server_state.total_requests += 1

    def scope_of(self, known: KnownHead) -> dict[str, Any]:
        """Return the scope that uvicorn would make."""
        scope = {
            **known.scope,
            "server": self.server,
            "client": self.client,
            "gateway.is_lost": self._was_lost,
            "gateway.when_lost": self._when_lost,
        }
        if self.certificate is not None:
            scope[CERTIFICATE] = self.certificate
        return scope

    def on_headers_complete(self) -> None:
        """Start the call, and learn its head."""
        super().on_headers_complete()
        head, self._head = self._head, None
        scope = cast("dict[str, Any]", self.scope)
        if (
            head is not None
            and not self._is_read_again
            and is_usual(scope)
            and self.parser is not None
            and self.parser.should_keep_alive()
        ):
            self._fast_path.learn(head, scope)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; the fast path does not reset the timer, so its last reply counts here."""
        exchange = cast("FastExchange | None", self.cycle)
        is_busy = exchange is not None and not exchange.response_complete
        left = self.timeout_keep_alive
        if not is_busy:
            left -= self.loop.time() - self._answered_at
        if left <= 0:
            super().timeout_keep_alive_handler()
            return
        self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)


def cut(data: bytes) -> tuple[bytes, int] | None:
    """Split `data` if it is exactly one request with a length.

    Returns its head without the digits of the length, and where its body begins.
    """
    end = data.find(_END, 0, KNOWN_BYTES_MAX)
    if end < 0:
        return None
    found = _cut_length(data, end)
    body_at = end + _END_SIZE
    if found is None or len(data) != body_at + found[1]:
        return None
    return found[0], body_at


def is_usual(scope: MutableMapping[str, Any]) -> bool:
    """Whether the head of a parsed request is worth learning."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    names = [name for name, _value in headers]
    return (
        scope["method"] == "POST"
        and scope["http_version"] == "1.1"
        and not scope["query_string"]
        and names.count(b"content-length") == 1
        and _OTHERWISE.isdisjoint(names)
        and _CHANGING.isdisjoint(names)
        and not any(name.startswith(_EVENT) for name in names)
        and all(value.lower() == _STAYS[1] for name, value in headers if name == _STAYS[0])
    )
