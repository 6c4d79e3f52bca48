"""Processes that die, stop, pause, restart with another setting, and machines without power."""

from __future__ import annotations

import random

from gantry_simulation.lives.faults.restarts import forget_failed_disk, restart
from gantry_simulation.lives.plan import Act, broker_of
from gantry_simulation.lives.system import System
from gantry_simulation.parts.nameserver import Nameserver
from gantry_simulation.parts.store import Store
from gantry_simulation.world.world import MS_NS


def kill(system: System, act: Act) -> bool:
    """End a process as SIGKILL does, and start it after the span."""
    member = system.member(act.on)
    if not member.process.is_running:
        return False
    member.kill()
    restart(system, member, act.span_ms)
    return True


def power_cut(system: System, act: Act) -> bool:
    """Take the power from a machine, and with it all that was not synced. Start it after the span."""
    member = system.member(act.on)
    if not member.process.is_running or isinstance(member, Nameserver):
        return False
    if isinstance(member, Store):
        member.lose_power(act.number)
        system.lost_undurable(act.on)
        forget_failed_disk(system, act.on)
    else:
        member.lose_power()
    for other in system.members().values():
        if other.process.machine is member.process.machine:
            restart(system, other, act.span_ms)
    return True


def stop(system: System, act: Act) -> bool:
    """Stop a process by SIGTERM, and start it after the span."""
    process = system.member(act.on).process
    if not process.is_running or not process.stop_once():
        return False
    restart(system, system.member(act.on), act.span_ms)
    return True


def reconfigure(system: System, act: Act) -> bool:
    """Restart a store with another flush, index or checkpoint interval."""
    store = system.stores[act.on]
    rng = random.Random(act.number)
    change = rng.choice(("flush", "index_enable", "checkpoint_seconds"))
    if not stop(system, act):
        return False
    value = {
        "flush": "async" if store.settings.flush == "sync" else "sync",
        "index_enable": not store.settings.index_enable,
        "checkpoint_seconds": rng.choice((0.1, 1.0, 5.0)),
    }[change]
    if change == "flush":
        if broker_of(act.on) not in system.groups:  # they answer what the group has
            system.ledger.losses.doubt(act.on)
        system.lost_undurable(act.on)  # what was written before is not known to be durable
    store.configure(**{change: value})
    system.history.add(act.on, f"gets {change} = {value}")
    return True


def pause(system: System, act: Act) -> bool:
    """Give a process no CPU for the span."""
    process = system.member(act.on).process
    if not process.is_running or process.is_paused:
        return False
    lives = process.lives
    process.pause()

    def resume() -> None:
        if process.is_running and process.lives == lives and process.is_paused:
            process.resume()

    system.world.after(act.span_ms * MS_NS, resume)
    return True
