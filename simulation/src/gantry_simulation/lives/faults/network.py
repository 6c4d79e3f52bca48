"""Partitions, and connections that are reset."""

from __future__ import annotations

from gantry_simulation.lives.plan import Act
from gantry_simulation.lives.system import System
from gantry_simulation.world.world import MS_NS


def cut(system: System, act: Act) -> bool:
    """Let nothing pass between two hosts for the span."""
    return _cut(system, act, both=True)


def cut_one_way(system: System, act: Act) -> bool:
    """Let nothing pass from one host to another for the span."""
    return _cut(system, act, both=False)


def _cut(system: System, act: Act, *, both: bool) -> bool:
    hosts = system.member(act.on).process.address, system.member(act.by).process.address
    system.network.cut(*hosts, both=both)
    system.world.after(act.span_ms * MS_NS, lambda: system.network.heal(*hosts))
    return True


def break_connections(system: System, act: Act) -> bool:
    """Reset the connections between two hosts, on one side or on both."""
    hosts = system.member(act.on).process.address, system.member(act.by).process.address
    return system.network.break_connections(*hosts, half=act.number % 2 == 0) > 0
