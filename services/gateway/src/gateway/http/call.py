"""One HTTP call: headers, body (read within limits), reply. Knows ASGI, and nothing of messages."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from gantry_chassis.http.authorizing import CERTIFICATE, Certificate
from gateway.http.clocks import ReplyStamps
from gateway.http.problems import CONTENT_TYPE as PROBLEM_TYPE
from gateway.http.problems import Problem, check_denial, invalid

if TYPE_CHECKING:
    from gantry_access.model.needs import Requirement
    from gantry_guard.http_door import Admission

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

REQUEST_BYTES_MAX = 16 * 1024 * 1024
DROP_BYTES_MAX = 256 * 1024 * 1024
DROP_SECONDS_MAX = 10.0
"""How much of an oversized body is read and dropped, so that the client can read the reply before the connection closes."""
BODY_SECONDS_MAX = 60.0
GZIP_IN_THREAD_BYTES = 128 * 1024
REQUEST_ID_CHARS_MAX = 128

JSON = "application/json"
_encode = msgspec.json.encode
_OK_HEAD = b"HTTP/1.1 200 OK\r\ndate: %s\r\ncontent-type: application/json\r\nx-request-id: %s\r\n%scontent-length: %d\r\n%s\r\n"
_ID_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~-")
_QUIET = frozenset({204, 304})


class Reply:
    """The reply to a call."""

    __slots__ = ("body", "content_type", "headers", "on_lost", "status")

    def __init__(
        self,
        status: int,
        body: bytes,
        content_type: str = JSON,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        """`on_lost` is called if the reply cannot be written because the client has gone."""
        self.status, self.body, self.content_type, self.headers = status, body, content_type, headers
        self.on_lost = on_lost


def json_line(value: object) -> bytes:
    """Return `value` as JSON with a newline at the end, for terminals."""
    return _encode(value) + b"\n"


def json_reply(value: object, status: int = 200) -> Reply:
    """Reply with `value` as JSON."""
    return Reply(status, json_line(value))


def json_head(stamps: ReplyStamps, size: int, *, stays: bool, varies: bool = False) -> bytes:
    """Return the head of a JSON reply, with the same bytes as `Call.answer` writes.

    `stays` says whether the connection stays open; `varies` whether the reply could be compressed for another client.
    """
    closing = b"" if stays else b"connection: close\r\n"
    varying = b"vary: accept-encoding\r\n" if varies else b""
    return _OK_HEAD % (stamps.date(), stamps.next_id().encode(), varying, size, closing)


def takes_gzip(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the client accepts compressed replies."""
    accepted = headers.get(b"accept-encoding", b"").lower()
    if b"gzip" not in accepted:
        return False
    for part in accepted.split(b","):
        name, _, weight = part.partition(b";")
        if name.strip() == b"gzip":
            return weight.replace(b" ", b"") not in {b"q=0", b"q=0.0", b"q=0.00", b"q=0.000"}
    return False


