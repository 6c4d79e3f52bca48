"""How each start of a store recovered: from a checkpoint of the run before or from an older one; a start after a kill must rebuild nothing."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

CHECKPOINT_SECONDS_MIN, CHECKPOINT_SECONDS_MAX = 0.05, 5.0
"""A run lasts about a second: with the longest interval recovery has only the log, with the shortest it has a recent checkpoint."""


def random_settings(dice: random.Random) -> dict[str, str]:
    """Return random settings for one run. The page cache survives a kill, so async flush gives the same guarantee here."""
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
    from_last_run: int = 0
    """Starts from a checkpoint of the killed run; the others read that whole run from the log."""
    _end: int = 0

    def note(self, metrics: bytes, *, was_killed: bool = True) -> None:
        """Count a completed start; AssertionError if it rebuilt, because neither a kill nor a stop damages a file."""
        start, end, reasons = read_recovery(metrics)
        assert not reasons, f"start {self.starts} rebuilt everything; reasons: {reasons}"
        self.starts += was_killed
        self.from_last_run += was_killed and start > self._end
        self._end = end


def read_recovery(metrics: bytes) -> tuple[int, int, list[str]]:
    """Return the position from which a store read its log, the end of the log, and the reasons for a rebuild: none, or one."""
    values: dict[str, float] = {}
    for line in metrics.decode().splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith(("gantry_store_recovery_", "gantry_store_log_end_position")):
            values[name] = float(value)
    reasons = [name for name, value in values.items() if name.startswith(REBUILD) and value]
    start, end = values["gantry_store_recovery_start_position"], values["gantry_store_log_end_position"]
    assert any(name.startswith(REBUILD) for name in values), "the store has no metric of rebuilds"
    return int(start), int(end), reasons
