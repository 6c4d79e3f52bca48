"""Runs lives with one planted fault each until one of them finds it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass

from gantry_simulation.lives.drawing.draw_plan import draw_plan
from gantry_simulation.lives.life import live
from gantry_simulation.lives.planted.fault import Planted, Together
from gantry_simulation.lives.planted.gateways import GATEWAY_FAULTS
from gantry_simulation.lives.planted.items import PLANTED_ITEMS
from gantry_simulation.lives.planted.memory import PLANTED_MEMORY
from gantry_simulation.lives.planted.replicas import PLANTED_REPLICAS
from gantry_simulation.lives.planted.retention import PLANTED_RETENTION
from gantry_simulation.lives.planted.store import PLANTED
from gantry_simulation.lives.planted.tasks import TASK_FAULTS

EVERY_FAULT: tuple[Planted | Together, ...] = (
    *PLANTED,
    *PLANTED_ITEMS,
    *GATEWAY_FAULTS,
    *TASK_FAULTS,
    *PLANTED_MEMORY,
    *PLANTED_RETENTION,
    *PLANTED_REPLICAS,
)


@dataclass(frozen=True, slots=True)
class Found:
    """What found a planted fault."""

    fault: str
    seed: int | None
    """Of the first life with a violation; None if there is none."""
    violation: str = ""


def faults(part: str = "") -> list[str]:
    """Return the names of the faults that contain `part`."""
    return [each.name for each in EVERY_FAULT if part in each.name]


def planted(fault: str) -> AbstractContextManager[None]:
    """Plant the fault of this name for a while, in this process."""
    return next(each for each in EVERY_FAULT if each.name == fault).planted()


def find(fault: str, first_seed: int, count: int) -> Found:
    """Run lives with the fault of this name until one has a violation, at most `count` from a seed on."""
    with planted(fault):
        for seed in range(first_seed, first_seed + count):
            violations = live(draw_plan(seed)).violations
            if violations:
                return Found(fault, seed, violations[0])
    return Found(fault, None)


def find_all(names: list[str], first_seed: int, count: int, processes: int) -> Iterator[Found]:
    """Do so for several faults, in several processes, and yield what each led to."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(find, name, first_seed, count) for name in names]):
            yield done.result()
