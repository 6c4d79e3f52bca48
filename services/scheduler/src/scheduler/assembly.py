"""Builds a scheduler from its settings and runs it until a signal stops it."""

from __future__ import annotations

import fcntl
import gc
import sys
from typing import IO

from gantry_chassis.certificates import OutgoingFiles, open_certificate
from gantry_chassis.http.server import HttpServer, health_routes
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.addresses import joined
from gantry_chassis.machine.environment import Environment
from gantry_chassis.machine.private_files import private_directory
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_chassis.peers.budget import show_budget
from gantry_chassis.process import Life
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.opening import open_guard
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.connections.client_tls import hints_tls, outgoing_tls
from gantry_link.connections.pool import ConnectionPool
from gantry_link.serving.service_listener import ServiceListener
from gantry_link.serving.tls_door import TlsDoor
from gantry_link.system_queues.fleet import Fleet
from scheduler.delivering.deliveries import Pace
from scheduler.metrics import SchedulerMetrics
from scheduler.orders.orders import Orders
from scheduler.orders.routes import routes_of
from scheduler.orders.task_orders import TaskOrders
from scheduler.settings import SchedulerSettings
from scheduler.tasks.bulk import Bulk
from scheduler.tasks.desk import Work
from scheduler.tasks.redrive import Redrive
from scheduler.terms.keepers import Keepers, KnownStores
from scheduler.terms.store_keeper import Identity
from scheduler.terms.term import TermContext

SERVICE = "scheduler"
LOCK_FILE = "lock"
GC_THRESHOLDS = (50_000, 20, 100)
"""Waiting messages form no reference cycles. Scanning 100,000 of them would delay other work."""
SWITCH_SECONDS = 0.0005
"""Longest time the index threads may hold the GIL. The default lets them hold it for 10 ms and more."""
ROUTE_HINTS = "gantry.route.>"

_log = get_logger()


async def serve(settings: SchedulerSettings, life: Life) -> None:
    """Run until `life.stopping`. Raises StartRefused when the directory or a port is unavailable."""
    lock = _take_directory(settings)
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)
    metrics, stores = Metrics(), KnownStores()
    scheduler_metrics, outgoing = SchedulerMetrics(metrics), OutgoingFiles(metrics, SERVICE)
    guard = open_guard(settings, SERVICE, metrics, life.environment)
    pool = ConnectionPool(
        rng=life.environment.rng,
        introduce=None if guard is None else guard.introducer,
        tls=outgoing.open(outgoing_tls, settings),
    )
    hints = _make_hints(settings, life.environment, outgoing)
    budget = settings.make_budget(life.environment.steady)
    show_budget(metrics, SERVICE, budget)
    tls_door = TlsDoor.of(open_certificate(settings, life, metrics, SERVICE), budget)
    listener = ServiceListener(
        routes_of(Orders(stores.terms, scheduler_metrics), TaskOrders(stores.terms)),
        count=lambda name, code: scheduler_metrics.requests.labels(name, str(code)).add(),
        failed=lambda name, error: _log.error("request failed", request=name, exc_info=error),
        budget=budget,
        admit=None if guard is None else guard.inner_door().admit,
    )
    port = await _listen(settings, listener, tls_door)
    keepers = Keepers(stores, pool, _identity(settings, life.environment, port, scheduler_metrics, stores))
    fleet = Fleet(
        NameserverClient(pool, settings.nameservers),
        keepers.joined,
        keepers.left,
        poll_seconds=settings.poll_seconds,
    )
    hints.subscribe(ROUTE_HINTS, lambda _subject, _payload: fleet.hint())
    add_gauges(metrics, stores)
    http = HttpServer(
        settings.listen,
        settings.http_port_or_next,
        health_routes(lambda: _unready(life, fleet, stores), metrics),
        budget,
        settings.allowed_hosts,
        listen=life.environment.listening_socket,
        authorizer=None if guard is None else guard.own_port_door(SERVICE, settings.access_cluster),
    )
    http_port = await _start(settings, http, tls_door)
    life.supervise("hints", hints.run)
    life.supervise("fleet", fleet.run)
    if guard is not None:
        life.supervise("access", guard.follower(lambda: fleet.addresses, pool, metrics).run)
        life.supervise("audit", guard.audit.run)
    _log.info(
        "ready", remoting=joined(settings.listen, port), http=f"http://{joined(settings.listen, http_port)}"
    )
    await life.stopping.wait()
    await keepers.close()
    await listener.close(settings.drain_seconds)
    await http.close()
    await pool.close()
    if guard is not None:
        guard.audit.close()
    lock.close()


