"""Opens one disk twice, from its checkpoint and from the log alone, and compares the two stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from answered_config import AnsweredConfig
from comparison import Allowed, differences
from derived_state import state_of
from sending_side import DIRECTORY, HOST

from broker_store.clocks.store_clock import StoreClock
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.opening.opening import Opening
from broker_store.settings import Settings
from gantry_chassis.machine.environment import machine

DERIVED_DIRECTORIES = ("consumequeue", "index", "gantry/keys", "gantry/units")
DERIVED_FILES = (
    "gantry/queues.json",
    "gantry/queues.json.bak",
    "gantry/settled.snapshot",
    "gantry/access.snapshot",
    "gantry/committed.snapshot",
    "gantry/config.snapshot",
    "config/topics.json",
    "config/topics.json.bak",
    "config/subscriptionGroup.json",
    "config/subscriptionGroup.json.bak",
    "config/broker.properties",
)
LEASES_FILE = "gantry/leases.snapshot"
"""Removed too while the log is complete. After retention only this file has the filters of groups."""


@dataclass
class Tally:
    """What was checked so far."""

    lives: int = 0
    states: int = 0
    from_checkpoint: int = 0
    """Starts that read the log from a checkpoint on."""
    rebuilds: int = 0
    """Rebuilds caused by changed index settings."""
    fields: dict[str, int] = field(default_factory=dict[str, int])
    """How many states had content in a field: an always empty field is not compared."""


class DisksDiffer(AssertionError):
    """A store opened from its checkpoint differs from the log."""


def check_disk(
    disk: SimulatedFiles,
    settings: dict[str, Any],
    wall_s: float,
    allowed: Allowed,
    answered: AnsweredConfig,
    tally: Tally,
    *,
    may_rebuild: bool,
) -> None:
    """Compare both ways to open a disk, which is not changed. Raises DisksDiffer with all differences."""
    opening, opened_disk = open_copy(disk, settings, wall_s)
    if opening.rebuild_reason is not None and not may_rebuild:
        raise DisksDiffer(f"a start rebuilds though nothing is harmed: {opening.rebuild_reason}")
    bare_opening, bare_disk = open_copy(disk, settings, wall_s, is_bare=True)
    assert bare_opening.began_at == bare_opening.store.log.min_position
    opened, rebuilt = state_of(opening, opened_disk), state_of(bare_opening, bare_disk)
    found = [*differences(opened, rebuilt, allowed), *answered.lost(opening.store.states.config)]
    if found:
        raise DisksDiffer("\n".join([f"began at {opening.began_at} of {opened.end}", *found]))
    tally.states += 1
    tally.from_checkpoint += opening.began_at > bare_opening.began_at
    tally.rebuilds += opening.is_rebuild
    for name, value in vars(opened).items():
        tally.fields[name] = tally.fields.get(name, 0) + bool(value)


def open_copy(
    disk: SimulatedFiles, settings: dict[str, Any], wall_s: float, *, is_bare: bool = False
) -> tuple[Opening, SimulatedFiles]:
    """Open a copy of a disk. A bare one has the log and the committed offsets, and nothing derived."""
    copy = disk.killed()
    if is_bare:
        for name in DERIVED_DIRECTORIES:
            copy.remove_dir(f"{DIRECTORY}/{name}")
        for name in DERIVED_FILES:
            copy.remove(f"{DIRECTORY}/{name}")
        if copy.exists(f"{DIRECTORY}/commitlog/{0:020d}"):
            copy.remove(f"{DIRECTORY}/{LEASES_FILE}")
    clock = StoreClock(lambda: wall_s, lambda: 0.0)
    opening = Opening(Settings(store_dir=Path(DIRECTORY), **settings), copy, clock, HOST, machine())
    for _ in opening.run():
        pass
    return opening, copy
