"""Liveness, readiness, metrics, and the pages that show the API."""

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Annotated, Literal

from msgspec import Meta

from gantry_chassis.metrics import CONTENT_TYPE
from gateway.http.call import Call, Reply, json_reply
from gateway.http.problems import Problem
from gateway.requests.fields import Shown
from gateway.requests.operations import Details, Operation, Operations
from gateway.routing.probe import Probe

BROKERS_MAX = 1000

Brokers = Annotated[int, Meta(ge=1, le=BROKERS_MAX, description="Minimum number of stores.")]
Fresh = Annotated[
    bool,
    Meta(
        description="Send a new message through every store, at most one per second, also after one has passed."
    ),
]
_READY = "Not ready; `stores` says why."


class Live(Shown):
    """The process runs."""

    status: Literal["live"]


class Ready(Shown):
    """Whether a message made the round trip through each store, and why not."""

    status: Literal["ready", "starting", "draining"]
    stores: dict[str, str]


def health_routes(
    probe: Probe,
    metrics_text: Callable[[], Awaitable[bytes]],
    is_draining: Callable[[], bool],
    has_users: Callable[[], bool],
) -> list[Operation]:
    """Return the routes. `has_users` returns whether access control has read its users, or is off."""
    calls = Operations("health")

    @calls.head("/health/live")
    @calls.get("/health/live")
    async def live() -> Live:
        """Report that the process runs."""
        return Live("live")

    @calls.head("/health/ready")
    @calls.get("/health/ready", details=Details(reply=Ready, not_ready=_READY))
    async def ready(brokers: Brokers = 1, fresh: Fresh = False) -> Reply:
        """Report whether a message has made the round trip through every registered store."""
        if is_draining():
            return json_reply(Ready("draining", {}), 503)
        if not has_users():
            return json_reply(Ready("starting", {"*": "access control has not read its users yet"}), 503)
        is_ready, stores = await probe.check(brokers, fresh=fresh)
        return json_reply(Ready("ready" if is_ready else "starting", stores), 200 if is_ready else 503)

    @calls.get("/metrics", details=Details(reply_content={"text/plain": {"schema": {"type": "string"}}}))
    async def figures() -> Reply:
        """Metrics in Prometheus' text format."""
        return Reply(200, await metrics_text(), CONTENT_TYPE)

    @calls.get("/docs", details=Details(is_hidden=True))
    async def docs() -> Reply:
        return _page("docs_page.html")

    @calls.get("/", details=Details(is_hidden=True))
    async def index(call: Call) -> Reply:
        """Show a start page to browsers; return 404 to programs."""
        if b"text/html" not in call.headers.get(b"accept", b"").lower():
            detail = "nothing is here: /openapi.json describes the calls, /docs shows them to a browser"
            raise Problem(404, "NOT_FOUND", detail)
        return _page("index_page.html")

    return calls.all


def _page(name: str) -> Reply:
    page = files("gateway.process").joinpath(name).read_bytes()
    return Reply(200, page, "text/html; charset=utf-8", ((b"vary", b"accept"),))
