"""The last quiet phase: clients and programs die, then everything but the stores. What was theirs must leave the memory."""

from __future__ import annotations

from collections.abc import Iterable

from gantry_simulation.lives.memory.census import Census
from gantry_simulation.lives.system import System
from gantry_simulation.processes.part import Part

LEFT_SECONDS = 1.0
"""Time from the last end of a process to the count."""
SILENT_SECONDS = 150
"""Longer than a server keeps a connection without traffic: that of a peer that lost its power, or was cut off."""


def count_when_quiet(system: System, census: Census) -> None:
    """Let everybody die, and count. Only stores run afterwards."""
    _kill((*system.clients.values(), *system.programs.members.values()))
    system.programs.end_audit()
    system.world.run_for(LEFT_SECONDS)
    census.check_empty({*system.gateways.workers, *system.nameservers})
    _kill(each for name, each in system.members().items() if name not in system.stores)
    for _ in range(SILENT_SECONDS):
        if not census.connections(system.stores):
            break
        system.world.run_for(1.0)
    else:
        system.world.violate("store", "keeps the connections of peers that are gone")
    system.world.run_for(LEFT_SECONDS)
    census.check_empty(system.stores)


def _kill(parts: Iterable[Part]) -> None:
    """End them without a farewell: their peers must clear up alone."""
    for part in parts:
        if part.process.is_running:
            part.kill()
