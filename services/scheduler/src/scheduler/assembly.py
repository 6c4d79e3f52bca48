"""Puts a scheduler together from its settings, and runs it until it is asked to stop."""

from __future__ import annotations

import fcntl
import gc
import os
import secrets
import sys
import time
from typing import IO

from gantry_chassis.addresses import joined
from gantry_chassis.budget import show_budget
from gantry_chassis.http import HttpServer, health_routes
from gantry_chassis.logs import get_logger
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_chassis.private_files import private_directory
from gantry_chassis.process import Life, StartRefused
from gantry_link.fleet import Fleet
from gantry_link.nameserver_client import NameserverClient
from gantry_link.pool import ConnectionPool
from gantry_link.service_door import ServiceDoor
from scheduler.deliveries import Pace
from scheduler.figures import Figures
from scheduler.keepers import Keepers
from scheduler.orders import Orders
from scheduler.routes import routes_of
from scheduler.settings import SchedulerSettings
from scheduler.store_keeper import Ourselves
from scheduler.task_orders import TaskOrders
from scheduler.tasks.bulk import Bulk
from scheduler.tasks.desk import Work
from scheduler.tasks.redrive import Redrive
from scheduler.term import Surroundings

LOCK_FILE = "lock"
GC_THRESHOLDS = (50_000, 20, 100)
"""Waiting messages are in no cycle; looking through a hundred thousand of them makes others late."""
SWITCH_SECONDS = 0.0005
"""How long the index's threads may keep the interpreter while something is due: they hold it for 10 ms and more at a time."""
ROUTE_HINTS = "gantry.route.>"

_log = get_logger()


async def serve(settings: SchedulerSettings, life: Life) -> None:
    """Run until `life.stopping`; StartRefused when the directory or a port cannot be had."""
    lock = _take_directory(settings)
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)
    metrics = Metrics()
    figures, pool = Figures(metrics), ConnectionPool()
    hints = Hints(settings.nats_url, "scheduler", settings.nats_token_file)
    keepers = Keepers(pool)
    budget = settings.make_budget()
    show_budget(metrics, "scheduler", budget)
    door = ServiceDoor(
        routes_of(Orders(keepers.terms, figures), TaskOrders(keepers.terms)),
        count=lambda name, code: figures.requests.labels(name, str(code)).add(),
        failed=lambda name, error: _log.error("request failed", request=name, exc_info=error),
        budget=budget,
    )
    port = await _listen(settings, door)
    keepers.ourselves = _ourselves(settings, port, figures, keepers)
    fleet = Fleet(
        NameserverClient(pool, settings.nameservers),
        keepers.joined,
        keepers.left,
        poll_seconds=settings.poll_seconds,
    )
    hints.subscribe(ROUTE_HINTS, lambda _subject, _payload: fleet.hint())
    add_gauges(metrics, keepers)
    http = HttpServer(
        settings.listen,
        settings.http_port_or_next,
        health_routes(lambda: _unready(life, fleet, keepers), metrics),
        budget,
        settings.allowed_hosts,
    )
    try:
        http_port = await http.start()
    except OSError as error:
        raise _taken(settings.listen, settings.http_port_or_next, error) from error
    life.supervise("hints", hints.run)
    life.supervise("fleet", fleet.run)
    _log.info(
        "ready", remoting=joined(settings.listen, port), http=f"http://{joined(settings.listen, http_port)}"
    )
    await life.stopping.wait()
    await keepers.close()
    await door.close(settings.drain_seconds)
    await http.close()
    await pool.close()
    lock.close()


def add_gauges(metrics: Metrics, keepers: Keepers) -> None:
    """Add what Prometheus sees of each store."""
    metrics.gauge("scheduler_stores", "Stores known.", lambda: len(keepers.by_broker))
    metrics.gauge("scheduler_terms", "Stores whose claims are held here.", lambda: len(keepers.terms()))
    metrics.gauge(
        "scheduler_pending",
        "Messages that wait for their time, by store.",
        lambda: {(term.broker,): float(term.lanes.pending) for term in keepers.terms()},
        ("broker",),
    )
    metrics.gauge(
        "scheduler_parked",
        "Messages set aside, by store.",
        lambda: {(term.broker,): float(term.lanes.parked_count) for term in keepers.terms()},
        ("broker",),
    )
    metrics.gauge(
        "scheduler_failing",
        "Messages whose last delivery did not work, by store.",
        lambda: {
            (term.broker,): float(sum(len(lane.failures) for lane in term.lanes.due.values()))
            for term in keepers.terms()
        },
        ("broker",),
    )
    metrics.gauge(
        "scheduler_index_missing",
        "Offsets that the index of a store has still to read to be complete.",
        lambda: {
            (term.broker,): float(total - done)
            for term in keepers.terms()
            for done, total in [term.catching_up.progress]
        },
        ("broker",),
    )


def _ourselves(settings: SchedulerSettings, port: int, figures: Figures, keepers: Keepers) -> Ourselves:
    host = settings.advertised_host
    address = joined(host, port)
    owner = f"scheduler@{address}#{os.getpid()}-{secrets.token_hex(16)}"
    pace = Pace(
        settings.settle_batch,
        settings.settles_in_flight,
        settings.burst_per_second,
        int(settings.park_after_hours * 3_600_000),
    )
    bulk = Bulk(keepers.stores)
    work: dict[str, Work] = {
        "redrive": Redrive(keepers.stores, owner, address),
        "bulkMove": bulk,
        "bulkCancel": bulk,
    }
    around = Surroundings(figures, pace, work, wall_ms)
    return Ourselves(owner, address, settings.claim_ttl_ms, settings.data_dir, around)


def wall_ms() -> int:
    """Return the wall clock in ms: for the times shown of tasks, and nothing that is decided by."""
    return time.time_ns() // 1_000_000


def _unready(life: Life, fleet: Fleet, keepers: Keepers) -> str | None:
    """Ready when a nameserver was asked and no index is still being built. Who has no claims, or none yet, builds none."""
    if life.stopping.is_set():
        return "stopping"
    if not fleet.has_asked:
        return "no nameserver has answered yet"
    building = [
        f"{term.broker} {done}/{total}"
        for term in keepers.terms()
        if not term.catching_up.is_complete
        for done, total in [term.catching_up.progress]
    ]
    return f"building the due index: {', '.join(building)}" if building else None


async def _listen(settings: SchedulerSettings, door: ServiceDoor) -> int:
    try:
        return await door.listen(settings.listen, settings.port)
    except OSError as error:
        raise _taken(settings.listen, settings.port, error) from error


def _taken(host: str, port: int, error: OSError) -> StartRefused:
    return StartRefused(f"cannot listen on {joined(host, port)}: {error.strerror}; set another port")


def _take_directory(settings: SchedulerSettings) -> IO[bytes]:
    """Make the data directory and hold its lock for as long as the file returned is open."""
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
