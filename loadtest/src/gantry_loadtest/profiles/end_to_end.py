"""`end-to-end`: keyed sends, and a held pull at every queue; each user's messages must arrive in order."""

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import deliveries, rate, sends
from gantry_loadtest.profiles.base import Profile


class Chosen(Profile):
    """Sends with a sharding key, and pulls."""

    is_ordered = True

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return both latencies."""
        return [f"{rate(findings)}.", deliveries(findings), sends(findings)]
