"""A small HTTP server for a service's health, metrics and snapshots: uvicorn's protocol inside the service's own loop.

Routes are a table {(method, "/path/{name}"): handler}. The gateway serves anything bigger.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast
from urllib.parse import parse_qsl

import msgspec

from gantry_chassis.http.authorizing import CERTIFICATE, Authorizer, Denial, Incoming
from gantry_chassis.http.web_pages import WebPages
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.addresses import ListeningSocket, listening_socket
from gantry_chassis.metrics import CONTENT_TYPE, Metrics
from gantry_chassis.peers.budget import Budget

if TYPE_CHECKING:
    import uvicorn

    from gantry_chassis.http.connection import HttpConnection

BODY_BYTES_MAX = 1024 * 1024
BACKLOG = 128
JSON = "application/json"
READ_SECONDS = 10.0
"""Longest time to receive a whole request; for the first one, from the start of the connection."""
LATE_SECONDS = 0.5
"""A call whose body took longer is decided once more: its client may have lost the right meanwhile."""
KEEP_ALIVE_SECONDS = 5
"""A connection without a request is closed after this time."""
UNSENT_SECONDS = 30.0
"""Longest time a client may read nothing of an answer."""
SWEEPS_PER_READ_TIME = 5
DESCRIPTORS_MORE = 32
"""Reserved descriptors this port may use, so that health checks work when connections fill the process."""

_log = get_logger()


class Request(NamedTuple):
    """One request, received completely."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    path_params: dict[str, str]


class Response(NamedTuple):
    """One answer; `json_response` builds the usual kind."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


Handler = Callable[[Request], Response | Awaitable[Response]]
Routes = Mapping[tuple[str, str], Handler]


class _Route(NamedTuple):
    method: str
    path: str
    pattern: re.Pattern[str]
    handler: Handler


class _Send(Protocol):
    def __call__(self, event: dict[str, Any], /) -> Awaitable[None]: ...


def json_response(value: object, status: int = 200) -> Response:
    """Return `value` as a JSON response."""
    return Response(status, msgspec.json.encode(value) + b"\n")


def health_routes(ready: Callable[[], str | None], metrics: Metrics) -> dict[tuple[str, str], Handler]:
    """Return the routes every service has. `ready` returns None, or the reason for a 503."""

    def is_ready(_request: Request) -> Response:
        reason = ready()
        return json_response({"ready": reason is None, "reason": reason}, 200 if reason is None else 503)

    async def show_metrics(_request: Request) -> Response:
        return Response(200, await metrics.text(), CONTENT_TYPE)

    return {
        ("GET", "/health/live"): lambda _request: json_response({"live": True}),
        ("GET", "/health/ready"): is_ready,
        ("GET", "/metrics"): show_metrics,
    }


class OpenDoor(Protocol):
    """Accepts the connections of a socket."""

    def close(self) -> None:
        """Accept no more connections."""
        ...


class Door(Protocol):
    """Accepts connections in place of the event loop, to look at their first byte: TLS or plain."""

    def open(
        self,
        listener: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        refusal: Callable[[int, int], tuple[str, str] | None],
        /,
    ) -> OpenDoor:
        """Accept the connections of a listening socket. `make` creates the protocol of each.

        `refusal(descriptor, waiting)` returns why a connection is refused as one word and as a message, or None.
        """
        ...


class _ClientGone(Exception):
    """The client closed before its request was complete: do nothing and answer nobody."""


class HttpServer:
    """Serves a table of routes on one port until closed. `budget`, the process's, counts what clients make it hold."""

    def __init__(
        self,
        host: str,
        port: int,
        routes: Routes,
        budget: Budget,
        allowed_hosts: str = "",
        *,
        read_seconds: float = READ_SECONDS,
        listen: ListeningSocket = listening_socket,
        authorizer: Authorizer | None = None,
    ) -> None:
        """Set up a server. `listen` opens its port.

        `allowed_hosts` is the setting of that name, see `web_pages`; pages of other origins are refused. `authorizer` decides about
        every call before its body is read; without one, every client that reaches the port may call. Raises StartRefused if the authorizer has no rule about a route.
        """
        if authorizer is not None:
            authorizer.demand_routes(routes)
        self._authorizer = authorizer
        self.host, self.port = host, port
        self._pages = WebPages(host, allowed_hosts)
        self._budget, self._read_seconds = budget, read_seconds
        self._listen = listen
        self._sweeper: asyncio.TimerHandle | None = None
        self._routes = [
            _Route(method, path, _pattern(path), handler) for (method, path), handler in routes.items()
        ]
        self._server: uvicorn.Server | None = None
        self._sockets: list[socket.socket] = []
        self._open_door: OpenDoor | None = None

    async def start(self, door: Door | None = None) -> int:
        """Listen, and return the port (chosen by the kernel for 0); with a `door`, for TLS too. Raises OSError when it is taken."""
        from uvicorn import Config, Server

        from gantry_chassis.http.connection import Bounds, HttpConnection
        from gantry_chassis.http.in_order import keep_order

        bounds = Bounds(self._read_seconds, UNSENT_SECONDS, descriptors_more=DESCRIPTORS_MORE)

        def accepted(**options: Any) -> HttpConnection:
            self._sweep_later()
            return HttpConnection(self._budget, bounds, **options)

        listener = self._listen(self.host, self.port, backlog=BACKLOG)
        self.port = listener.getsockname()[1]
        self._sockets = [listener]
        config = Config(
            self._application,
            interface="asgi3",
            http=cast("type[asyncio.Protocol]", accepted),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            date_header=False,  # uvicorn's clock ticks ten times a second; we add the date to each answer
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=5,
        )
        config.load()
        server = Server(config)
        keep_order(server)
        server.lifespan = config.lifespan_class(config)
        # Use only its start and stop: main_loop would wake an idle process, and `serve` takes over our signal
        # handlers.
        await server.startup(sockets=[] if door else self._sockets)
        if door is not None:
            self._open_door = open_door(door, listener, server, self._budget, DESCRIPTORS_MORE)
        self._server = server
        return self.port

    async def close(self) -> None:
        """Stop listening and let running requests finish (≤ 5 s)."""
        server, self._server = self._server, None
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._open_door is not None:
            self._open_door.close()
        if server is not None:
            from gantry_chassis.http.in_order import shut_down

            await shut_down(server, self._sockets)

    def _sweep_later(self) -> None:
        """Check the connections after a while. An idle process has none and is not woken."""
        if self._sweeper is None:
            seconds = self._read_seconds / SWEEPS_PER_READ_TIME
            self._sweeper = asyncio.get_running_loop().call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        if self._server is None:
            return
        connections = cast("list[HttpConnection]", list(self._server.server_state.connections))
        now = asyncio.get_running_loop().time()
        for connection in connections:
            connection.cut_if_stalled(now)
        if connections:
            self._sweep_later()

    async def _application(
        self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: _Send
    ) -> None:
        try:
            response = await self._answer(scope, receive)
        except _ClientGone:
            return
        headers = [
            (b"content-type", response.content_type.encode()),
            (b"content-length", str(len(response.body)).encode()),
            (b"date", formatdate(usegmt=True).encode()),
            *response.headers,
        ]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else response.body
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]]) -> Response:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        refusal = self._pages.refusal(scope["method"], headers)
        if refusal is not None:
            return json_response({"error": refusal.words, "header": refusal.header}, 403)
        return await self._routed(scope, headers, receive)

    async def _routed(
        self, scope: dict[str, Any], headers: dict[bytes, bytes], receive: Callable[[], Awaitable[Any]]
    ) -> Response:
        """Answer a request by the handler of its route, if the authorizer admits it.

        It decides by the head, and once more if the body came late. The body of a refused call is dropped as it comes, and its connection stays open if it comes whole in time.
        """
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        method, path = scope["method"], scope["path"]
        route, params = self._find(method, path)
        denial = self._denial(scope, headers, route, params or {}, query)
        if denial is not None:
            return _refused(denial)
        clock = asyncio.get_running_loop().time
        begin_s = clock()
        body = await _read_body(receive)
        if clock() - begin_s > LATE_SECONDS:
            denial = self._denial(scope, headers, route, params or {}, query)
            if denial is not None:
                return _refused(denial)
        if body is None:
            return json_response({"error": f"the body is over {BODY_BYTES_MAX} bytes"}, 413)
        if body and headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON.encode():
            return json_response({"error": f"a body needs the header Content-Type: {JSON}"}, 415)
        if route is None:
            return json_response({"error": f"no such resource: {path}"}, 405 if params is not None else 404)
        return await _handled(route, Request(method, path, query, body, params or {}))

    def _denial(
        self,
        scope: dict[str, Any],
        headers: dict[bytes, bytes],
        route: "_Route | None",
        params: dict[str, str],
        query: dict[str, str],
    ) -> Denial | None:
        """Return why the authorizer refuses a call."""
        if self._authorizer is None:
            return None
        client = scope.get("client")
        address, certificate = str(client[0]) if client else "", scope.get(CERTIFICATE)
        if route is None:
            return self._authorizer.admits_unknown(headers, address, certificate)
        incoming = Incoming(route.method, route.path, headers, params, query, address, certificate)
        return self._authorizer.authorize(incoming)

    def _find(self, method: str, path: str) -> "tuple[_Route | None, dict[str, str] | None]":
        """Return the route and path parameters; (None, {}) when only the method does not match."""
        other_method: dict[str, str] | None = None
        for route in self._routes:
            match = route.pattern.fullmatch(path)
            if match is None:
                continue
            if method == route.method or (method, route.method) == ("HEAD", "GET"):
                return route, match.groupdict()
            other_method = {}
        return None, other_method


