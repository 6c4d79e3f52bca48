"""What happens to the replicas of a group: all lose their power, one is cut off from the others, their register fails."""

from __future__ import annotations

import random
from collections.abc import Iterator

from broker_store.replication.register.memory_register import Faults
from gantry_simulation.lives.faults.processes import power_cut
from gantry_simulation.lives.plan import Act, broker_of
from gantry_simulation.lives.system import System
from gantry_simulation.world.world import MS_NS

ALL_WITHIN_MS = 40
"""The machines of a group lose their power within this time."""
STALE_MAX, LOST_MAX, LATE_MAX = 3, 3, 2


def blackout(system: System, act: Act) -> bool:
    """Take the power from all machines of a group, nearly at once. Each comes back at a time of its own."""
    rng = random.Random(act.number)
    for name in system.groups[broker_of(act.on)].replicas:
        one = Act(
            at_ms=act.at_ms, kind=act.kind, on=name, number=rng.getrandbits(16),
            span_ms=rng.randint(act.span_ms // 2, act.span_ms),
        )  # fmt: skip

        def strike(one: Act = one) -> None:
            power_cut(system, one)

        system.world.after(rng.randint(0, ALL_WITHIN_MS) * MS_NS, strike)
    return True


def cut_off(system: System, act: Act) -> bool:
    """Let nothing pass between a replica and the others of its group for the span; for some numbers only in one direction."""
    rng = random.Random(act.number)
    way = rng.choice(("both", "both", "out", "in"))
    address = system.stores[act.on].process.address
    others = [
        replica.process.address
        for name, replica in system.groups[broker_of(act.on)].replicas.items()
        if name != act.on
    ]
    pairs = [(address, other) for other in others] if way != "in" else [(other, address) for other in others]
    paths = system.network.paths
    if not all(paths.is_open((one, other)) and paths.is_open((other, one)) for one, other in pairs):
        return False
    for source, target in pairs:
        system.network.cut(source, target, both=way == "both")

    def heal() -> None:
        for source, target in pairs:
            system.network.heal(source, target)

    system.world.after(act.span_ms * MS_NS, heal)
    return True


def _ways(system: System, act: Act) -> Iterator[Faults]:
    """Yield the ways to the register that an act strikes: of one replica, for some numbers of all."""
    faults = system.groups[broker_of(act.on)].register.faults
    yield from [faults[act.on]] if act.number % 2 else faults.values()


def register_away(system: System, act: Act) -> bool:
    """Let the register answer nothing for the span."""
    ways = [way for way in _ways(system, act) if not way.is_away]
    for way in ways:
        way.is_away = True

    def end() -> None:
        for way in ways:
            way.is_away = False

    system.world.after(act.span_ms * MS_NS, end)
    return bool(ways)


def register_stale(system: System, act: Act) -> bool:
    """Let reads lack the newest records for the span."""
    ways = list(_ways(system, act))
    for way in ways:
        way.stale_by = 1 + act.number % STALE_MAX

    def end() -> None:
        for way in ways:
            way.stale_by = 0

    system.world.after(act.span_ms * MS_NS, end)
    return True


def register_silent(system: System, act: Act) -> bool:
    """Lose the replies of the next writes, which take effect."""
    for way in _ways(system, act):
        way.replies_lost = 1 + act.number % LOST_MAX
    return True


def register_late(system: System, act: Act) -> bool:
    """Let the next writes arrive after the span only, if nothing has overtaken them."""
    ways = list(_ways(system, act))
    for way in ways:
        way.writes_late = 1 + act.number % LATE_MAX

    def end() -> None:
        for way in ways:
            way.writes_late = 0
        system.groups[broker_of(act.on)].register.records.arrive()

    system.world.after(act.span_ms * MS_NS, end)
    return True
