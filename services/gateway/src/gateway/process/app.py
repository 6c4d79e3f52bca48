"""The ASGI application: the hot calls by a short way of their own, everything else through FastAPI's router.

One place turns every refusal and failure into a problem, counts, and logs what failed.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gantry_chassis.logs import get_logger
from gantry_chassis.logs import request_id as log_request_id
from gantry_chassis.memory import LargeThings
from gateway.connection.short_way import ShortWay
from gateway.http.access import OPEN_PATHS, Access
from gateway.http.call import JSON, Call, ClientGone, Event, Receive, Reply, Scope, Send
from gateway.http.clocks import ReplyStamps
from gateway.http.metrics import Figures
from gateway.http.problems import Problem, invalid, rate_limited, refused, unanswered
from gateway.ports.stores import PeerAway, RateLimits, StoreRefused
from gateway.pull.routes import PullRoute
from gateway.receive.routes import LeaseRoutes
from gateway.requests.checks import query_of
from gateway.requests.element_limits import refuse_crowded
from gateway.requests.json_bodies import no_json
from gateway.requests.repeated_names import refuse_twice
from gateway.requests.validation import http_problem, validation_problem
from gateway.send.media_types import check_json_type
from gateway.send.routes import SendRoute

TOPICS = "/v1/topics/"
REPORT_FILES = "/v1/reports/"
_CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_log = get_logger()


class GatewayApp(FastAPI):
    """FastAPI, with a door in front."""

    def __init__(
        self,
        *,
        send: SendRoute,
        pull: PullRoute,
        leases: LeaseRoutes,
        access: Access,
        figures: Figures,
        limits: RateLimits | None,
        stamps: ReplyStamps,
        gzip_bytes_min: int,
        **options: Any,
    ) -> None:
        super().__init__(
            redirect_slashes=False, docs_url=None, redoc_url=None, strict_content_type=False, **options
        )
        self._send_route, self._pull_route, self._leases = send, pull, leases
        self._lease_verbs = leases.by_verb
        self._access, self._figures, self._limits = access, figures, limits
        self._answered: list[BaseRoute] = []
        self.describe: Callable[[], dict[str, Any]] = dict
        """Makes the OpenAPI document, once."""
        self.short_way: ShortWay | None = None
        """The way of calls whose heads are known, for servers that have one."""
        self._stamps, self._gzip_bytes_min = stamps, gzip_bytes_min
        self.large = LargeThings()
        """What gives memory back after large calls."""
        for kind in (Problem, StoreRefused, PeerAway, RequestValidationError, HTTPException):
            self.add_exception_handler(kind, _hand_over)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every way out of here is an answer, a problem, or a client that went away."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        await self.answer(Call(scope, receive, send, self._stamps))

    async def answer(self, call: Call) -> None:
        """Answer one call, and count it."""
        await self.finish(call, self._answer(call))

    async def finish(self, call: Call, replying: Coroutine[Any, Any, Reply]) -> None:
        """Answer a call with what comes of `replying`, and count it."""
        started = self._figures.clock()
        try:
            await call.answer(await replying, self._gzip_bytes_min)
        except ClientGone:
            call.status = 499  # nginx's number for it; only the figures see it
        except Exception as error:  # noqa: BLE001 - whatever it was, the client gets a problem
            await call.refuse(self._problem(call, error))
        self.large.had(call.bytes_moved)
        self._figures.count(_route_name(call.scope), call.status, self._figures.clock() - started)

    def add_routes(self, router: APIRouter) -> None:
        """Add FastAPI routes."""
        self._answered += router.routes
        self.include_router(router, dependencies=[Depends(_check_query)])

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            self.openapi_schema = self.describe()
        return self.openapi_schema

    def add_hot_routes(self, send_path: str, pull_path: str) -> None:
        """Stand the hot calls in the router as raw ASGI routes; `_answer` takes the short way to the same code."""
        self.router.routes.append(Route(send_path, _Raw(self._send_route), methods=["POST"]))
        pull = Route(pull_path, _Raw(self._pull_route), methods=["GET"])
        pull.methods = {"GET"}  # a HEAD that Starlette adds would be a pull for nothing
        self.router.routes.append(pull)
        for path, route in self._leases.by_path().items():
            self.router.routes.append(Route(path, _Raw(route), methods=["POST"]))

    def is_hot(self, path: str) -> bool:
        """Whether a POST of this path is answered by a short way of its own."""
        parts = path.split("/")
        if not path.startswith(TOPICS):
            return False
        is_send = len(parts) == 5 and parts[4] == "messages"
        return is_send or (len(parts) == 7 and parts[4] == "groups" and parts[6] in self._lease_verbs)

    async def _answer(self, call: Call) -> Reply:
        preflight = self._access.browser(call)
        if preflight is not None:
            return preflight
        self._access.check(call.method, call.path, call.headers)
        path: str = call.scope["path"]
        if path.startswith(TOPICS):
            parts = path.split("/")
            if call.scope["method"] == "POST":
                if len(parts) == 5 and parts[4] == "messages":
                    call.scope["route_name"] = "send"
                    return await self._send_route(call, parts[3])
                if len(parts) == 7 and parts[4] == "groups" and parts[6] in self._lease_verbs:
                    call.scope["route_name"] = parts[6]
                    return await self._lease_verbs[parts[6]](call, parts[3], parts[5])
            elif len(parts) == 8 and parts[4] == "queues" and parts[7] == "messages" and call.method == "GET":
                call.scope["route_name"] = "pull"
                return await self._pull_route(call, parts[3], parts[5], parts[6])
        return await self._through_fastapi(call)

    async def _through_fastapi(self, call: Call) -> Reply:
        """Let FastAPI answer into memory; a problem raised on the way comes out as an exception."""
        query = call.scope["query_string"]
        if b"%" in query:
            _check_utf8(query)
        if self._limits is not None and call.path not in OPEN_PATHS:
            wait_ms = await self._limits.take(call.client, "", 1)
            if wait_ms:
                raise rate_limited(wait_ms)
        body = b""
        if call.method in _CHANGES:
            body = await call.body()
            _check_json(call, body)
        events: list[Event] = []

        async def collect(event: Event) -> None:
            events.append(event)

        call.scope["gateway.call"] = call
        await super().__call__(call.scope, call.replay(body), collect)
        if (problem := call.scope.get("gateway.problem")) is not None:
            raise problem
        if (reply := call.scope.get("gateway.reply")) is not None:
            return reply
        start, parts = events[0], events[1:]
        headers = dict(start["headers"])
        content_type = headers.pop(b"content-type", b"").decode()
        headers.pop(b"content-length", None)
        content = b"".join(part.get("body", b"") for part in parts)
        if content_type == JSON and not call.path.startswith(REPORT_FILES):  # a file stays as it is
            content += b"\n"
        return Reply(start["status"], content, content_type, tuple(headers.items()))

    def _allowed(self, scope: Scope) -> str:
        """Return the methods of a path: the router alone names those of one of its routes."""
        methods: set[str] = set()
        for route in [*self.router.routes, *self._answered]:
            if isinstance(route, Route | APIRoute) and route.path_regex.match(scope["path"]):
                methods |= route.methods or set()
        return ", ".join(sorted(methods))

    def _problem(self, call: Call, error: Exception) -> Problem:
        """Say what an exception means to the client; log it once where it is our fault or a store's."""
        problem = problem_of(error)
        if isinstance(error, HTTPException) and error.status_code == 405 and problem is not None:
            problem.headers = [(b"allow", self._allowed(call.scope).encode())]
        if problem is None:
            token = log_request_id.set(call.request_id)
            _log.exception("request failed", method=call.method, path=call.path, exc_info=error)
            log_request_id.reset(token)
            words = f"the gateway failed; its log says more under {call.request_id}"
            return Problem(500, "SYSTEM_ERROR", words, retryable=False)
        if problem.status >= 500:
            _log.debug("request not answered", path=call.path, code=problem.code, detail=problem.detail)
        return problem


