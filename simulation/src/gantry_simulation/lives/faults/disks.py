"""Disks that fail or are full."""

from __future__ import annotations

import errno
import random

from broker_store.log.files.simulated_files import Fault
from gantry_simulation.lives.plan import Act
from gantry_simulation.lives.system import System
from gantry_simulation.parts.store import Store
from gantry_simulation.world.world import MS_NS

ROOM_BYTES = 64 * 1024
"""Room that a full disk still has."""
WHOLE_DISK = 1 << 40
DISK_STEPS = ("pwrite", "sync", "sync_dir")
SKIPPED_STEPS = 4


def disk_error(system: System, act: Act) -> bool:
    """Fail a write or a sync of a store with EIO. Its process must not trust the page cache from then on."""
    store = system.stores[act.on]
    rng = random.Random(act.number)
    fault = Fault(rng.choice(DISK_STEPS), errno.EIO, skip=rng.randrange(SKIPPED_STEPS))
    store.files.faults.append(fault)
    system.has_failed_disk.add(act.on)
    system.ledger.losses.doubt(act.on)
    system.ledger.lost_undurable(act.on)
    return store.process.is_running


def full_disk(system: System, act: Act) -> bool:
    """Leave the disk of a store little room for the span."""
    store = system.stores[act.on]
    store.files.capacity = WHOLE_DISK - store.files.free_bytes("/") + act.number % ROOM_BYTES
    system.world.after(act.span_ms * MS_NS, lambda: empty(store))
    return store.process.is_running


def empty(store: Store) -> None:
    """Make room on a full disk."""
    store.files.capacity = WHOLE_DISK
