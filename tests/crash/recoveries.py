"""How each start of a store recovered: from a checkpoint of the run before or from an older one; a start after a kill must rebuild nothing."""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass
from pathlib import Path

CHECKPOINT_SECONDS_MIN, CHECKPOINT_SECONDS_MAX = 0.05, 5.0
"""A run lasts about a second: with a long interval recovery usually has only the log, with a short one a recent checkpoint."""

SOON = {"checkpoint_seconds": str(CHECKPOINT_SECONDS_MIN)}
NEVER = {"checkpoint_seconds": "600"}


def random_settings(dice: random.Random) -> dict[str, str]:
    """Return random settings for one run. The page cache survives a kill, so async flush gives the same guarantee here."""
    low, high = math.log(CHECKPOINT_SECONDS_MIN), math.log(CHECKPOINT_SECONDS_MAX)
    return {
        "checkpoint_seconds": f"{math.exp(dice.uniform(low, high)):.3f}",
        "flush": dice.choice(["sync", "sync", "async"]),
    }


def checkpoint_position(store_dir: Path) -> int:
    """Return the newest checkpoint's position in the log, from the two slots of `gantry/log.note`; 0 before the first."""
    try:
        note = (store_dir / "gantry/log.note").read_bytes()
    except FileNotFoundError:
        return 0
    slots = [note[at : at + NOTE_BYTES] for at in (0, NOTE_SLOT_BYTES)]
    positions = [
        struct.unpack_from(">Q", slot, NOTE_CHECKPOINT_AT)[0]
        for slot in slots
        if len(slot) == NOTE_BYTES and slot[:4] == b"GLN1"
    ]
    return max(positions, default=0)


NOTE_SLOT_BYTES, NOTE_BYTES, NOTE_CHECKPOINT_AT = 4096, 124, 64
"""The layout of `gantry/log.note`: docs/log-format.md."""
REBUILD = "gantry_store_recovery_rebuild{"


@dataclass
class Recoveries:
    """Counts of the starts of one store after kills."""

    starts: int = 0
    from_last_run: int = 0
    """Starts from a checkpoint of the killed run; the others read that whole run from the log."""
    end: int = 0
    """The end of the log at the last start."""

    def note(self, metrics: bytes, *, was_killed: bool = True) -> None:
        """Count a completed start; AssertionError if it rebuilt, because neither a kill nor a stop damages a file."""
        start, end, reasons = read_recovery(metrics)
        assert not reasons, f"start {self.starts} rebuilt everything; reasons: {reasons}"
        self.starts += was_killed
        self.from_last_run += was_killed and start > self.end
        self.end = end


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
