"""Builds a nameserver from its settings and runs it until a signal stops it."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import Callable, Mapping
from typing import IO

from gantry_chassis.certificates import OutgoingFiles, open_certificate
from gantry_chassis.http.server import HttpServer, health_routes
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.addresses import joined
from gantry_chassis.machine.private_files import private_directory
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_chassis.peers.budget import Budget, show_budget
from gantry_chassis.process import Life
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.opening import open_guard
from gantry_link.connections.client_tls import hints_tls, outgoing_tls
from gantry_link.connections.pool import ConnectionPool
from gantry_link.limits import LinkLimits
from gantry_link.serving.peer import Peer
from gantry_link.serving.server import RemotingServer
from gantry_link.serving.tls_door import TlsDoor
from gantry_link.serving.vouching import names_itself
from gantry_wire.bodies.cluster import KvConfigFile
from gantry_wire.bodies.json_body import decode_body
from nameserver.durable_file import DurableFile
from nameserver.effects import Outside
from nameserver.handlers import Commands
from nameserver.kv_config import KvConfig
from nameserver.remoting import Remoting
from nameserver.routes.registry import Registry
from nameserver.routes.tables import Tables
from nameserver.routes.topic_orders import TopicOrders
from nameserver.routes.views import Views
from nameserver.run_config import CONFIG_FILE, KV_FILE, RunConfig
from nameserver.settings import NameserverSettings

SERVICE = "nameserver"
LOCK_FILE = "lock"

_log = get_logger()


async def serve(settings: NameserverSettings, life: Life) -> None:
    """Run until `life.stopping`. Raises StartRefused when the directory or a port is unavailable."""
    lock = _take_directory(settings)
    writer, metrics = life.environment.workers(1, "durable-file"), Metrics()
    tables, outgoing = Tables(), OutgoingFiles(metrics, SERVICE)
    guard = open_guard(settings, SERVICE, metrics, life.environment)
    pool = ConnectionPool(
        rng=life.environment.rng,
        introduce=None if guard is None else guard.introducer,
        tls=outgoing.open(outgoing_tls, settings),
    )
    hints = _make_hints(settings, life, outgoing)
    peers: dict[int, Peer] = {}
    outside = Outside(hints, pool, peers)
    config_file = DurableFile(settings.data_dir / CONFIG_FILE, writer)
    config = restored_config(settings, config_file)
    registry = Registry(tables, config.switches)
    kv_file = DurableFile(settings.data_dir / KV_FILE, writer)
    commands = make_commands(tables, registry, config, config_file, kv_file, outside)
    budget = settings.make_budget(life.environment.steady)
    show_budget(metrics, SERVICE, budget)
    tls_door = TlsDoor.of(open_certificate(settings, life, metrics, SERVICE), budget)
    door = guard and guard.door(settings.access_cluster)
    remoting = Remoting(commands, metrics, door, has_open_routes=settings.access_open_routes)
    server = make_server(settings, registry, outside, remoting, budget, peers)
    add_gauges(metrics, tables, server, hints)
    http = HttpServer(
        settings.listen,
        settings.http_port_or_next,
        health_routes(lambda: _ready(life), metrics),
        budget,
        settings.allowed_hosts,
        listen=life.environment.listening_socket,
        authorizer=None if guard is None else guard.own_port_door(SERVICE, settings.access_cluster),
    )
    life.supervise("hints", hints.run)
    life.supervise("notices", outside.tell_brokers)
    if guard is not None:
        is_inner = guard.is_inner
        follower = guard.follower(lambda: stores_to_follow(tables, peers, is_inner), pool, metrics)
        life.supervise("access", follower.run)
        life.supervise("audit", guard.audit.run)
    life.supervise("expiry", lambda: _expire(registry, config, outside, life))
    port, http_port = await _listen(settings, server, http, tls_door)
    _log.info(
        "ready", remoting=joined(settings.listen, port), http=f"http://{joined(settings.listen, http_port)}"
    )
    await life.stopping.wait()
    await server.close(settings.drain_seconds)
    await http.close()
    await pool.close()
    if guard is not None:
        guard.audit.close()
    writer.close()
    lock.close()


def _make_hints(settings: NameserverSettings, life: Life, outgoing: OutgoingFiles) -> Hints:
    tls = outgoing.open(hints_tls, settings)
    return Hints(settings.nats_url, SERVICE, life.environment.rng, settings.nats_token_file, tls)


def restored_config(settings: NameserverSettings, file: DurableFile) -> RunConfig:
    """Return the settings, with those that earlier runs changed and saved."""
    config = RunConfig(settings, settings.switches())
    restored = file.read(config.restore, _log.warning)
    if restored:
        _log.info("restored settings changed at run time", file=str(file.path), names=restored)
    return config


def make_commands(
    tables: Tables, registry: Registry, config: RunConfig, config_file: DurableFile, kv_file: DurableFile, outside: Outside
) -> Commands:  # fmt: skip
    """Return the commands, with the KV configuration that earlier runs saved."""
    kept = kv_file.read(lambda content: decode_body(content, KvConfigFile), _log.warning)
    return Commands(
        registry=registry,
        orders=TopicOrders(tables),
        views=Views(tables, config.switches),
        kv=KvConfig(kept.config_table if kept is not None else None),
        kv_keeper=kv_file,
        config=config,
        config_keeper=config_file,
        now_ms=monotonic_ms,
        act=outside.act,
        started_ms=monotonic_ms(),
    )


def make_server(
    settings: NameserverSettings,
    registry: Registry,
    outside: Outside,
    remoting: Remoting,
    budget: Budget,
    peers: dict[int, Peer],
) -> RemotingServer:
    """Return the remoting server. A broker is removed as soon as its connection closes."""
    return RemotingServer(
        remoting.receive,
        on_close=lambda peer: outside.act(registry.channel_closed(peer.id)),
        on_failure=lambda peer, error: _log.error("request failed", client=f"{peer.remote}", exc_info=error),
        limits=LinkLimits(idle_seconds=settings.idle_seconds),
        budget=budget,
        peers=peers,
    )


def stores_to_follow(
    tables: Tables, peers: Mapping[int, Peer], is_inner: Callable[[Peer], bool]
) -> list[str]:
    """Return the addresses of living brokers: of a broker that is none of Gantry's own services only one at its own host."""
    found: list[str] = []
    for place, live in tables.live.items():
        peer = peers.get(live.channel)
        if peer is not None and (is_inner(peer) or names_itself(place.address, peer.remote[0])):
            found.append(place.address)
    return found


