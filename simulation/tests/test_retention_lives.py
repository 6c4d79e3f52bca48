"""Lives in which retention deletes segments: faults planted in it are found, and the ledger of bounds finds what goes back."""

from __future__ import annotations

from functools import cache

import pytest

from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.lives.drawing.draw_plan import draw_plan
from gantry_simulation.lives.life import live
from gantry_simulation.lives.plan import Plan
from gantry_simulation.lives.planted.fault import Planted
from gantry_simulation.lives.planted.retention import PLANTED_RETENTION
from gantry_simulation.world.world import World

LIVES_TO_FIND = 300
QUEUE = ("s", "t", 0)


@cache
def plans() -> list[Plan]:
    """Return the lives that delete segments. Not when the module is imported: every worker imports all modules."""
    return [plan for plan in map(draw_plan, range(1, LIVES_TO_FIND + 1)) if plan.shape.deletes_old]


def test_lives_delete_segments_and_keep_every_promise() -> None:
    outcomes = [live(plan) for plan in plans()[:6]]
    assert [outcome.violations for outcome in outcomes] == [[]] * 6
    assert any("deletes /store/commitlog" in line for outcome in outcomes for line in outcome.history)


@pytest.mark.parametrize("planted", PLANTED_RETENTION, ids=lambda each: each.name)
def test_a_fault_of_retention_is_found(planted: Planted) -> None:
    with planted.planted():
        assert any(live(plan).violations for plan in plans())


@pytest.mark.parametrize("bounds", [(1, 9), (3, 6), (8, 7)])
def test_bounds_that_go_back_or_cross_are_found(world: World, bounds: tuple[int, int]) -> None:
    ledger = Ledger(world).bounds
    ledger.read(QUEUE, ledger.known(QUEUE), 2, 7)
    ledger.read(QUEUE, ledger.known(QUEUE), *bounds)
    assert len(world.violations) == 1


def test_bounds_may_go_back_after_a_loss_and_while_a_topic_is_deleted(world: World) -> None:
    ledger = Ledger(world)
    ledger.bounds.read(QUEUE, ledger.bounds.known(QUEUE), 2, 7)
    ledger.lost_undurable("s")
    ledger.bounds.read(QUEUE, ledger.bounds.known(QUEUE), 1, 6)
    ledger.deleted("s", "t")
    ledger.bounds.read(QUEUE, ledger.bounds.known(QUEUE), 0, 0)
    assert world.violations == []
