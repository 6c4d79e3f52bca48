# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
"""The connection, with a short way beside uvicorn's for a request whose head is known and that has come whole.

Reading and answering a request through uvicorn costs 50 to 60 us (parser callbacks, scope, event, task, head checked by patterns); by the
short way 5. Everything that is not plainly one known request, on a connection where nothing is under way, goes through uvicorn.
"""

import asyncio
from http import HTTPStatus
from typing import Any, cast

from gateway.connection.http_protocol import GatewayProtocol
from gateway.connection.known_heads import cut, is_usual
from gateway.connection.short_way import Known, ShortWay
from gateway.http.call import Event

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


CLOSING = (b"connection", b"close")


class ShortCycle:
    """A request on its way, in the place where uvicorn keeps its own: the connection tells it of its end."""

    __slots__ = (
        "_body",
        "_known",
        "_left",
        "_protocol",
        "_start",
        "_told",
        "disconnected",
        "keep_alive",
        "response_complete",
    )

    def __init__(self, protocol: "ShortProtocol", known: Known, body: bytes) -> None:
        self._protocol, self._known = protocol, known
        self._left: bytes | None = body
        self._start: Event | None = None
        self._body = b""
        self._told: asyncio.Future[None] | None = None
        self.keep_alive = True
        self.disconnected = self.response_complete = False

    @property
    def message_event(self) -> "ShortCycle":
        """What uvicorn sets when the client is gone."""
        return self

    def set(self) -> None:
        """Wake who waits for the client to be gone."""
        if self._told is not None and not self._told.done():
            self._told.set_result(None)

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed."""
        return self._protocol.is_lost

    def scope(self) -> dict[str, Any]:
        """Return the request's scope."""
        return self._protocol.scope_of(self._known)

    # What a `Call` needs

    async def receive(self) -> Event:
        """Return the body, then wait until the client is gone."""
        if self._left is not None:
            body, self._left = self._left, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not (self.is_lost or self.response_complete):
            self._told = asyncio.get_running_loop().create_future()
            await self._told
        return {"type": "http.disconnect"}

    async def send(self, event: Event) -> None:
        """Take the start of an answer, then the parts of its body; all is written when the last one comes."""
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
        """Write the bytes of the whole answer; the connection goes on to the next request."""
        self.response_complete = True
        self.set()
        self._protocol.end_short(self, answer)


class ShortProtocol(GatewayProtocol):
    """A connection that knows heads."""

    _head: bytes | None = None
    """The head that uvicorn's parser reads now, where it may become a known one."""
    _answered_at = 0.0
    """Loop time of the last answer by the short way; since then the client may stay silent for so long."""

    def __init__(self, short: ShortWay, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._short = short
        self._find = short.heads.get

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed."""
        return self._is_lost

    def data_received(self, data: bytes) -> None:
        """Take a known request by the short way; everything else is parsed."""
        cycle = cast("ShortCycle | None", self.cycle)
        if self._is_amid or not (cycle is None or cycle.response_complete) or self.flow.write_paused:
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
        cycle = ShortCycle(self, known, body)
        self.cycle = cast("Any", cycle)
        self._short.begin(known, cycle, body, self.tasks)

    def end_short(self, cycle: ShortCycle, answer: bytes) -> None:
        """Write an answer, and go on."""
        if self._is_lost:
            return
        self._joined.write_now(answer)
        if not cycle.keep_alive:
            self.transport.close()
            return
        self._answered_at = self.loop.time()
        flow = self.flow
        if self.pipeline or flow.write_paused or flow.read_paused or self.timeout_keep_alive_task is None:
            self.on_response_complete()
        else:
            self.server_state.total_requests += 1

    def scope_of(self, known: Known) -> dict[str, Any]:
        """Return a scope as uvicorn would make it."""
        return {
            **known.scope,
            "server": self.server,
            "client": self.client,
            "gateway.is_lost": self._was_lost,
            "gateway.when_lost": self._when_lost,
        }

    def on_headers_complete(self) -> None:
        """Begin the call, and keep what its head means."""
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
            self._short.learn(head, scope)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that is silent; one that was used by the short way has not reset the timer each time."""
        cycle = cast("ShortCycle | None", self.cycle)
        is_busy = cycle is not None and not cycle.response_complete
        left = self.timeout_keep_alive
        if not is_busy:
            left -= self.loop.time() - self._answered_at
        if left <= 0:
            super().timeout_keep_alive_handler()
            return
        self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
