"""The clocks of one simulated machine: each has its own zero, both run too fast or too slow, the wall clock steps."""

from __future__ import annotations

import random
from math import ceil
from typing import Protocol

WALL_START_NS = 1_790_000_000_000_000_000
DRIFT_MAX = 100e-6
"""Largest drift, 100 ppm: a cheap quartz."""
OFFSET_SECONDS_MAX = 100_000.0
WALL_ERROR_NS_MAX = 50_000_000


class VirtualTime(Protocol):
    """Has the time of the World."""

    now_ns: int


class Clocks:
    """Wall clock and steady clock. The drift is a ratio: 1e-6 gains a microsecond each second."""

    def __init__(self, world: VirtualTime, rng: random.Random) -> None:
        self._world = world
        self._rate = self._steady_rate = 1 + rng.uniform(-DRIFT_MAX, DRIFT_MAX)
        self._steady_start = rng.uniform(0, OFFSET_SECONDS_MAX)
        self._boot_start = self._steady_start + rng.uniform(0, OFFSET_SECONDS_MAX)
        self._stepped_ns = 0
        self._wall_start_ns = WALL_START_NS + rng.randint(-WALL_ERROR_NS_MAX, WALL_ERROR_NS_MAX)

    def run_at(self, rate: float) -> None:
        """Let the steady clock gain or lose more than a quartz does, and the wall clock not. Call it before anything runs."""
        self._steady_rate = rate

    def steady(self) -> float:
        """Return the monotonic clock in seconds."""
        return self._steady_start + self._world.now_ns * self._steady_rate / 1e9

    def since_boot(self) -> float:
        """Return the seconds since the machine started."""
        return self._boot_start + self._world.now_ns * self._steady_rate / 1e9

    def wall_ns(self) -> int:
        """Return the wall clock in nanoseconds since 1970."""
        return self._wall_start_ns + int(self._world.now_ns * self._rate)

    def boot(self) -> None:
        """Start the machine again: the seconds since its boot begin at zero."""
        self._boot_start = -self._world.now_ns * self._steady_rate / 1e9

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock ahead, or back by negative seconds. The steady clock does not notice."""
        step_ns = round(seconds * 1e9)
        self._wall_start_ns += step_ns
        self._stepped_ns += step_ns

    def pass_on_the_wall(self, seconds: float) -> None:
        """Let the wall clock be later from now on, and right."""
        self._wall_start_ns += round(seconds * 1e9)

    def pass_unseen(self, seconds: float) -> None:
        """Let time pass on a machine where no process runs, on all its clocks."""
        self.pass_on_the_wall(seconds)
        self._steady_start += seconds
        self._boot_start += seconds

    def end_steps(self) -> None:
        """Set the wall clock right again."""
        self._wall_start_ns -= self._stepped_ns
        self._stepped_ns = 0

    def world_ns(self, steady: float) -> int:
        """Return the virtual time at which the steady clock shows these seconds."""
        return ceil((steady - self._steady_start) / self._steady_rate * 1e9)
