"""Makes a failing life small: removes acts as long as a violation of the same kind remains (delta debugging, Zeller 1999)."""

from __future__ import annotations

import re
from collections.abc import Callable

from gantry_simulation.lives.life import Outcome, live
from gantry_simulation.lives.plan import Act, Plan

LIVES_MAX = 400
"""Most lives that one shrinking runs."""

Live = Callable[[Plan], Outcome]


def kind_of(violation: str) -> str:
    """Return a violation without its numbers and names of messages: what must stay the same."""
    return re.sub(r"\b[mekb]?\d+(\.\d+)?\b", "#", violation)


class Shrinker:
    """Shrinks one plan."""

    def __init__(self, plan: Plan, outcome: Outcome, run: Live = live) -> None:
        """`outcome` is that of the plan, with a violation."""
        self.plan, self.outcome = plan, outcome
        self.lives: int = 0
        self._kind = kind_of(outcome.violations[0])
        self._run = run

    def shrink(self) -> None:
        """Remove acts until none can be removed alone, or LIVES_MAX lives are used. `plan` and `outcome` are the smallest failing ones."""
        self._keep(self.plan.with_acts([]))
        parts = 2
        while len(self.plan.acts) > 1 and self.lives < LIVES_MAX:
            if self._remove_one_of(parts):
                parts = max(parts - 1, 2)
            elif parts >= len(self.plan.acts):
                return
            else:
                parts = min(2 * parts, len(self.plan.acts))

    def _remove_one_of(self, parts: int) -> bool:
        acts = list(self.plan.acts)
        size = -(-len(acts) // parts)
        for start in range(0, len(acts), size):
            rest: list[Act] = acts[:start] + acts[start + size :]
            if self._keep(self.plan.with_acts(rest)):
                return True
            if self.lives >= LIVES_MAX:
                return False
        return False

    def _keep(self, plan: Plan) -> bool:
        self.lives += 1
        outcome = self._run(plan)
        if not any(kind_of(violation) == self._kind for violation in outcome.violations):
            return False
        self.plan, self.outcome = plan, outcome
        return True
