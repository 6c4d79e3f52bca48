"""Lives of broker groups: three replicas or five, their register, and what strikes them."""

from __future__ import annotations

from gantry_simulation.lives.drawing.draw_plan import draw_plan
from gantry_simulation.lives.life import live

LIVES = 12


def test_drawn_lives_of_groups_keep_every_promise() -> None:
    plans = [plan for plan in map(draw_plan, range(4, 4 * LIVES + 1, 4)) if plan.shape.replicas]
    assert len(plans) == LIVES
    lives = {plan.seed: live(plan) for plan in plans}
    assert {seed: life.violations for seed, life in lives.items() if life.violations} == {}
    assert sum(" leads epoch " in line for life in lives.values() for line in life.history) > 2 * LIVES
