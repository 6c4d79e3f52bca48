"""Disks that fail, are slow or are full."""

from __future__ import annotations

import errno
import random

from broker_store.log.files.simulated_files import Fault
from gantry_simulation.lives.faults.restarts import READ
from gantry_simulation.lives.plan import Act, broker_of
from gantry_simulation.lives.system import System
from gantry_simulation.parts.replica import Replica
from gantry_simulation.parts.store import Store
from gantry_simulation.world.world import MS_NS

ROOM_BYTES = 64 * 1024
"""Room that a full disk still has."""
WHOLE_DISK = 1 << 40
WRITING = ("pwrite", "sync", "sync", "sync_dir")
PARTS = (
    "",
    "",
    "commitlog",
    "commitlog",
    "commitlog",
    "consumequeue",
    "index",
    "gantry",
    "config",
    "checkpoint",
)
"""A failing operation is one on a path that contains this."""
SKIPPED_STEPS = 4
SLOW_CHANCE, SLOW_NS = 0.5, (20 * MS_NS, 400 * MS_NS)
"""Share of the calls in threads that stall while syncs are slow, and for how long."""


def _failing(system: System, act: Act) -> Store:
    """Return the store of an act. Its index, tags and times may miss something from now on."""
    store = system.stores[act.on]
    system.ledger.messages.doubtful.add(broker_of(act.on))
    if isinstance(store, Replica):
        store.may_fail = True
    return store


def disk_error(system: System, act: Act) -> bool:
    """Fail a write, or a sync of a file or a directory, with EIO. The process must not trust the page cache from then on."""
    store = _failing(system, act)
    rng = random.Random(act.number)
    fault = Fault(rng.choice(WRITING), errno.EIO, rng.choice(PARTS), rng.randrange(SKIPPED_STEPS))
    store.files.faults.append(fault)
    system.has_failed_disk.add(act.on)
    if broker_of(act.on) not in system.groups:  # others of a group have what it acknowledged
        system.ledger.losses.doubt(act.on)
    system.lost_undurable(act.on)
    return True  # it also strikes the next start


def read_error(system: System, act: Act) -> bool:
    """Fail one read of a store with EIO. The next one succeeds, so nothing may be lost; its log may stop until a restart."""
    store = _failing(system, act)
    rng = random.Random(act.number)
    store.files.faults.append(Fault(READ, errno.EIO, rng.choice(PARTS), rng.randrange(SKIPPED_STEPS)))
    system.must_restart.add(act.on)
    return True  # it also strikes the next start


def slow_syncs(system: System, act: Act) -> bool:
    """Let half of the syncs, and of the other calls in threads, stall during the span."""
    pace = system.stores[act.on].process.pace
    usual = pace.stall_chance, pace.stall_ns
    if pace.stall_chance == SLOW_CHANCE:
        return False
    pace.stall_chance, pace.stall_ns = SLOW_CHANCE, SLOW_NS

    def end() -> None:
        pace.stall_chance, pace.stall_ns = usual

    system.world.after(act.span_ms * MS_NS, end)
    return True


def full_disk(system: System, act: Act) -> bool:
    """Leave the disk of a store little room for the span."""
    store = _failing(system, act)
    store.files.capacity = store.files.used_bytes() + act.number % ROOM_BYTES
    system.world.after(act.span_ms * MS_NS, lambda: empty(store))
    return store.process.is_running


def empty(store: Store) -> None:
    """Make room on a full disk."""
    store.files.capacity = WHOLE_DISK
