"""Wall clocks that somebody sets."""

from __future__ import annotations

import random

from gantry_simulation.lives.plan import Act
from gantry_simulation.lives.system import System

WALL_STEP_SECONDS = 10_000


def step_wall(system: System, act: Act) -> bool:
    """Set the wall clock of a machine."""
    seconds = random.Random(act.number).uniform(-WALL_STEP_SECONDS, WALL_STEP_SECONDS)
    system.member(act.on).process.clocks.step_wall(seconds)
    return True
