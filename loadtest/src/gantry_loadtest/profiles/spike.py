"""`spike`: a steady load with three short spikes of five times as much, under held pulls."""

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.load.shapes import SPIKE_LENGTH, SPIKES
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import deliveries, ms, rate, recovered_after
from gantry_loadtest.profiles.base import Profile


class Chosen(Profile):
    """Sends, and pulls."""

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return each spike: how long a send took, and when it recovered."""
        usual = findings.between("send", 0, SPIKES[0] * plan.load_seconds).percentile(0.99)
        lines = [f"{rate(findings)}.", f"Before the first spike p99 was {ms(usual)}."]
        nexts = [*SPIKES[1:], 1.0]
        for number, (at, until) in enumerate(zip(SPIKES, nexts, strict=True), 1):
            begin, end = at * plan.load_seconds, (at + SPIKE_LENGTH) * plan.load_seconds
            during = findings.between("send", begin, end)
            if not during.count:
                lines.append(f"Spike {number}: the run was too short to see it.")
                continue
            back = recovered_after(findings, "send", end, until * plan.load_seconds, usual)
            over = (
                f"usual again {back:.0f} s after it"
                if back is not None
                else "not usual again before the next"
            )
            lines.append(f"Spike {number}: p99 {ms(during.percentile(0.99))}, {over}.")
        return [*lines, deliveries(findings)]
