"""Liveness, readiness, figures, and the page that shows the API."""

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import HTMLResponse, JSONResponse, Response

from gantry_chassis.metrics import CONTENT_TYPE
from gateway.http.problems import Problem
from gateway.requests.models import Live, Ready
from gateway.requests.parameters import problems
from gateway.routing.probe import Probe

BROKERS_MAX = 1000


def health_routes(
    probe: Probe, figures_text: Callable[[], Awaitable[bytes]], is_draining: Callable[[], bool]
) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["health"])

    @router.get("/health/live")
    async def live() -> Live:
        """Say that the process runs."""
        return Live(status="live")

    @router.get(
        "/health/ready",
        response_model=Ready,
        responses={
            400: problems(400)[400],
            503: {"model": Ready, "description": "Not ready; `stores` says why."},
        },
    )
    async def ready(
        brokers: Annotated[
            int, Query(ge=1, le=BROKERS_MAX, description="How many stores there must be.")
        ] = 1,
    ) -> Response:
        """Say whether a message has made the round trip through every store that is registered."""
        if is_draining():
            return JSONResponse(Ready(status="draining", stores={}).model_dump(), 503)
        is_ready, stores = await probe.check(brokers)
        body = Ready(status="ready" if is_ready else "starting", stores=stores)
        return JSONResponse(body.model_dump(), 200 if is_ready else 503)

    for path, endpoint in (("/health/live", live), ("/health/ready", ready)):  # what load balancers ask with
        router.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def figures() -> Response:
        """Figures in Prometheus' text format."""
        return Response(await figures_text(), headers={"content-type": CONTENT_TYPE})

    @router.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return _page("docs_page.html")

    @router.get("/", include_in_schema=False)
    async def index(accept: Annotated[str, Header()] = "") -> HTMLResponse:
        """Say what this is to somebody who opens it in a browser; for programs nothing is here."""
        if "text/html" not in accept.lower():
            words = "nothing is here: /openapi.json describes the calls, /docs shows them to a browser"
            raise Problem(404, "NOT_FOUND", words)
        return _page("index_page.html")

    return router


def _page(name: str) -> HTMLResponse:
    page = files("gateway.process").joinpath(name).read_text(encoding="utf-8")
    return HTMLResponse(page, headers={"vary": "accept"})
