"""Speed of the simulation: virtual seconds that pass in a CPU second of this process, so other load hardly counts.

    python bench/simulation_speed/virtual_time.py [--seconds 300] [--lives 40] [--seed 1] [--profile]

First an idle system with the product's settings: nameserver, store, two schedulers, txn-checker, gateway and NATS.
Then drawn lives, as `./gantry simulate` runs them; their operations take most of the time. `--profile` shows where the
time of the idle system goes (and slows it down).
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gantry_simulation.fakes.servers import Nats
from gantry_simulation.lives.drawing.draw_plan import draw_plan
from gantry_simulation.lives.life import live
from gantry_simulation.lives.product_logs import product_logs
from gantry_simulation.network.network import Network
from gantry_simulation.parts.gateway import Gateway
from gantry_simulation.parts.nameserver import Nameserver
from gantry_simulation.parts.scheduler import Scheduler
from gantry_simulation.parts.store import Store
from gantry_simulation.parts.txn_checker import TxnChecker
from gantry_simulation.processes.part import Part
from gantry_simulation.processes.process import Process
from gantry_simulation.world.world import World
from reporting.figures import figure

START_SECONDS = 30.0
"""Until the system is whole: its start is not measured."""
NAMESERVER = "10.0.0.2:9876"
UNIT = "virtual s/CPU s"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="virtual seconds of the idle system")
    parser.add_argument("--lives", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1, help="of the first life")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    profile = cProfile.Profile() if options.profile else None
    figure("virtual_time.idle", idle(options.seconds, profile), UNIT)
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    if options.lives:
        virtual, cpu = drawn(options.seed, options.lives)
        figure("virtual_time.lives", virtual / cpu, UNIT, words=f"{cpu / options.lives:.2f} CPU s a life")


def idle(seconds: float, profile: cProfile.Profile | None) -> float:
    """Return the speed of an idle system of seven processes."""
    with product_logs(), tempfile.TemporaryDirectory() as directory, World(1) as world:
        for part in _seven(world, Path(directory)):
            part.start()
        world.run_for(START_SECONDS)
        if profile is not None:
            profile.enable()
        begun = time.process_time()
        world.run_for(seconds)
        spent = time.process_time() - begun
        if profile is not None:
            profile.disable()
        if world.violations:
            raise SystemExit(f"the idle system breaks a promise: {world.violations[0]}")
    return seconds / spent


def _seven(world: World, directory: Path) -> Sequence[Part]:
    network = Network(world)
    numbers = iter(range(1, 8))

    def machine(name: str) -> Process:
        return Process(world, network, name, f"10.0.0.{next(numbers)}")

    nats = Nats(machine("nats"))
    hints: dict[str, Any] = {"nats_url": nats.url}
    return [
        nats,
        Nameserver(machine("nameserver"), directory / "nameserver", **hints),
        Store(machine("store"), NAMESERVER, **hints),
        *(
            Scheduler(world, machine(name), directory / name, NAMESERVER, **hints)
            for name in ("scheduler-0", "scheduler-1")
        ),
        TxnChecker(machine("txn-checker"), NAMESERVER, **hints),
        Gateway(machine("gateway"), NAMESERVER, worker=0, workers=1, **hints),
    ]


def drawn(seed: int, count: int) -> tuple[float, float]:
    """Return virtual and CPU seconds of drawn lives."""
    plans = [draw_plan(number) for number in range(seed, seed + count)]
    begun = time.process_time()
    virtual = sum(live(plan).virtual_seconds for plan in plans)
    return virtual, time.process_time() - begun


if __name__ == "__main__":
    main()
