"""`burst`: a steady load, ten times of it for a sixth of the time, and the steady load again, under held pulls."""

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.load.shapes import BURST_FROM, BURST_TO
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import deliveries, ms, rate, recovered_after
from gantry_loadtest.profiles.base import Profile


class Chosen(Profile):
    """Sends, and pulls."""

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return the latency before, during and after, and when it recovered."""
        begin, end = BURST_FROM * plan.load_seconds, BURST_TO * plan.load_seconds
        before = findings.between("send", 0, begin)
        during = findings.between("send", begin, end)
        if not during.count or not before.count:
            return [f"{rate(findings)}.", "The run was too short to see a burst."]
        usual = before.percentile(0.99)
        back = recovered_after(findings, "send", end, plan.load_seconds, usual)
        over = (
            f"was usual again {back:.0f} s after its end"
            if back is not None
            else "was not usual again before the load ended"
        )
        return [
            f"{rate(findings)}.",
            (
                f"Before it {findings.rate('acknowledged', 0, begin):.0f} sends a second, p99 {ms(usual)}; "
                f"in it {findings.rate('acknowledged', begin, end):.0f} a second, p99 {ms(during.percentile(0.99))}."
            ),
            f"The latency {over}.",
            deliveries(findings),
        ]
