"""Every fault by its name in a plan, and how a life performs and ends them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gantry_simulation.lives.faults.clocks import step_wall
from gantry_simulation.lives.faults.damage import flip, lose_files
from gantry_simulation.lives.faults.disks import disk_error, empty, full_disk, read_error, slow_syncs
from gantry_simulation.lives.faults.holes import lose_stretch
from gantry_simulation.lives.faults.network import break_connections, cut, cut_one_way
from gantry_simulation.lives.faults.processes import kill, pause, power_cut, reconfigure, stop
from gantry_simulation.lives.faults.replicas import (
    blackout,
    cut_off,
    register_away,
    register_late,
    register_silent,
    register_stale,
)
from gantry_simulation.lives.faults.restarts import restart_running
from gantry_simulation.lives.faults.retaining import disk_pressure, hours_off
from gantry_simulation.lives.plan import Act
from gantry_simulation.lives.system import System

Apply = Callable[[System, Act], bool]
"""Begins a fault. False if it had no effect."""
COMMON_FAULTS: dict[str, Apply] = {
    "kill": kill,
    "stop": stop,
    "pause": pause,
    "step wall clock": step_wall,
    "cut": cut,
    "cut one way": cut_one_way,
    "break connections": break_connections,
    "power cut": power_cut,
    "reconfigure": reconfigure,
    "disk error": disk_error,
    "full disk": full_disk,
    "read error": read_error,
    "slow syncs": slow_syncs,
    "bit flip": flip,
    "lost files": lose_files,
}
DISK_PRESSURE, HOURS_OFF, LOST_STRETCH = "disk pressure", "hours off", "lost stretch"
GROUP_FAULTS: dict[str, Apply] = {
    "blackout": blackout,
    "cut off": cut_off,
    "register away": register_away,
    "register stale": register_stale,
    "register silent": register_silent,
    "register late": register_late,
}
FAULTS: dict[str, Apply] = {
    **COMMON_FAULTS,
    DISK_PRESSURE: disk_pressure,
    HOURS_OFF: hours_off,
    **GROUP_FAULTS,
    LOST_STRETCH: lose_stretch,
}
"""Those in common, those of lives in which retention works, those of groups with replicas, and that of groups whose logs get holes."""
POWER_CUT = "power cut"
DAMAGES = frozenset({"bit flip", "lost files"})
STORE_FAULTS = DAMAGES | {"reconfigure", "disk error", "full disk", "read error", "slow syncs"}
DISK_FAULTS = frozenset({"disk error", "full disk", "read error"})
"""Faults after which the product logs exceptions rightly."""
NETWORK_FAULTS = frozenset({"cut", "cut one way", "break connections"})


def perform(system: System, act: Act) -> None:
    """Begin a fault, or an operation of a client."""
    apply = FAULTS.get(act.kind)
    if apply is None:
        system.clients[act.by].perform(act)
        system.happened[act.kind] += 1
        return
    act = _aimed(system, act)
    if apply(system, act):
        system.is_harmed = True
        system.happened[act.kind] += 1
        other = f" and {act.by}" if act.by else ""
        system.history.add(act.on, f"*** {act.kind}{other}, {act.span_ms} ms")


def _aimed(system: System, act: Act) -> Act:
    """Let a fault of a group strike the replica that leads."""
    group = system.groups.get(act.on)
    if group is None:
        return act
    on = next(iter(group.replicas)) if group.leader is None else group.leader.process.name
    if on == act.by:  # the leader from another one
        on = next(name for name in group.replicas if name != act.by)
    return msgspec.structs.replace(act, on=on)


def end_all(system: System) -> None:
    """End every fault. Stores with a failed disk restart. What was refused a start starts; what is down for a while starts later."""
    for one in system.members().values():
        for other in system.members().values():
            system.network.heal(one.process.address, other.process.address)
        one.process.clocks.end_steps()
        if one.process.is_running and one.process.is_paused:
            one.process.resume()
    for group in system.groups.values():
        group.register.end_faults()
    for name, store in system.stores.items():
        store.files.faults.clear()
        empty(store)
        if store.process.refusal:
            store.start()
        elif name in system.has_failed_disk | system.must_restart:
            restart_running(system, store)
