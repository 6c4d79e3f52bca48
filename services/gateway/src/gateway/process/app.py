"""The ASGI application: hot calls go directly to their routes, others through the router.

One place turns every error into a problem, counts the call, and logs failures.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.logs.structured import request_id as log_request_id
from gantry_chassis.machine.memory import LargeThings
from gateway.http.access import OPEN_PATHS, Access
from gateway.http.call import Call, ClientGone, Receive, Reply, Scope, Send, json_reply
from gateway.http.clocks import ReplyStamps
from gateway.http.metrics import CallMetrics
from gateway.http.problems import Problem, cut_off, rate_limited, refused, unanswered
from gateway.ports.stores import PeerAway, RateLimits, StoreRefused
from gateway.process import openapi
from gateway.pull.routes import PullRoute, pull_operation
from gateway.receive.routes import LeaseRoutes
from gateway.requests.operations import Details, Document, Operation, Operations, Router
from gateway.send.routes import SendRoute, send_operation

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
            self._document = openapi.build(self._router.operations, has_token=self._access.has_token)
        return self._document

    def is_hot(self, path: str) -> bool:
        """Whether a POST of this path skips the router."""
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
                    return await self._send(call, parts[3])
                if len(parts) == 7 and parts[4] == "groups" and parts[6] in self._lease_verbs:
                    call.scope["route_name"] = parts[6]
                    return await self._lease_verbs[parts[6]](call, parts[3], parts[5])
            elif len(parts) == 8 and parts[4] == "queues" and parts[7] == "messages" and call.method == "GET":
                call.scope["route_name"] = "pull"
                in_path = {"topic": parts[3], "broker": parts[5], "queueId": parts[6]}
                return await self._pull.answer(call, in_path)
        return await self._routed(call)

    async def _routed(self, call: Call) -> Reply:
        """Answer a call that the router finds."""
        if self._limits is not None and call.path not in OPEN_PATHS:
            wait_ms = await self._limits.take(call.client, "", 1)
            if wait_ms:
                raise rate_limited(wait_ms)
        operation, in_path = self._router.find(call)
        return await operation.answer(call, in_path)

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


def problem_of(error: Exception) -> Problem | None:
    """Return the problem of an expected exception; None for an unexpected one."""
    match error:
        case Problem():
            return error
        case StoreRefused():
            return refused(error)
        case PeerAway():
            return unanswered(error, is_write=False)
        case _:
            return None


def _description(document: Callable[[], Document]) -> list[Operation]:
    """Return the call that shows the OpenAPI document."""
    calls = Operations("")

    @calls.head("/openapi.json")
    @calls.get("/openapi.json", details=Details(is_hidden=True))
    async def show() -> Reply:
        return json_reply(document())

    return calls.all
