"""How the starts of a store began: at a checkpoint of the life before, or at an older one; none rebuilt what a kill leaves whole."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

CHECKPOINT_SECONDS_MIN, CHECKPOINT_SECONDS_MAX = 0.05, 5.0
"""A life lasts about a second: with the longest interval recovery has the log alone, with the shortest a checkpoint of a moment ago."""


def draw_life(dice: random.Random) -> dict[str, str]:
    """Return the settings of one life. What a kill leaves in the page cache survives it: async flush promises as much here."""
    low, high = math.log(CHECKPOINT_SECONDS_MIN), math.log(CHECKPOINT_SECONDS_MAX)
    return {
        "checkpoint_seconds": f"{math.exp(dice.uniform(low, high)):.3f}",
        "flush": dice.choice(["sync", "sync", "async"]),
    }


REBUILD = "gantry_store_recovery_rebuild{"


@dataclass
class Recoveries:
    """Counts of the starts of one store after kills."""

    starts: int = 0
    from_last_life: int = 0
    """Starts that began at a checkpoint which the life just killed had taken: the others read all that life from the log."""
    _end: int = 0

    def note(self, metrics: bytes, *, was_killed: bool = True) -> None:
        """Count a start that is over; AssertionError when it rebuilt, though neither a kill nor a stop harms a file."""
        start, end, reasons = read_recovery(metrics)
        assert not reasons, f"start {self.starts} rebuilt everything, because of: {reasons}"
        self.starts += was_killed
        self.from_last_life += was_killed and start > self._end
        self._end = end


def read_recovery(metrics: bytes) -> tuple[int, int, list[str]]:
    """Return from where a store read its log, where that ends now, and the reasons for which it rebuilt: none, or one."""
    figures: dict[str, float] = {}
    for line in metrics.decode().splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith(("gantry_store_recovery_", "gantry_store_log_end_position")):
            figures[name] = float(value)
    reasons = [name for name, value in figures.items() if name.startswith(REBUILD) and value]
    start, end = figures["gantry_store_recovery_start_position"], figures["gantry_store_log_end_position"]
    assert any(name.startswith(REBUILD) for name in figures), "the store does not say whether it rebuilt"
    return int(start), int(end), reasons
