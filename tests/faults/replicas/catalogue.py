"""All faults by their names, and which of them a system can have."""

from __future__ import annotations

from collections.abc import Iterable

from .faults import PROCESSES_AND_CONNECTIONS, Do
from .machine_faults import APART, CLOCKS, DISKS

FAULTS: dict[str, Do] = {one.__name__: one for one in (*PROCESSES_AND_CONNECTIONS, *APART, *CLOCKS, *DISKS)}


def kinds_for(names: Iterable[str], *, has_disks: bool, has_clocks: bool = True) -> tuple[str, ...]:
    """Return the kinds that a system can have: without disks of its own, none of disks and power; without clocks, none of those."""
    away = (*(() if has_disks else DISKS), *(() if has_clocks else CLOCKS))
    missing = {one.__name__ for one in away}
    return tuple(name for name in names if name not in missing)
