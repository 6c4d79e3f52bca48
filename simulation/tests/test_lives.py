"""Drawn lives of stores and clients: no promise is broken, a seed repeats its life, planted faults are found and shrunk."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from repeats import digest_elsewhere

from gantry_simulation.__main__ import main
from gantry_simulation.lives.drawing.draw_plan import draw_plan
from gantry_simulation.lives.faults.damage import ROOT, TARGETS
from gantry_simulation.lives.faults.table import perform
from gantry_simulation.lives.life import live
from gantry_simulation.lives.many import Lives, run_many
from gantry_simulation.lives.plan import CLIENT, STORE, Act, Plan, Shape, StoreShape, load, save
from gantry_simulation.lives.planted.fault import Planted, Together
from gantry_simulation.lives.planted.finding import faults, find, planted
from gantry_simulation.lives.planted.items import PLANTED_ITEMS
from gantry_simulation.lives.planted.store import PLANTED
from gantry_simulation.lives.shrinking import Shrinker, kind_of
from gantry_simulation.lives.system import System
from gantry_simulation.processes.threads import Pace
from gantry_simulation.world.world import MS_NS, SECOND_NS, World

LIVES, PROCESSES = 300, 2
PROGRAM_LIVES = 8
SOAK_LIVES = 2_000
SHRUNK_ACTS_MAX = 20
ALL_PLANTED = (*PLANTED, *PLANTED_ITEMS)
LIVES_TO_FIND = 80
EASY = {
    "a flush returns without its sync": 1,
    "names of new segments are not synced": 1,
    "a deleted topic's offsets begin at 0": 26,
    "queue units of a batch are exchanged": 2,
    "keys are not remembered": 6,
    "saved keys are not loaded": 1,
    "a checkpoint saves no queue": 5,
    "recovery skips all behind a damaged record": 7,
    "a tag filter lets everything pass": 1,
    "a delayed message is delivered early": 1,
    "a cancelled message is delivered": 11,
    "an item is decided again": 11,
    "a checker asks no producer": 11,
    "a checker asks at once": 11,
    "records of offsets are not replayed": 29,
    "saved offsets are not loaded": 47,
    "commits are answered before they are durable": 1,
}
"""Faults that few lives find, and the seed of such a life: it is tried first."""


def violations(count: int, first_seed: int) -> dict[int, str]:
    """Run lives and return the first violation of each seed that has one."""
    total = Lives()
    for lives in run_many(first_seed, count, PROCESSES):
        total.add(lives)
    assert len(total.seeds) == count
    assert total.acknowledged > 20 * count
    return total.failing


def test_drawn_lives_keep_every_promise() -> None:
    assert violations(LIVES, first_seed=1) == {}


def test_lives_with_programs_that_use_the_sdk_keep_every_promise() -> None:
    plans = [plan for plan in map(draw_plan, range(1_000, 1_500)) if plan.shape.has_programs][:PROGRAM_LIVES]
    assert [(plan.seed, live(plan).violations) for plan in plans] == [(plan.seed, []) for plan in plans]
    shapes = [plan.shape for plan in plans]
    assert all(
        any(counts) for counts in zip(*((s.payers, s.concurrent, s.orderly) for s in shapes), strict=True)
    )


@pytest.mark.soak
def test_drawn_lives_of_new_seeds_keep_every_promise() -> None:
    assert violations(SOAK_LIVES, first_seed=random.randrange(1_000_000, 1_000_000_000)) == {}


STALL_NS = Pace().stall_ns[1]


def stall(system: System, begins_ms: int) -> None:
    """Let what the store's threads begin in 5 ms stall for as long as any call may."""
    pace = system.stores["store-0"].process.pace
    usual = pace.call_ns

    def set_pace(call_ns: tuple[int, int]) -> None:
        pace.call_ns = call_ns

    system.world.at(begins_ms * MS_NS, partial(set_pace, (STALL_NS, STALL_NS)))
    system.world.at((begins_ms + 5) * MS_NS, partial(set_pace, usual))


@pytest.mark.parametrize("kind", ["send", "decide"])
def test_before_the_first_fault_an_answer_may_wait_for_a_stalled_thread(kind: str, tmp_path: Path) -> None:
    shape = Shape(stores=(StoreShape(flush="sync"),), clients=1, topics=1, queues=1)
    half, asked = (
        Act(at_ms=at_ms, kind=kind, on="store-0", by="client-0", number=1, size=16)
        for at_ms, kind in ((3_000, "open transaction"), (5_000, kind))
    )
    with World(1) as world:
        system = System(world, shape, tmp_path)
        for act in (half, asked):
            world.at(act.at_ms * MS_NS, partial(perform, system, act))
        stall(system, asked.at_ms)
        system.start()
        world.run_for((asked.at_ms * MS_NS + STALL_NS) / SECOND_NS)
        assert system.clients["client-0"].is_busy
        world.run_for(2.0)
        assert not system.clients["client-0"].is_busy
        assert world.violations == []