class Call:
    """One request and its reply."""

    __slots__ = (
        "_admission",
        "_is_read",
        "_once_read",
        "_receive",
        "_send",
        "_stamps",
        "_taken",
        "bytes_moved",
        "extra_headers",
        "headers",
        "request_id",
        "scope",
        "status",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        stamps: ReplyStamps,
        admission: "Admission | None" = None,
    ) -> None:
        """`admission` is given if access control has admitted the call before."""
        self.scope, self._receive, self._send = scope, receive, send
        self._stamps = stamps
        self._admission = admission
        self._taken: bytes | None = None
        """The body, if it was read to find out what the call requires."""
        self._once_read: Callable[[], None] | None = None
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        given = self.headers.get(b"x-request-id")
        is_usable = (
            given is not None and 0 < len(given) <= REQUEST_ID_CHARS_MAX and _ID_LETTERS.issuperset(given)
        )
        self.request_id = given.decode() if given is not None and is_usable else stamps.next_id()
        self.extra_headers: list[tuple[bytes, bytes]] = []
        self.status = 0
        self.bytes_moved = 0
        """Bytes of the body and of the reply, uncompressed."""
        self._is_read = False

    @property
    def method(self) -> str:
        """The method, in capitals."""
        return self.scope["method"]

    @property
    def path(self) -> str:
        """The decoded path."""
        return self.scope["path"]

    @property
    def client(self) -> str:
        """The client's address."""
        peer = self.scope.get("client")
        return str(peer[0]) if peer else ""

    @property
    def certificate(self) -> Certificate | None:
        """The verified certificate that the client of the connection showed."""
        return self.scope.get(CERTIFICATE)

    @property
    def admission(self) -> "Admission | None":
        """What access control found out about the call; None without access control, or before it has admitted the call."""
        return self._admission

    def admit(self, admission: "Admission", body: bytes | None = None) -> None:
        """Take the admission of the call, and its body if that was read for it."""
        self._admission, self._taken = admission, body

    def once_read(self, check: Callable[[], None]) -> None:
        """Call `check`, which may raise a problem, once the body was read: that may be a minute after the head."""
        self._once_read = check

    def check_record(self, topic: str) -> None:
        """Raise 403 if access control refuses a record of this topic to the client of the call."""
        if self._admission is not None:
            check_denial(self._admission.of_record(topic))

    def check_unread_record(self) -> None:
        """Raise 403 if access control refuses a record that the call identifies, and whose topic nobody has looked up.

        That is all topics, unless the call names one and so reaches records of that one alone.
        """
        if self._admission is not None:
            check_denial(self._admission.of_unread_record())

    def check_also(self, needed: "Sequence[Requirement]") -> None:
        """Raise 403 if access control refuses something more to the client of the call."""
        if self._admission is not None:
            check_denial(self._admission.also(needed))

    async def body(self, bytes_max: int = REQUEST_BYTES_MAX) -> bytes:
        """Read and decompress the whole body. Raise 413 over `bytes_max`; with a Content-Length, before reading anything."""
        if self._taken is not None:
            return self._taken
        length = self.headers.get(b"content-length")
        if length is not None and length.isdigit() and int(length) > bytes_max:
            raise too_large(bytes_max)
        event = await self._event()
        body: bytes = event.get("body", b"")
        if event.get("more_body", False):
            body = await self._rest(body, bytes_max)
        self._is_read = True
        self.bytes_moved += len(body)
        if len(body) > bytes_max:
            raise too_large(bytes_max)
        if self._once_read is not None:
            self._once_read()
        encoding = self.headers.get(b"content-encoding")
        if encoding is None:
            return body
        unpacked = _unpacked(body, encoding, bytes_max)
        self.bytes_moved += len(unpacked)
        return unpacked

    async def _rest(self, first: bytes, bytes_max: int) -> bytes:
        parts = [first]
        size = len(first)
        try:
            async with asyncio.timeout(BODY_SECONDS_MAX):
                while True:
                    event = await self._event()
                    part: bytes = event.get("body", b"")
                    size += len(part)
                    if size > bytes_max:
                        raise too_large(bytes_max)
                    parts.append(part)
                    if not event.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError as error:
            raise Problem(
                408,
                "REQUEST_TIMEOUT",
                f"the body did not arrive within {BODY_SECONDS_MAX} s; nothing was done",
                retryable=True,
            ) from error

    async def _event(self) -> Event:
        event = await self._receive()
        if event["type"] == "http.disconnect":
            raise ClientGone
        return event

    async def gone(self) -> None:
        """Return when the client has closed its connection. The body must have been read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    @property
    def is_lost(self) -> bool:
        """Whether the connection was closed before the reply was written."""
        was_lost: Callable[[], bool] | None = self.scope.get("gateway.is_lost")
        return was_lost is not None and was_lost()

    def when_lost(self, call: Callable[[], object] | None) -> None:
        """Call `call` when the connection closes, instead of the callback set before; None removes it."""
        when_lost: Callable[[Callable[[], object] | None], None] | None = self.scope.get("gateway.when_lost")
        if when_lost is not None:
            when_lost(call)

    def replay(self, body: bytes) -> Receive:
        """Return a `receive` that returns a body already read."""
        left = [body]

        async def receive() -> Event:
            if left:
                return {"type": "http.request", "body": left.pop(), "more_body": False}
            return await self._receive()

        return receive

    async def answer(self, reply: Reply, gzip_bytes_min: int = 0) -> None:
        """Write the reply; compressed if it is large and the client accepts gzip."""
        if reply.on_lost is None:
            await self._write(reply, gzip_bytes_min)
            return
        is_written = False
        try:
            if not self.is_lost:
                await self._write(reply, gzip_bytes_min)
                is_written = not self.is_lost
        finally:
            if not is_written:
                reply.on_lost()

    async def _write(self, reply: Reply, gzip_bytes_min: int) -> None:
        body = reply.body
        self.bytes_moved += len(body)
        headers = [
            (b"date", self._stamps.date()),
            (b"content-type", reply.content_type.encode()),
            (b"x-request-id", self.request_id.encode()),
            *reply.headers,
            *self.extra_headers,
        ]
        if gzip_bytes_min and len(body) >= gzip_bytes_min:
            headers.append((b"vary", b"accept-encoding"))
            if takes_gzip(self.headers):
                body = (
                    _gzip(body) if len(body) < GZIP_IN_THREAD_BYTES else await asyncio.to_thread(_gzip, body)
                )
                headers.append((b"content-encoding", b"gzip"))
        if reply.status not in _QUIET:
            headers.append((b"content-length", str(len(body)).encode()))
        self.status = reply.status
        must_drop = not self._is_read and self._has_body()
        if must_drop:
            headers.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": reply.status, "headers": headers})
        if must_drop:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
            await self._drop_rest()
            body = b""
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, problem: Problem) -> None:
        """Write a problem."""
        headers = list(problem.headers)
        if problem.retry_after_ms is not None and problem.status in {429, 503, 507}:
            headers.append((b"retry-after", str(max(1, -(-problem.retry_after_ms // 1000))).encode()))
        body = json_line(problem.body(self.request_id))
        await self.answer(Reply(problem.status, body, PROBLEM_TYPE, tuple(headers)))

    def _has_body(self) -> bool:
        return self.headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self.headers

    async def _drop_rest(self) -> None:
        """Read and drop the rest of the request: closing with unread bytes would lose the reply."""
        dropped = 0
        try:
            async with asyncio.timeout(DROP_SECONDS_MAX):
                while dropped < DROP_BYTES_MAX:
                    event = await self._receive()
                    dropped += len(event.get("body", b""))
                    if not event.get("more_body", False):
                        return
        except TimeoutError:
            return


class ClientGone(Exception):
    """The client closed before its request was complete; nobody reads the reply."""


def too_large(bytes_max: int) -> Problem:
    """Return 413: the request is over the limit."""
    limit = f"{bytes_max} bytes"
    return Problem(
        413, "REQUEST_TOO_LARGE", f"the request body is over the limit of {limit}", field="body", limit=limit
    )


def _gzip(body: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()


def _unpacked(body: bytes, encoding: bytes, bytes_max: int) -> bytes:
    """Return the decompressed body; the limit applies to the decompressed size."""
    match encoding.strip().lower():
        case b"identity" | b"":
            return body
        case b"gzip" | b"x-gzip":
            pass
        case _:
            raise Problem(
                415,
                "UNSUPPORTED_MEDIA_TYPE",
                "Content-Encoding may be gzip or identity",
                field="Content-Encoding",
            )
    inflater = zlib.decompressobj(31)
    try:
        unpacked = inflater.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise invalid("body", "the body is no gzip, as Content-Encoding says it is") from error
    if len(unpacked) > bytes_max:
        raise too_large(bytes_max)
    if not inflater.eof or inflater.unused_data:
        raise invalid("body", "the gzip body is cut off, or something follows it")
    return unpacked
