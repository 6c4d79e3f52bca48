"""The faults of a life. Each begins at the time of its act, and ends by itself after its span or at the end of the life."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

from broker_store.log.files.simulated_files import Fault
from gantry_simulation.lives.client import Client
from gantry_simulation.lives.plan import Act
from gantry_simulation.lives.system import Member, System
from gantry_simulation.parts.store import Store

MS = 1_000_000
AGAIN_NS = 100 * MS
"""How often a start looks whether the last life has ended."""
WALL_STEP_SECONDS = 10_000
ROOM_BYTES = 64 * 1024
"""Room that a full disk still has."""
WHOLE_DISK = 1 << 40
DISK_STEPS = ("pwrite", "sync", "sync_dir")
SKIPPED_STEPS = 4

Apply = Callable[[System, Act], bool]


def _restart(system: System, member: Member, span_ms: int) -> None:
    """Start a member after a time, once its life of now has ended."""
    process, lives = member.process, member.process.lives

    def begin() -> None:
        if process.lives != lives:
            return  # another fault has restarted it
        if process.is_running:
            system.world.after(AGAIN_NS, begin)
        else:
            member.start()
            system.history.add(process.name, "starts")

    system.world.after(span_ms * MS, begin)


def kill(system: System, act: Act) -> bool:
    """End a process as SIGKILL does, and start it after the span."""
    member = system.member(act.on)
    if not member.process.is_running:
        return False
    if isinstance(member, Client):
        member.process.kill()
    else:
        member.kill()
    if isinstance(member, Store):
        _after_failed_disk(system, act.on)
    _restart(system, member, act.span_ms)
    return True


def power_cut(system: System, act: Act) -> bool:
    """Take the power from the machine of a store, and with it all that was not synced. Start it after the span."""
    store = system.stores[act.on]
    if not store.process.is_running:
        return False
    store.lose_power(act.number)
    system.ledger.lost_undurable(act.on)
    system.has_failed_disk.discard(act.on)
    _restart(system, store, act.span_ms)
    return True


def stop(system: System, act: Act) -> bool:
    """Stop a process by SIGTERM, and start it after the span."""
    process = system.member(act.on).process
    if not process.is_running or not process.stop_once():
        return False
    _restart(system, system.member(act.on), act.span_ms)
    if act.on in system.stores:
        _after_failed_disk(system, act.on)
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
        system.ledger.lost_undurable(act.on)  # what was written before is not known to be durable
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

    system.world.after(act.span_ms * MS, resume)
    return True


def cut(system: System, act: Act) -> bool:
    """Let nothing pass between two hosts for the span."""
    return _cut(system, act, both=True)


def cut_one_way(system: System, act: Act) -> bool:
    """Let nothing pass from one host to another for the span."""
    return _cut(system, act, both=False)


def _cut(system: System, act: Act, *, both: bool) -> bool:
    hosts = system.member(act.on).process.address, system.member(act.by).process.address
    system.network.cut(*hosts, both=both)
    system.world.after(act.span_ms * MS, lambda: system.network.heal(*hosts))
    return True


def break_connections(system: System, act: Act) -> bool:
    """Reset the connections between two hosts, on one side or on both."""
    hosts = system.member(act.on).process.address, system.member(act.by).process.address
    return system.network.break_connections(*hosts, half=act.number % 2 == 0) > 0


def step_wall(system: System, act: Act) -> bool:
    """Set the wall clock of a machine."""
    seconds = random.Random(act.number).uniform(-WALL_STEP_SECONDS, WALL_STEP_SECONDS)
    system.member(act.on).process.clocks.step_wall(seconds)
    return True


def disk_error(system: System, act: Act) -> bool:
    """Fail a write or a sync of a store with EIO. Its process must not trust the page cache from then on."""
    store = system.stores[act.on]
    rng = random.Random(act.number)
    fault = Fault(rng.choice(DISK_STEPS), errno.EIO, skip=rng.randrange(SKIPPED_STEPS))
    store.files.faults.append(fault)
    system.has_failed_disk.add(act.on)
    system.ledger.lost_undurable(act.on)
    return store.process.is_running


def full_disk(system: System, act: Act) -> bool:
    """Leave the disk of a store little room for the span."""
    store = system.stores[act.on]
    store.files.capacity = WHOLE_DISK - store.files.free_bytes("/") + act.number % ROOM_BYTES
    system.world.after(act.span_ms * MS, lambda: _empty(store))
    return store.process.is_running


def _empty(store: Store) -> None:
    store.files.capacity = WHOLE_DISK


def _after_failed_disk(system: System, name: str) -> None:
    """Take into account that the next life of a store reads what the device has, which may be less than what was written."""
    if name in system.has_failed_disk:
        system.has_failed_disk.discard(name)
        system.ledger.lost_undurable(name)


FAULTS: dict[str, Apply] = {
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
}
STORE_FAULTS = frozenset({"power cut", "reconfigure", "disk error", "full disk"})
DISK_FAULTS = frozenset({"disk error", "full disk"})
"""Faults after which the product logs exceptions rightly."""
NETWORK_FAULTS = frozenset({"cut", "cut one way", "break connections"})


def perform(system: System, act: Act) -> None:
    """Begin a fault, or an operation of a client."""
    apply = FAULTS.get(act.kind)
    if apply is None:
        system.clients[act.by].perform(act)
        system.happened[act.kind] += 1
    elif apply(system, act):
        system.happened[act.kind] += 1
        other = f" and {act.by}" if act.by else ""
        system.history.add(act.on, f"*** {act.kind}{other}, {act.span_ms} ms")


def end_all(system: System) -> None:
    """End every fault. Stores with a failed disk restart. What was refused a start starts; what is down for a while starts later."""
    for one in system.members().values():
        for other in system.members().values():
            system.network.heal(one.process.address, other.process.address)
        if one.process.is_running and one.process.is_paused:
            one.process.resume()
    for name, store in system.stores.items():
        store.files.faults.clear()
        _empty(store)
        if store.process.refusal:
            store.start()
        elif name in system.has_failed_disk and store.process.is_running and store.process.stop_once():
            _after_failed_disk(system, name)
            _restart(system, store, 0)