def open_door(
    door: Door, listener: socket.socket, server: "uvicorn.Server", budget: Budget, descriptors_more: int = 0
) -> OpenDoor:
    """Let a door accept the connections of a started server of uvicorn."""
    make = cast("Callable[..., asyncio.BaseProtocol]", server.config.http_protocol_class)

    def refusal(descriptor: int, _waiting: int) -> tuple[str, str] | None:
        if budget.has_descriptor(descriptor - descriptors_more):
            return None
        return "descriptors", budget.descriptor_refusal()

    connection = partial(
        make, config=server.config, server_state=server.server_state, app_state=server.lifespan.state
    )
    return door.open(listener, connection, refusal)


async def _handled(route: _Route, request: Request) -> Response:
    """Return the answer of a route's handler."""
    try:
        answer = route.handler(request)
        return await answer if isawaitable(answer) else answer
    except Exception:  # noqa: BLE001 - one place logs a failed request
        _log.exception("http request failed", method=request.method, path=request.path)
        return json_response({"error": "internal error; see the log of the process"}, 500)


def _refused(denial: Denial) -> Response:
    return json_response({"error": denial.words}, denial.status)._replace(headers=denial.headers)


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path)))


async def _read_body(receive: Callable[[], Awaitable[Any]]) -> bytes | None:
    """Return the whole body; None when it is over the limit. Raises _ClientGone."""
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _ClientGone
        part = event.get("body", b"")
        size += len(part)
        if size > BODY_BYTES_MAX:
            return None
        parts.append(part)
        if not event.get("more_body", False):
            return b"".join(parts)
