"""The last phase of groups: all replicas are in the set again, and one after the other shows what it has."""

from __future__ import annotations

from gantry_simulation.lives.faults.table import LOST_STRETCH, perform
from gantry_simulation.lives.plan import Act
from gantry_simulation.lives.system import System

WHOLE_SECONDS = 60.0
"""Most time until all replicas of a group are in its set again, with everything."""
FILL_SECONDS = 75.0
"""Most time more where a log has holes: it asks again after a minute for what nobody could give."""
DOWN_MS = 6_000
"""A leader that was killed stays away for so long: longer than a takeover takes."""
SHOWN = 5


def kill_leaders(system: System) -> None:
    """Kill the leaders of all groups. Others take over."""
    for name in system.groups:
        perform(system, Act(at_ms=0, kind="kill", on=name, span_ms=DOWN_MS))


def are_whole(system: System) -> bool:
    """Wait until all replicas are in their sets and have everything. False, and a violation, when that takes too long."""

    def missing() -> list[str]:
        return [what for group in system.groups.values() for what in group.missing()]

    if system.world.run_until(
        lambda: not missing(), within=WHOLE_SECONDS + FILL_SECONDS * (LOST_STRETCH in system.happened)
    ):
        return True
    system.world.violate("system", f"a group does not become whole: {'; '.join(missing()[:SHOWN])}")
    return False
