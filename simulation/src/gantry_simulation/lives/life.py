"""Runs one plan: the system lives under its acts, all faults end, the system recovers, and everything readable is compared."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gantry_chassis.process import Life
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.ledger.places import Place
from gantry_simulation.lives.client import Client
from gantry_simulation.lives.faults.table import DISK_FAULTS, end_all, perform
from gantry_simulation.lives.operations.reading import note_records, pull_header
from gantry_simulation.lives.plan import Act, Plan
from gantry_simulation.lives.product_logs import product_logs
from gantry_simulation.lives.system import System
from gantry_simulation.processes.process import Process
from gantry_simulation.world.world import MS_NS, SECOND_NS, World
from gantry_wire.codes import ResponseCode

CALM_SECONDS = 5.0
"""Time without faults before the last reading."""
RECOVERY_SECONDS = 90.0
"""Most time until everything is read: restarts, stalled threads and time-outs included."""
STOP_SECONDS = 30.0
READER_PAUSE_SECONDS = 0.2
READER_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a life led to."""

    violations: list[str]
    digest: str
    """The trace hash: equal for equal lives."""
    history: list[str]
    happened: Counter[str]
    """Acts that had an effect, by kind."""
    acknowledged: int
    virtual_seconds: float


def live(plan: Plan) -> Outcome:
    """Run a plan in a temporary directory."""
    with (
        tempfile.TemporaryDirectory(prefix="gantry-simulation-") as directory,
        product_logs() as logs,
        World(plan.seed) as world,
    ):
        system = System(world, plan.shape, Path(directory))
        for act in plan.acts:
            world.at(act.at_ms * MS_NS, partial(perform, system, act))
        system.start()
        world.run_for(plan.seconds)
        end_all(system)
        world.run_for(CALM_SECONDS)
        if _is_whole(system, plan, "first reader") and plan.shape.ends_with_power_cut:
            for number, store in enumerate(system.stores):
                perform(system, Act(at_ms=0, kind="power cut", on=store, number=plan.seed + number))
            _is_whole(system, plan, "last reader")
        _stop_all(system)
        if not DISK_FAULTS.intersection(system.happened):
            for line in [*logs.exceptions, *logs.rebuilds]:
                world.violate("log", line)
        for violation in world.violations:
            system.history.add(violation.process, f"VIOLATION: {violation.what}")
        return Outcome(
            [f"{violation.process}: {violation.what}" for violation in world.violations],
            world.trace.digest(),
            system.history.lines(),
            system.happened,
            system.ledger.messages.acknowledged,
            world.now_ns / SECOND_NS,
        )


def _is_whole(system: System, plan: Plan, name: str) -> bool:
    """Read everything with a new client and compare it. False when that does not succeed in time: a violation."""
    found = _read_all(system, plan, name)
    if found is not None:
        system.ledger.check(found)
    return found is not None


def _read_all(system: System, plan: Plan, name: str) -> dict[Place, str] | None:
    found: dict[Place, str] = {}
    client = system.add_client(f"{name}'s client", f"{name}'s client")
    reader = Process(system.world, system.network, name, name)
    queues = [
        (store, f"Topic{topic}", queue)
        for store in system.stores
        for topic in range(plan.shape.topics)
        for queue in range(plan.shape.queues)
    ]

    async def read(life: Life) -> None:
        pool = ConnectionPool(rng=life.environment.rng)
        for store, topic, queue in queues:
            calls = StoreClient(pool, system.stores[store].address, READER_TIMEOUT_SECONDS)
            while not await _has_read(client, calls, (store, topic, queue), found):
                await life.sleep(READER_PAUSE_SECONDS)
        await pool.close()

    reader.start(read)
    if not system.world.run_until(lambda: not reader.is_running, within=RECOVERY_SECONDS):
        down = [name for name, store in system.stores.items() if not store.process.is_running]
        refused = [store.process.refusal for store in system.stores.values() if store.process.refusal]
        system.world.violate("system", f"does not recover: down {down}, refused starts {refused}")
        return None
    return found


async def _has_read(
    client: Client, store: StoreClient, where: tuple[str, str, int], found: dict[Place, str]
) -> bool:
    """Read one queue from its start. False to try again."""
    on, topic, queue = where
    since = client.ledger.since(on, topic)
    try:
        offset, end = await store.min_offset(topic, queue), await store.max_offset(topic, queue)
        while offset < end:
            pulled = await store.pull(pull_header(topic, queue, offset))
            found.update(note_records(client, pulled.records, on, topic, queue, since))
            if pulled.next_offset <= offset:
                return False
            offset = pulled.next_offset
    except BrokerRefused as refused:
        return refused.code == ResponseCode.TOPIC_NOT_EXIST
    except LinkError:
        return False
    return True


def _stop_all(system: System) -> None:
    """Stop everything. What does not end is a violation."""
    for member in system.members().values():
        if member.process.is_running:
            member.process.stop_once()
    running = [member.process for member in system.members().values()]
    if not system.world.run_until(lambda: not any(each.is_running for each in running), within=STOP_SECONDS):
        names = [process.name for process in running if process.is_running]
        system.world.violate("system", f"does not stop: {', '.join(names)}")