def monotonic_ms() -> int:
    """Return the clock for expiry: a step of the wall clock expires no broker."""
    return int(asyncio.get_running_loop().time() * 1000)


def add_gauges(metrics: Metrics, tables: Tables, server: RemotingServer, hints: Hints) -> None:
    """Register the gauges besides those of requests."""
    counts = server.metrics
    metrics.gauge("nameserver_brokers", "Living brokers.", lambda: len(tables.live))
    metrics.gauge("nameserver_topics", "Topics with a route.", lambda: len(tables.topics))
    metrics.gauge("nameserver_connections", "Open connections.", lambda: len(server.peers))
    metrics.counted("nameserver_hints_sent", "Route hints sent.", lambda: hints.sent)
    metrics.counted("nameserver_hints_dropped", "Route hints dropped.", lambda: hints.dropped)
    metrics.counted(
        "nameserver_connections_closed",
        "Connections the nameserver closed, by reason.",
        lambda: {
            ("idle",): counts.closed_idle,
            ("stalled",): counts.closed_stalled,
            ("malformed",): counts.closed_malformed,
            ("late",): counts.closed_late,
            ("hoarding",): counts.closed_hoarding,
            ("refused",): counts.refused,
        },
        ("reason",),
    )


async def _expire(registry: Registry, config: RunConfig, outside: Outside, life: Life) -> None:
    while not await life.sleep(config.switches.scan_not_active_broker_interval / 1000):
        change = registry.expire(monotonic_ms())
        if change.lost_channels:
            _log.warning("removed silent brokers", topics=len(change.topics))
        outside.act(change)


async def _listen(
    settings: NameserverSettings, server: RemotingServer, http: HttpServer, door: TlsDoor | None
) -> tuple[int, int]:
    where = joined(settings.listen, settings.port)
    try:
        port = await server.listen(settings.listen, settings.port, door)
        where = joined(settings.listen, settings.http_port_or_next)
        return port, await http.start(door)
    except OSError as error:
        raise StartRefused(f"cannot listen on {where}: {error.strerror}; set another port") from error


def _take_directory(settings: NameserverSettings) -> IO[bytes]:
    """Create the data directory and lock it until the returned file is closed."""
    try:
        private_directory(settings.data_dir)
        lock = (settings.data_dir / LOCK_FILE).open("ab")
    except OSError as error:
        raise StartRefused(f"cannot write to {settings.data_dir}: {error.strerror}; set data_dir") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise StartRefused(f"{settings.data_dir} is in use by another nameserver; set data_dir") from error
    return lock


def _ready(life: Life) -> str | None:
    return "stopping" if life.stopping.is_set() else None
