"""Every fault by its name in a plan, and how a life performs and ends them."""

from __future__ import annotations

from collections.abc import Callable

from gantry_simulation.lives.faults.clocks import step_wall
from gantry_simulation.lives.faults.damage import flip, lose_files
from gantry_simulation.lives.faults.disks import disk_error, empty, full_disk, read_error, slow_syncs
from gantry_simulation.lives.faults.network import break_connections, cut, cut_one_way
from gantry_simulation.lives.faults.processes import kill, pause, power_cut, reconfigure, stop
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
DISK_PRESSURE, HOURS_OFF = "disk pressure", "hours off"
FAULTS: dict[str, Apply] = {**COMMON_FAULTS, DISK_PRESSURE: disk_pressure, HOURS_OFF: hours_off}
"""Those in common, and those of lives in which retention works."""
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
    elif apply(system, act):
        system.is_harmed = True
        system.happened[act.kind] += 1
        other = f" and {act.by}" if act.by else ""
        system.history.add(act.on, f"*** {act.kind}{other}, {act.span_ms} ms")


def end_all(system: System) -> None:
    """End every fault. Stores with a failed disk restart. What was refused a start starts; what is down for a while starts later."""
    for one in system.members().values():
        for other in system.members().values():
            system.network.heal(one.process.address, other.process.address)
        one.process.clocks.end_steps()
        if one.process.is_running and one.process.is_paused:
            one.process.resume()
    for name, store in system.stores.items():
        store.files.faults.clear()
        empty(store)
        if store.process.refusal:
            store.start()
        elif name in system.has_failed_disk | system.must_restart:
            restart_running(system, store)