def _make_hints(settings: SchedulerSettings, environment: Environment, outgoing: OutgoingFiles) -> Hints:
    tls = outgoing.open(hints_tls, settings)
    return Hints(settings.nats_url, SERVICE, environment.rng, settings.nats_token_file, tls)


def add_gauges(metrics: Metrics, stores: KnownStores) -> None:
    """Register the gauges of each store."""
    metrics.gauge("scheduler_stores", "Stores known.", lambda: len(stores.by_broker))
    metrics.gauge("scheduler_terms", "Stores whose claims this scheduler holds.", lambda: len(stores.terms()))
    metrics.gauge(
        "scheduler_pending",
        "Messages waiting to become due, by store.",
        lambda: {(term.broker,): float(term.due_queues.pending) for term in stores.terms()},
        ("broker",),
    )
    metrics.gauge(
        "scheduler_parked",
        "Parked messages, by store.",
        lambda: {(term.broker,): float(term.due_queues.parked_count) for term in stores.terms()},
        ("broker",),
    )
    metrics.gauge(
        "scheduler_failing",
        "Messages whose last delivery failed, by store.",
        lambda: {
            (term.broker,): float(sum(len(due_queue.failures) for due_queue in term.due_queues.due.values()))
            for term in stores.terms()
        },
        ("broker",),
    )
    metrics.gauge(
        "scheduler_index_missing",
        "Offsets the index of a store still has to read.",
        lambda: {
            (term.broker,): float(total - done)
            for term in stores.terms()
            for done, total in [term.catching_up.progress]
        },
        ("broker",),
    )


def _identity(
    settings: SchedulerSettings,
    environment: Environment,
    port: int,
    scheduler_metrics: SchedulerMetrics,
    stores: KnownStores,
) -> Identity:
    host = settings.advertised_host(environment.reachable_address)
    address = joined(host, port)
    owner = f"scheduler@{address}#{environment.process_id}-{environment.secret_bytes(16).hex()}"
    pace = Pace(
        settings.settle_batch,
        settings.settles_in_flight,
        settings.burst_per_second,
        int(settings.park_after_hours * 3_600_000),
    )
    bulk = Bulk(stores.clients)
    work: dict[str, Work] = {
        "redrive": Redrive(stores.clients, owner, address),
        "bulkMove": bulk,
        "bulkCancel": bulk,
    }
    around = TermContext(scheduler_metrics, pace, work, environment)
    return Identity(owner, address, settings.claim_ttl_ms, settings.data_dir, around)


def _unready(life: Life, fleet: Fleet, stores: KnownStores) -> str | None:
    """Ready once a nameserver has answered and no index is being built. A scheduler without claims builds none."""
    if life.stopping.is_set():
        return "stopping"
    if fleet.unanswered:
        return fleet.unanswered
    building = [
        f"{term.broker} {done}/{total}"
        for term in stores.terms()
        if not term.catching_up.is_complete
        for done, total in [term.catching_up.progress]
    ]
    return f"building the due index: {', '.join(building)}" if building else None


async def _listen(settings: SchedulerSettings, listener: ServiceListener, door: TlsDoor | None) -> int:
    try:
        return await listener.listen(settings.listen, settings.port, door)
    except OSError as error:
        raise _taken(settings.listen, settings.port, error) from error


async def _start(settings: SchedulerSettings, http: HttpServer, door: TlsDoor | None) -> int:
    try:
        return await http.start(door)
    except OSError as error:
        raise _taken(settings.listen, settings.http_port_or_next, error) from error


def _taken(host: str, port: int, error: OSError) -> StartRefused:
    return StartRefused(f"cannot listen on {joined(host, port)}: {error.strerror}; set another port")


def _take_directory(settings: SchedulerSettings) -> IO[bytes]:
    """Create the data directory and lock it until the returned file is closed."""
    try:
        private_directory(settings.data_dir)
        lock = (settings.data_dir / LOCK_FILE).open("ab")
    except OSError as error:
        raise StartRefused(f"cannot write to {settings.data_dir}: {error.strerror}; set data_dir") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StartRefused(f"{settings.data_dir} is in use by another scheduler; set data_dir") from error
    return lock
