"""The ASGI application: hot calls go directly to their routes, others through the router.

One place turns every error into a problem, counts the call, and logs failures.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.logs.structured import request_id as log_request_id
from gantry_chassis.machine.memory import LargeThings
from gateway.http.access import OPEN_PATHS, Access, Gate, Route
from gateway.http.call import Call, ClientGone, Receive, Reply, Scope, Send, json_reply
from gateway.http.clocks import ReplyStamps
from gateway.http.metrics import CallMetrics
from gateway.http.problems import Problem, cut_off, problem_of, rate_limited
from gateway.ports.stores import RateLimits
from gateway.process import openapi
from gateway.pull.routes import PullRoute, pull_operation
from gateway.receive.routes import LEASES, LeaseRoutes
from gateway.requests.checks import query_of
from gateway.requests.element_limits import LIMITS, refuse_too_many_elements
from gateway.requests.operations import Details, Document, Operation, Operations, Router
from gateway.send.routes import SEND, SendRoute, send_operation

TOPICS = "/v1/topics/"

_log = get_logger()


class HotRoutes(NamedTuple):
    """The hot calls, which skip the router."""

    send: SendRoute
    pull: PullRoute
    leases: LeaseRoutes


class GatewayApp:
    """The ASGI application."""

    def __init__(
        self,
        *,
        hot: HotRoutes,
        operations: Sequence[Operation],
        access: Access,
        call_metrics: CallMetrics,
        limits: RateLimits | None,
        stamps: ReplyStamps,
        gzip_bytes_min: int,
    ) -> None:
        """`operations`: the calls that are not hot."""
        self._send, self._lease_verbs = hot.send, hot.leases.by_verb
        self._pull = pull_operation(hot.pull)
        self._access, self._call_metrics, self._limits = access, call_metrics, limits
        self._is_guarded = access.has_users
        self._stamps, self._gzip_bytes_min = stamps, gzip_bytes_min
        self._document: Document | None = None
        described = [
            *_description(self.openapi),
            send_operation(hot.send),
            self._pull,
            *hot.leases.operations(),
            *operations,
        ]
        self._router = Router(described)
        access.demand_routes(one.route for one in described)
        self.large = LargeThings()
        """Returns memory to the system after large calls."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with a reply or a problem, unless the client has gone."""
        await self.answer(Call(scope, receive, send, self._stamps))

    async def answer(self, call: Call) -> None:
        """Answer one call, and count it."""
        await self.finish(call, self._answer(call))

    async def finish(self, call: Call, replying: Coroutine[Any, Any, Reply]) -> None:
        """Answer a call with the result of `replying`, and count it."""
        started = self._call_metrics.clock()
        try:
            await call.answer(await replying, self._gzip_bytes_min)
        except ClientGone:
            call.status = 499  # nginx's status for it; only the metrics show it
        except asyncio.CancelledError:
            if call.status:
                raise  # its answer has begun
            await call.refuse(cut_off(call.method))  # the server cancels what runs at the end of the drain
        except Exception as error:  # noqa: BLE001 - whatever it was, the client gets a problem
            await call.refuse(self._problem(call, error))
        self.large.had(call.bytes_moved)
        self._call_metrics.count(
            call.scope.get("route_name", "none"), call.status, self._call_metrics.clock() - started
        )

    def openapi(self) -> Document:
        """Return the OpenAPI document, created at the first request for it."""
        if self._document is None:
            self._document = openapi.build(
                self._router.operations,
                has_token=self._access.has_token,
                has_users=self._is_guarded,
            )
        return self._document

    def is_hot(self, path: str) -> bool:
        """Whether a POST of this path skips the router."""
        parts = path.split("/")
        if not path.startswith(TOPICS):
            return False
        is_send = len(parts) == 5 and parts[4] == "messages"
        return is_send or (len(parts) == 7 and parts[4] == "groups" and parts[6] in self._lease_verbs)

    def gate_of(self, scope: Scope) -> Gate | None:
        """Return what decides about the hot calls with this head; None without access control."""
        if not self._is_guarded:
            return None
        parts = scope["path"].split("/")
        route = SEND if len(parts) == 5 else LEASES[parts[6]]
        in_path = {"topic": parts[3], "group": parts[5]} if len(parts) > 5 else {"topic": parts[3]}
        return self._access.gate(dict(scope["headers"]), route, in_path)

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
                    if self._is_guarded:
                        await self._admit(call, SEND, {"topic": parts[3]})
                    return await self._send(call, parts[3])
                if len(parts) == 7 and parts[4] == "groups" and parts[6] in self._lease_verbs:
                    call.scope["route_name"] = parts[6]
                    if self._is_guarded:
                        await self._admit(call, LEASES[parts[6]], {"topic": parts[3], "group": parts[5]})
                    return await self._lease_verbs[parts[6]](call, parts[3], parts[5])
            elif len(parts) == 8 and parts[4] == "queues" and parts[7] == "messages" and call.method == "GET":
                call.scope["route_name"] = "pull"
                in_path = {"topic": parts[3], "broker": parts[5], "queueId": parts[6]}
                if self._is_guarded:
                    await self._admit(call, self._pull.route, in_path, self._pull.query_names)
                return await self._pull.answer(call, in_path)
        return await self._routed(call)

    async def _routed(self, call: Call) -> Reply:
        """Answer a call that the router finds."""
        found = await self._admitted(call) if self._is_guarded else None
        if self._limits is not None and call.path not in OPEN_PATHS:
            wait_ms = await self._limits.take(call.client, "", 1)
            if wait_ms:
                raise rate_limited(wait_ms)
        operation, in_path = found or self._router.find(call)
        try:
            return await operation.answer(call, in_path)
        except Problem as problem:
            if problem.status == 404:
                call.check_unread_record()
            raise

    async def _admitted(self, call: Call) -> tuple[Operation, dict[str, str]]:
        """Return the operation of an admitted call and its path parameters. Raise 401 before 404 and 405."""
        try:
            operation, in_path = self._router.find(call)
        except Problem:
            self._access.admit_unknown(call)
            raise
        await self._admit(call, operation.route, in_path, operation.query_names)
        return operation, in_path

    async def _admit(
        self,
        call: Call,
        route: Route,
        in_path: Mapping[str, str],
        query_names: Collection[str] | None = None,
    ) -> None:
        """Let access control admit a call. Raise 401, then 400 for a query that cannot be read, then 403.

        Without `query_names`, the rights of the route depend on no query, and its handler reads it.
        """
        access, since = self._access, self._access.moment
        caller = access.caller_of(call, route)
        if caller is None:
            return
        query = {} if query_names is None else query_of(call.scope["query_string"], query_names)
        fields = {**query, **in_path}
        if access.reads_body(route):  # only now, when it is known who calls
            body = await call.body()
            refuse_too_many_elements(body, LIMITS)
            access.admit(call, access.caller_again(call, caller, route, since), route, fields, body)
        else:
            access.admit(call, caller, route, fields, None)
            call.once_read(partial(access.check_read, call, caller, route, fields, since))

    def _problem(self, call: Call, error: Exception) -> Problem:
        """Return the problem of an exception; log it once if the gateway or a store is the cause."""
        problem = problem_of(error)
        if problem is None:
            token = log_request_id.set(call.request_id)
            _log.exception("request failed", method=call.method, path=call.path, exc_info=error)
            log_request_id.reset(token)
            detail = f"the gateway failed; its log says more under {call.request_id}"
            return Problem(500, "SYSTEM_ERROR", detail, retryable=False)
        if problem.status >= 500:
            _log.debug("request not answered", path=call.path, code=problem.code, detail=problem.detail)
        return problem


def _description(document: Callable[[], Document]) -> list[Operation]:
    """Return the call that shows the OpenAPI document."""
    calls = Operations("")

    @calls.head("/openapi.json")
    @calls.get("/openapi.json", details=Details(is_hidden=True))
    async def show() -> Reply:
        return json_reply(document())

    return calls.all
