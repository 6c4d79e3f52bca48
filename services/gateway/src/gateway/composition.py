"""The gateway's composition root: settings → ports → server. Only this module opens connections."""

import asyncio
import gc
from typing import TYPE_CHECKING

from gantry_chassis.certificates import OutgoingFiles, checked_at_start, open_certificate
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.addresses import joined
from gantry_chassis.machine.environment import Environment
from gantry_chassis.machine.private_files import read_secret
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_chassis.peers.budget import show_budget
from gantry_chassis.process import Life
from gantry_chassis.settings.loading import masked
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.opening import open_guard
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.connections.client_tls import (
    ClientTlsFiles,
    client_context,
    files_of,
    hints_tls,
    outgoing_tls,
)
from gantry_link.connections.pool import ConnectionPool
from gantry_link.serving.tls_door import TlsDoor
from gateway.access_control import access_parts, door_of_worker, follow_users
from gateway.connection.serving import HttpServer
from gateway.http.clocks import ReplyStamps, SystemClocks, unique_ids
from gateway.process.assembly import Gateway, Ports, assemble
from gateway.process.worker_health import serve_own_health
from gateway.settings import GatewaySettings
from gateway.stores.http_replicas import HttpReplicas
from gateway.stores.link_histories import LinkHistories
from gateway.stores.link_leases import LinkLeaseStores
from gateway.stores.link_names import LinkNames
from gateway.stores.link_schedules import LinkSchedulers
from gateway.stores.link_store import LinkStores
from gateway.stores.link_transactions import LinkTransactions

if TYPE_CHECKING:
    from gantry_guard.guard import Guard
    from gateway.grpc.port import GrpcPort
    from gateway.stores.redis_limits import RedisLimits

LEADER_POLL_SECONDS = 1.0
ROUTE_IDLE_SECONDS = 600.0
GC_THRESHOLDS = (50_000, 20, 100)
"""Objects allocated before a garbage collection. A receive of 32 allocates more than Python's default of 700, and cycles are rare."""
_log = get_logger()


async def serve(settings: GatewaySettings, life: Life, *, fast_paths: bool = True) -> None:
    """Run a gateway until its life ends. Raises StartRefused."""
    environment, metrics = life.environment, Metrics()
    outgoing = OutgoingFiles(metrics, "gateway")
    guard = open_guard(settings, "gateway", metrics, environment)
    pool = ConnectionPool(
        rng=environment.rng,
        tls=outgoing.open(outgoing_tls, settings),
        introduce=None if guard is None else guard.introducer,
    )
    hints = Hints(
        settings.nats_url,
        "gateway",
        environment.rng,
        settings.nats_token_file,
        outgoing.open(hints_tls, settings),
    )
    limits = _limits(settings, environment)
    gateway = assemble(
        settings,
        _ports(settings, environment, pool, hints, limits, guard),
        fast_paths=fast_paths,
        access_parts=access_parts(settings, life, guard, pool),
        metrics=metrics,
    )
    follow_users(life, guard, gateway, pool, metrics)
    _follow_routes(settings, life, hints, gateway)
    server = _server(settings, gateway, environment, metrics)
    own_door = None if guard is None else door_of_worker(guard, settings)
    close_own_health = await serve_own_health(
        settings.health_port,
        server.budget,
        gateway.workers.answer,
        environment.listening_socket,
        authorizer=own_door,
    )
    gc.set_threshold(*GC_THRESHOLDS)
    gc.freeze()  # the routes live as long as the process
    door = TlsDoor.of(open_certificate(settings, life, metrics, "gateway"), server.budget)
    port = await _listen(settings, server, door)
    grpc = await _listen_grpc(settings, life, gateway, server, door, metrics)
    if not settings.token and guard is None:
        _log.warning(
            "no access control: any client that reaches this port may send, read and delete",
            listen=settings.listen,
        )
    _log.debug("settings", **masked(settings))
    ready = {} if grpc is None else {"grpc": joined(settings.listen, grpc.number)}
    _log.info("ready", http=f"http://{joined(settings.listen, port)}", **ready)
    await life.stopping.wait()
    gateway.drain()
    await asyncio.gather(server.close(), *([] if grpc is None else [grpc.close()]))
    await close_own_health()
    await pool.close()
    if limits is not None:
        await limits.close()
    if guard is not None:
        guard.audit.close()


