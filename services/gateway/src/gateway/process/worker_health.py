"""A separate port for one process: on a port that several share, the kernel chooses which process answers."""

from collections.abc import Awaitable, Callable

from gantry_chassis.http.authorizing import Authorizer
from gantry_chassis.http.server import Handler, HttpServer, Request, Response, json_response
from gantry_chassis.machine.addresses import ListeningSocket, listening_socket
from gantry_chassis.peers.budget import Budget
from gantry_chassis.start_refusal import StartRefused
from gateway.process.workers import HOST, PATH


async def serve_own_health(
    port: int,
    budget: Budget,
    metrics: Handler,
    listen: ListeningSocket = listening_socket,
    *,
    authorizer: Authorizer | None,
) -> Callable[[], Awaitable[None]]:
    """Serve `GET /health/live` and `GET /figures` until the returned function is called; with port 0, serve nothing.

    `listen` opens the port. `authorizer` decides about calls; None: access control is off.
    """
    if not port:
        return _nothing
    routes = {("GET", "/health/live"): _live, ("GET", PATH): metrics}
    server = HttpServer(HOST, port, routes, budget, listen=listen, authorizer=authorizer)
    try:
        await server.start()
    except OSError as error:
        raise StartRefused(
            f"cannot listen on {HOST}:{port}: {error.strerror}; set another health_port"
        ) from error
    return server.close


def _live(_request: Request) -> Response:
    return json_response({"status": "live"})


async def _nothing() -> None:
    pass