def test_a_power_cut_does_not_make_a_damaged_record_the_end_of_the_log(tmp_path: Path) -> None:
    shape = Shape(stores=(StoreShape(flush="async", checkpoint_seconds=5.0),), clients=1, topics=1, queues=1)
    flip = next(
        act
        for number in range(100)
        if random.Random(number).choice(TARGETS) is TARGETS[0]
        for act in [Act(at_ms=4_000, kind="bit flip", on="store-0", number=number, span_ms=1_000)]
    )
    send = Act(at_ms=3_000, kind="send", on="store-0", by="client-0", number=1, size=16)
    with World(1) as world:
        system = System(world, shape, tmp_path)
        for act in (send, flip):
            world.at(act.at_ms * MS_NS, partial(perform, system, act))
        system.start()
        world.run_for(4.5)
        assert system.damaged
        files = system.stores["store-0"].files
        confirmed = {files.crash_state(8, seed).content(f"{ROOT}/checkpoint") for seed in range(8)}
        assert confirmed == {files.content(f"{ROOT}/checkpoint")}


def digest(seed: int) -> str:
    return live(draw_plan(seed)).digest


def test_a_seed_repeats_its_life_also_in_another_process() -> None:
    here = digest(7)
    assert here != digest(8)
    assert digest_elsewhere("test_lives", 7) == here
    assert digest(7) == here


def is_small(plan: Plan) -> bool:
    """Whether it has stores and clients alone: such lives cost least."""
    counts = plan.shape.counts()
    return sum(counts.values()) == counts[STORE] + counts[CLIENT]


def first_failing(planted: Planted | Together, wanted: Callable[[Plan], bool] = lambda _: True) -> Plan:
    """Return the first wanted plan that finds a fault."""
    with planted.planted():
        seeds = dict.fromkeys((EASY.get(planted.name, 1), *range(1, LIVES_TO_FIND + 1)))
        plans = filter(wanted, map(draw_plan, seeds))
        found = next((plan for plan in plans if live(plan).violations), None)
    assert found is not None, "not found"
    return found


@pytest.mark.parametrize("fault", faults())
def test_every_fault_can_be_planted(fault: str) -> None:
    """A renamed method would end the table of all faults at its line."""
    with planted(fault):
        pass


@pytest.mark.parametrize(
    "planted", [each for each in ALL_PLANTED if each.name in EASY], ids=lambda each: each.name
)
def test_a_planted_fault_is_found(planted: Planted | Together) -> None:
    assert live(first_failing(planted)).violations == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", faults())
def test_every_planted_fault_is_found_within_2000_lives(fault: str) -> None:
    assert find(fault, 1, SOAK_LIVES).seed is not None


def test_a_failing_life_is_shrunk_to_a_few_acts_that_fail_in_the_same_way(tmp_path: Path) -> None:
    plan = first_failing(PLANTED[0], is_small)
    with PLANTED[0].planted():
        outcome = live(plan)
        shrinker = Shrinker(plan, outcome)
        shrinker.shrink()
        save(shrinker.plan, tmp_path / "plan.json")
        again = live(load(tmp_path / "plan.json"))
    assert len(shrinker.plan.acts) <= SHRUNK_ACTS_MAX < len(plan.acts)
    assert again.digest == shrinker.outcome.digest
    assert kind_of(again.violations[0]) == kind_of(outcome.violations[0])
    assert any("VIOLATION" in line for line in again.history)


def test_the_command_replays_a_life_and_saves_its_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    assert main(["--seed", "9", "--save", str(path)]) == 0
    first = capsys.readouterr().out
    assert "is stored at" in first
    assert "no violation" in first
    assert main(["--plan", str(path)]) == 0
    assert capsys.readouterr().out == first


def test_the_command_counts_lives_and_prints_what_happened_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--lives", "4", "--seed", "20", "--processes", "1"]) == 0
    shown = capsys.readouterr().out
    assert "4 lives, 0 with violations" in shown
    assert "lives by feature and fault" in shown


def test_the_command_names_the_seed_of_a_failing_life(capsys: pytest.CaptureFixture[str]) -> None:
    seed = first_failing(PLANTED[0]).seed
    with PLANTED[0].planted():
        assert main(["--lives", "1", "--seed", str(seed), "--processes", "1"]) == 1
    assert f"replay: ./gantry simulate --seed {seed} --shrink" in capsys.readouterr().out


def test_the_command_names_the_life_that_finds_a_planted_fault(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--planted", "a flush returns without its sync", "--lives", "20", "--processes", "1"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "a flush returns without its sync" in shown
    assert "1 of 1 planted faults found within 20 lives each" in shown
    assert main(["--planted", "no such fault"]) == 2
    seed = first_failing(PLANTED[0], is_small).seed
    assert main(["--planted", PLANTED[0].name, "--seed", str(seed), "--shrink"]) == 1
    assert "shrunk to" in capsys.readouterr().out


def test_the_command_refuses_an_unreadable_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    assert main(["--plan", str(path)]) == 2
    path.write_text('{"seed": "x"}')
    assert main(["--plan", str(path)]) == 2
    assert "Expected `int`" in capsys.readouterr().err
