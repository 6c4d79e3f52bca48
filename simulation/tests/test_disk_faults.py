"""Stores whose disk failed restart: an error that waits for its operation also strikes a later life, and a start has no handler yet."""

from __future__ import annotations

from pathlib import Path

from gantry_simulation.lives.faults.disks import disk_error
from gantry_simulation.lives.faults.processes import kill
from gantry_simulation.lives.faults.restarts import restart_running
from gantry_simulation.lives.plan import Act, Shape, StoreShape
from gantry_simulation.lives.system import System
from gantry_simulation.world.world import World

STORE = "store-0"


def test_a_store_whose_disk_still_fails_in_its_next_life_counts_as_failed(
    world: World, tmp_path: Path
) -> None:
    system = System(world, Shape(stores=(StoreShape(),), clients=0), tmp_path)
    system.start()
    world.run_for(2)
    disk_error(system, Act(at_ms=0, kind="disk error", on=STORE, number=1))
    [fault] = system.stores[STORE].files.faults
    assert kill(system, Act(at_ms=0, kind="kill", on=STORE, span_ms=0))
    assert STORE in system.has_failed_disk

    fault.count = 0  # it struck
    world.run_for(2)
    assert kill(system, Act(at_ms=0, kind="kill", on=STORE, span_ms=0))
    assert STORE not in system.has_failed_disk


def test_a_store_that_has_just_started_restarts_as_soon_as_it_can_be_stopped(
    world: World, tmp_path: Path
) -> None:
    system = System(world, Shape(stores=(StoreShape(),), clients=0), tmp_path)
    system.start()
    restart_running(system, system.stores[STORE])
    assert system.stores[STORE].process.lives == 1
    world.run_for(2)
    assert system.stores[STORE].process.lives == 2
