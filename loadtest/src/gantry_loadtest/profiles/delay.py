"""`delay`: every message has its own delivery instant, 1 to 15 s ahead; held pulls see when it arrives."""

import random

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.load.ports import Calls
from gantry_loadtest.load.run_state import Sender, wall_ms
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import latency, rate
from gantry_loadtest.profiles.base import Profile

SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 15.0


class Chosen(Profile):
    """Sends with a delivery time."""

    def act(self, calls: Calls, sender: Sender, intended: float) -> None:
        """Send one delayed message."""
        number = sender.take()
        longest = min(LONGEST_SECONDS, max(SHORTEST_SECONDS, self.state.plan.load_seconds / 3))
        due = int(wall_ms() + 1000 * random.uniform(SHORTEST_SECONDS, longest))  # noqa: S311 - no secret
        self.state.history.begin(sender.stream, number, intended).due = due
        answer = self.send(
            calls, self.topic, {"body": self.state.body(sender.stream, number), "deliverAt": due}, intended
        )
        self.state.record_result(sender, number, intended, answer)

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return lateness."""
        return [
            f"{rate(findings)}.",
            f"Late: {latency(findings.of('lateness'))}, from the promised instant to the arrival at a held pull.",
            f"Early: {findings.counts['early']} of {findings.of('lateness').count}, by the broker's own clock.",
        ]
