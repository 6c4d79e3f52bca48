"""What makes retention work: a disk that fills up, and hours that pass."""

from __future__ import annotations

from gantry_simulation.lives.faults.disks import WHOLE_DISK, empty
from gantry_simulation.lives.faults.processes import kill
from gantry_simulation.lives.plan import Act, broker_of
from gantry_simulation.lives.retention import end_of_log
from gantry_simulation.lives.system import System
from gantry_simulation.world.world import MS_NS

SPARE_BYTES = 48 << 10
"""Room above the least free space, so that sends are not refused at once."""
AWAY_SECONDS = 7200
"""Longer than messages are kept: an hour."""


def disk_pressure(system: System, act: Act) -> bool:
    """Leave the disk of a store less room than it wants, but more than it needs, for the span: segments must go at any age."""
    store = system.stores[act.on]
    settings = store.settings
    least = settings.free_bytes_min + SPARE_BYTES
    more = settings.free_bytes_min + 4 * settings.ballast_bytes - least
    if not store.process.is_running or store.files.capacity != WHOLE_DISK:
        return False
    store.files.capacity = store.files.used_bytes() + least + act.number % more
    system.world.after(act.span_ms * MS_NS, lambda: empty(store))
    return True


def hours_off(system: System, act: Act) -> bool:
    """Kill all stores. Two hours later, by every clock, they start: all that they have is older than they keep it."""
    if not all(store.process.is_running for store in system.stores.values()):
        return False
    for name, store in system.stores.items():
        kill(system, Act(at_ms=act.at_ms, kind="", on=name, span_ms=act.span_ms))
        system.old_below[name] = end_of_log(store)
        system.ledger.messages.forget_keys(broker_of(name))
        store.process.clocks.pass_unseen(AWAY_SECONDS)
    for name, member in system.members().items():
        if name not in system.stores:
            member.process.clocks.pass_on_the_wall(AWAY_SECONDS)
    return True
