"""Runs one plan: the system lives under its acts, all faults end, the system recovers, and everything readable is compared."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gantry_simulation.lives.epilogues import Epilogue
from gantry_simulation.lives.faults.restarts import restart
from gantry_simulation.lives.faults.table import (
    DAMAGES,
    DISK_FAULTS,
    LOST_STRETCH,
    POWER_CUT,
    end_all,
    perform,
)
from gantry_simulation.lives.groups import watched
from gantry_simulation.lives.memory.census import Census
from gantry_simulation.lives.memory.quiet import count_when_quiet
from gantry_simulation.lives.plan import ORDERLY, Act, Plan
from gantry_simulation.lives.product_logs import ProductLogs, product_logs
from gantry_simulation.lives.reader import SHOWN, Reader
from gantry_simulation.lives.retention import Retention
from gantry_simulation.lives.system import System
from gantry_simulation.lives.takeovers import are_whole, kill_leaders
from gantry_simulation.world.world import MS_NS, SECOND_NS, World

CALM_SECONDS = 3.0
"""Time without faults before the last reading."""
GROUPS_SECONDS = 120.0
"""Most time until groups have consumed everything: longer than a lock that a lost machine leaves behind."""
STOP_SECONDS = 30.0
COUNTED_AT = (0.4, 0.7, 1.0)
"""When memory is counted: shares of the time until all faults end."""
ENDS_SECONDS = 15.0
"""Most time until all runs again and the last operations end: what is acknowledged during the reading may be missing there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a life led to."""

    violations: list[str]
    digest: str
    """The trace hash: equal for equal lives."""
    history: list[str]
    happened: Counter[str]
    """Acts that had an effect, by kind."""
    acknowledged: int
    virtual_seconds: float
    """Without the epilogue, in which hours may pass."""


def live(plan: Plan) -> Outcome:
    """Run a plan in a temporary directory."""
    with (
        tempfile.TemporaryDirectory(prefix="gantry-simulation-") as directory,
        product_logs() as logs,
        World(plan.seed) as world,
        _census(world, plan) as census,
        ExitStack() as stack,
    ):
        system = System(world, plan.shape, Path(directory))
        system.on_end = lambda replica, _reason: restart(system, replica, 0)
        stack.enter_context(_watch(system))
        for act in plan.acts:
            world.at(act.at_ms * MS_NS, partial(perform, system, act))
        system.start()
        world.run_for(plan.seconds)
        end_all(system)
        world.run_for(CALM_SECONDS)
        system.programs.end_sending()
        world.run_until(lambda: _is_calm(system), within=ENDS_SECONDS)
        _read_all(system, plan.seed)
        if census is not None and not world.violations and not system.groups:
            count_when_quiet(system, census)
        _stop_all(system)
        stack.close()
        ended_ns, rebuilds = world.now_ns, len(logs.rebuilds)
        if not world.violations:
            Epilogue(system).run(plan.shape.epilogue)
            del logs.rebuilds[rebuilds:]
        if not DISK_FAULTS.intersection(system.happened):
            _check_logs(system, logs)
        for violation in world.violations:
            system.history.add(violation.process, f"VIOLATION: {violation.what}")
        return Outcome(
            [f"{violation.process}: {violation.what}" for violation in world.violations],
            world.trace.digest(),
            system.history.lines(),
            system.happened,
            system.ledger.messages.acknowledged,
            ended_ns / SECOND_NS,
        )


def _watch(system: System) -> ExitStack:
    """Watch what the product decides of which the ledger hears nothing."""
    with ExitStack() as stack:
        groups = {name: group for group in system.groups.values() for name in group.replicas}
        if groups:
            stack.enter_context(watched(groups))
        if system.shape.deletes_old:
            stack.enter_context(Retention(system).watched())
        return stack.pop_all()


def _read_all(system: System, seed: int) -> None:
    """Read everything, after the last faults of the shape, too."""
    if LOST_STRETCH in system.happened and not are_whole(system):
        return  # a replica whose log has holes leads where no other one can
    if not _is_whole(system, "first reader"):
        return
    _let_one_leave(system)
    if system.shape.ends_with_power_cut:
        for number, store in enumerate(system.stores):
            perform(system, Act(at_ms=0, kind=POWER_CUT, on=store, number=seed + number))
        _is_whole(system, "last reader")
    for number in range(system.shape.last_takeovers):
        if not system.world.violations and are_whole(system):
            kill_leaders(system)
            _is_whole(system, f"reader after takeover {number + 1}")
    if not system.world.violations and are_whole(system):
        for group in system.groups.values():
            group.compare_logs()


def _census(world: World, plan: Plan) -> AbstractContextManager[Census | None]:
    """Take a census at some moments of the life, if its plan wants one."""
    if not plan.shape.counts_memory:
        return nullcontext()
    census = Census(world)
    for share in COUNTED_AT:
        world.at(int(share * plan.seconds * SECOND_NS), census.check)
    return census.taken()


def _is_calm(system: System) -> bool:
    """Whether everything runs, and no operation is under way."""
    is_busy = system.programs.are_busy or any(each.is_busy for each in system.clients.values())
    return not is_busy and all(each.process.is_running for each in system.members().values())


def _check_logs(system: System, logs: ProductLogs) -> None:
    """Compare what the product logged with what happened to it: no exception, and rebuilds and damage only where something was damaged."""
    for line in logs.exceptions:
        system.world.violate("log", line)
    if not {*DAMAGES, LOST_STRETCH}.intersection(system.happened):
        for line in logs.rebuilds:
            system.world.violate("log", line)
        if logs.damage:
            system.world.violate("log", "damage is reported, where nothing was damaged")
    losses = system.ledger.losses
    unreported = [each for each in system.damaged.values() if not losses.is_deleted(each.store, each.topic)]
    if unreported and not logs.damage:
        system.world.violate("log", f"the damage of {unreported[0]} is not reported")


def _is_whole(system: System, name: str) -> bool:
    """Read everything with a new reader and compare it. False when that does not succeed in time: a violation."""
    reader = Reader(system, name)
    if not reader.has_read_all():
        return False
    system.ledger.check(reader.found, reader.delivered)
    if not system.world.run_until(lambda: not system.programs.missing(), within=GROUPS_SECONDS):
        system.world.violate("system", "; ".join(system.programs.missing()[:SHOWN]))
        return False
    return True


def _let_one_leave(system: System) -> None:
    """Stop a member of the orderly group: the others take over, and nothing is delivered again."""
    leaving = system.programs.take_member()
    if leaving is None:
        return
    system.world.run_for(
        CALM_SECONDS
    )  # a member that has just got a queue repeats what the last one could not commit
    order = system.ledger.groups.in_order(ORDERLY)
    repeats = order.repeats
    system.world.run_until(leaving.process.stop_once, within=STOP_SECONDS)

    def has_left() -> bool:
        return not leaving.process.is_running and not system.programs.missing()

    if not system.world.run_until(has_left, within=GROUPS_SECONDS):
        system.world.violate("system", "; ".join(system.programs.missing()[:SHOWN]))
    system.world.run_for(CALM_SECONDS)  # the others have its queues, and pull from where they begin
    if order.repeats > repeats:
        system.world.violate(ORDERLY, "a member that leaves in order has messages delivered again")


def _stop_all(system: System) -> None:
    """Stop everything. What does not end is a violation."""
    running = [member.process for member in system.members().values()]

    def have_ended() -> bool:
        for process in running:
            if process.is_running:  # also one that a fault starts again only now
                process.stop_once()
        return not any(process.is_running for process in running)

    if not system.world.run_until(have_ended, within=STOP_SECONDS):
        names = [process.name for process in running if process.is_running]
        system.world.violate("system", f"does not stop: {', '.join(names)}")