def _follow_routes(settings: GatewaySettings, life: Life, hints: Hints, gateway: Gateway) -> None:
    """Read routes again after hints, and by a slow poll."""
    hints.subscribe(
        "gantry.route.*", lambda subject, _payload: gateway.routes.hinted(subject.split(".", 2)[2])
    )
    life.supervise("hints", hints.run)

    async def poll_routes() -> None:
        while not await life.sleep(settings.route_poll_seconds):
            await gateway.routes.refresh(ROUTE_IDLE_SECONDS)

    async def poll_leaders() -> None:
        while not await life.sleep(LEADER_POLL_SECONDS):
            gateway.routes.look_at_leaders()

    life.supervise("route poll", poll_routes)
    life.supervise("leader poll", poll_leaders)


def _ports(
    settings: GatewaySettings,
    environment: Environment,
    pool: ConnectionPool,
    hints: Hints,
    limits: "RedisLimits | None",
    guard: "Guard | None",
) -> Ports:
    clocks, timeout_seconds = SystemClocks(environment), settings.request_timeout_ms / 1000
    return Ports(
        LinkNames(pool, NameserverClient(pool, settings.nameservers, timeout_seconds), timeout_seconds),
        LinkStores(pool, clocks.wall_ms, timeout_seconds),
        hints,
        limits,
        clocks,
        unique_ids(settings.listen, environment),
        ReplyStamps(environment.wall_ns, environment.secret_bytes(6).hex()),
        LinkSchedulers(pool, timeout_seconds),
        LinkLeaseStores(pool, timeout_seconds),
        LinkTransactions(pool, timeout_seconds),
        LinkHistories(pool, timeout_seconds),
        HttpReplicas(None if guard is None else guard.inner_http().header),
    )


def _server(
    settings: GatewaySettings, gateway: Gateway, environment: Environment, metrics: Metrics
) -> HttpServer:
    budget = settings.make_budget(environment.steady)
    show_budget(metrics, "gateway", budget)
    return HttpServer(
        gateway.app,
        gateway.fast_path,
        budget,
        drain_seconds=settings.drain_seconds,
        listen=environment.listening_socket,
    )


async def _listen(settings: GatewaySettings, server: HttpServer, door: TlsDoor | None) -> int:
    try:
        return await server.start(settings.listen, settings.port, reuse_port=settings.reuse_port, door=door)
    except OSError as error:
        where = joined(settings.listen, settings.port)
        raise StartRefused(f"cannot listen on {where}: {error.strerror}; set another port") from error


async def _listen_grpc(
    settings: GatewaySettings,
    life: Life,
    gateway: Gateway,
    server: HttpServer,
    door: TlsDoor | None,
    metrics: Metrics,
) -> "GrpcPort | None":
    """Open the gRPC port, which shares the HTTP server's budget; None if it is off."""
    if gateway.grpc is None:
        return None
    from gateway.grpc.port import open_port  # loaded only if gRPC is on

    return await open_port(gateway.grpc, settings, life, server.budget, door, metrics)


def _redis_tls(settings: GatewaySettings) -> ClientTlsFiles | None:
    """Return the files for Redis, checked; None unless its URL begins with rediss://."""
    if not settings.redis_url.startswith("rediss://"):
        return None
    files = files_of(settings)
    client_context(files)
    return files


def _limits(settings: GatewaySettings, environment: Environment) -> "RedisLimits | None":
    client_rate, topic_rate = settings.client_messages_per_second, settings.topic_messages_per_second
    if not settings.redis_url or not (client_rate or topic_rate):
        return None
    # The driver takes 18 MB and a third of a second: load it only if a limit is set.
    from gateway.stores.redis_limits import RedisLimits

    try:
        password = read_secret(settings.redis_password_file)
    except OSError as error:
        raise StartRefused(
            f"cannot read redis_password_file {settings.redis_password_file}: {error.strerror}"
        ) from error
    return RedisLimits(
        settings.redis_url,
        environment.steady,
        password=password,
        client_rate=client_rate,
        topic_rate=topic_rate,
        burst_seconds=settings.rate_burst_seconds,
        tls=checked_at_start(_redis_tls, settings),
    )
