"""Runs many lives, in several processes of the machine. Seeds are independent, so their order does not matter."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from gantry_simulation.lives.coverage import Coverage
from gantry_simulation.lives.drawing.draw_plan import draw_plan
from gantry_simulation.lives.life import live

CHUNK = 10
"""Lives that one process runs before it reports."""


@dataclass(slots=True)
class Lives:
    """What some lives led to."""

    seeds: list[int] = field(default_factory=list[int])
    acknowledged: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    failing: dict[int, str] = field(default_factory=dict[int, str])
    """First violation by seed."""
    happened: list[tuple[int, list[str]]] = field(default_factory=list[tuple[int, list[str]]])
    """Seeds, and the kinds of acts that had an effect."""

    def add(self, other: Lives) -> None:
        """Add other lives."""
        self.seeds += other.seeds
        self.acknowledged += other.acknowledged
        self.virtual_seconds += other.virtual_seconds
        self.cpu_seconds += other.cpu_seconds
        self.failing.update(other.failing)
        self.happened += other.happened

    def coverage(self) -> Coverage:
        """Return which faults and features these lives had together."""
        coverage = Coverage()
        for seed, kinds in self.happened:
            coverage.add(draw_plan(seed).shape, kinds)
        return coverage


def run_seeds(seeds: Iterable[int]) -> Lives:
    """Run the lives of some seeds in this process."""
    lives = Lives()
    began = time.process_time()
    for seed in seeds:
        outcome = live(draw_plan(seed))
        lives.seeds.append(seed)
        lives.acknowledged += outcome.acknowledged
        lives.virtual_seconds += outcome.virtual_seconds
        lives.happened.append((seed, list(outcome.happened)))
        if outcome.violations:
            lives.failing[seed] = outcome.violations[0]
    lives.cpu_seconds = time.process_time() - began
    return lives


def run_many(first_seed: int, count: int, processes: int, end: float | None = None) -> Iterator[Lives]:
    """Run `count` lives from a seed on, and yield what each finished chunk led to. `end`: begin no chunk after this monotonic time."""
    chunks = [
        range(first, min(first + CHUNK, first_seed + count))
        for first in range(first_seed, first_seed + count, CHUNK)
    ]
    if processes == 1:
        for chunk in chunks:
            if end is not None and time.monotonic() > end:
                return
            yield run_seeds(chunk)
        return
    # spawned, because a fork would copy the event loops and locks of this process
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run_seeds, chunk) for chunk in chunks[: 2 * processes]}
        waiting = iter(chunks[2 * processes :])
        while running:
            done = next(as_completed(running))
            running.remove(done)
            following = None if end is not None and time.monotonic() > end else next(waiting, None)
            if following is not None:
                running.add(pool.submit(run_seeds, following))
            yield done.result()
