"""Every code and every HTTP route that a service answers has its row of rights, and no row is left of one that is gone."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from broker_store.process.http_routes import ReplicationRoute, SnapshotRoutes
from broker_store.replication.frames import CODES as REPLICA_CODES
from gantry_access.rights.http_table import GATEWAY, OWN_PORTS
from gantry_access.rights.request_table import REQUESTS
from gantry_chassis.http.server import Routes, health_routes
from gantry_chassis.metrics import Metrics
from gantry_guard.callers import INTRODUCTION
from gateway.http.access import OPEN_PATHS
from gateway.process import worker_health
from nameserver.handlers import COMMANDS
from scheduler.metrics import SchedulerMetrics
from scheduler.orders.orders import Orders
from scheduler.orders.routes import routes_of
from scheduler.orders.task_orders import TaskOrders
from txn_checker.assembly import CheckerProcess

SERVICES = Path(__file__).parents[2] / "services"
NOT_SERVED_YET = set(map(int, REPLICA_CODES))
"""Have a row, but no service answers them."""


def load(name: str, path: str) -> ModuleType:
    """Import a file of a service's tests under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, SERVICES / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def codes_of_store() -> set[int]:
    sys.path.append(str(SERVICES / "broker-store/tests"))
    stores = load("access_whole_store", "broker-store/tests/process/parts/test_administration.py")

    async def codes() -> list[int]:
        return stores.WholeStore().table.codes()

    return set(asyncio.run(codes()))


def codes_of_scheduler() -> set[int]:
    return set(routes_of(Orders(list, SchedulerMetrics(Metrics())), TaskOrders(list)))


def codes_of_checker() -> set[int]:
    answers = SimpleNamespace(transactions=None, receive_checks=None)
    return set(CheckerProcess._routes(cast("CheckerProcess", SimpleNamespace(_answers=answers))))


def test_every_answered_code_has_a_row_and_every_row_an_answered_code() -> None:
    answered = (
        codes_of_store() | set(COMMANDS) | codes_of_scheduler() | codes_of_checker() | set(INTRODUCTION)
    )
    assert answered - set(REQUESTS) == set()
    assert set(REQUESTS) - answered == NOT_SERVED_YET


def test_every_route_of_the_gateway_has_a_row_and_every_row_a_route() -> None:
    gateway: Any = load("access_gateway_tests", "gateway/tests/conftest.py").memory.MemorySystem().gateway()
    routes = {(one.method, one.shown_path) for one in gateway.app._router.operations}
    described = {
        (method.upper(), path) for path, calls in gateway.app.openapi()["paths"].items() for method in calls
    }
    assert described <= routes
    assert routes | {("GET", "/openapi.json"), ("HEAD", "/openapi.json")} == set(GATEWAY)


def test_every_path_that_needs_no_token_is_open() -> None:
    assert {path for (_method, path), row in GATEWAY.items() if row.text == "open"} == set(OPEN_PATHS)


def test_every_route_of_the_other_ports_has_a_row_and_every_row_a_route() -> None:
    health = set(health_routes(lambda: None, Metrics()))
    snapshots = set(SnapshotRoutes(cast("Any", None), cast("Any", None), lambda: 0).routes())
    replication = set(ReplicationRoute().routes())
    for service in ("nameserver", "scheduler", "txn-checker"):
        assert set(OWN_PORTS[service]) == health, service
    assert set(OWN_PORTS["broker-store"]) == health | snapshots | replication


def test_every_route_of_a_worker_has_a_row_and_every_row_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[set[tuple[str, str]]] = []

    class NoPort:
        def __init__(self, _host: str, _port: int, routes: Routes, *_rest: object, **_more: object) -> None:
            served.append(set(routes))

        async def start(self) -> None: ...

        async def close(self) -> None: ...

    monkeypatch.setattr(worker_health, "HttpServer", NoPort)
    asyncio.run(worker_health.serve_own_health(1, cast("Any", None), cast("Any", None), authorizer=None))
    assert served == [set(OWN_PORTS["gateway worker"])]