def _route_name(scope: Scope) -> str:
    """Return the name a call is counted under: the route's path, never the path of the request."""
    name: str | None = scope.get("route_name")
    return name or getattr(scope.get("route"), "path", None) or "none"


def problem_of(error: Exception) -> Problem | None:
    """Return the problem an exception stands for; None for one that nobody foresaw."""
    match error:
        case Problem():
            return error
        case StoreRefused():
            return refused(error)
        case PeerAway():
            return unanswered(error, is_write=False)
        case RequestValidationError():
            return validation_problem(error.errors(), error.body)
        case HTTPException():
            return http_problem(error)
        case _:
            return None


class _Raw:
    """A hot route as an ASGI application, for the router."""

    def __init__(self, route: Callable[..., Awaitable[Reply]]) -> None:
        self._route = route

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        call: Call = scope["gateway.call"]
        scope["gateway.reply"] = await self._route(call, *scope["path_params"].values())


async def _hand_over(request: Request, error: Exception) -> Response:
    """Leave the problem for `_through_fastapi`, which is the one that writes it."""
    request.scope["gateway.problem"] = error
    return Response()


async def _check_query(request: Request) -> None:
    """Refuse query parameters that the call does not have: usually misspelt ones."""
    query: bytes = request.scope["query_string"]
    route = request.scope["route"]
    if query and isinstance(route, APIRoute) and route.include_in_schema:
        query_of(query, {parameter.alias for parameter in route.dependant.query_params})


def _check_utf8(query: bytes) -> None:
    from urllib.parse import unquote_to_bytes

    try:
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError as error:
        raise invalid("query", "the query is not UTF-8") from error


def _check_json(call: Call, body: bytes) -> None:
    """Refuse what is no JSON before FastAPI sees it: it would say less about it."""
    if not body:
        return
    check_json_type(call.headers)
    refuse_crowded(body)
    try:
        msgspec.json.decode(body)
        refuse_twice(body)
    except RecursionError as error:
        raise invalid("body", "the body is nested too deeply", "nesting depth") from error
    except UnicodeDecodeError as error:
        raise invalid("body", "the body is not UTF-8") from error
    except msgspec.DecodeError as error:
        raise no_json(error, body) from error
