"""`ramp`: ten steps up to the full rate, read back afterwards. The knee is the last step that kept its intended rate."""

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.load.shapes import RAMP_STEPS
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import ms
from gantry_loadtest.profiles.send import Chosen as Send

KEPT_UP = 0.95
SLOW_TIMES, SLOW_MS = 5, 100.0


class Chosen(Send):
    """Sends at a rising rate."""

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return every step, and the last that kept its rate."""
        length = plan.load_seconds / RAMP_STEPS
        lines: list[str] = []
        knee, slow, has_bent = 0.0, 0.0, False
        for step in range(RAMP_STEPS):
            begin, end = step * length, (step + 1) * length
            intended, done = findings.rate("intended", begin, end), findings.rate("acknowledged", begin, end)
            if not intended:
                lines.append(f"step {step + 1}: not seen")
                continue
            p99 = findings.between("send", begin, end).percentile(0.99)
            slow = slow or max(SLOW_MS, SLOW_TIMES * p99)
            lines.append(
                f"step {step + 1}: {intended:.0f} a second intended, {done:.0f} acknowledged, p99 {ms(p99)}"
            )
            has_bent = has_bent or done < KEPT_UP * intended or p99 > slow
            knee = knee if has_bent else intended
        if not has_bent:
            return [f"No knee up to {knee:.0f} sends a second: ask for more with --rate.", *lines]
        return [
            f"The knee lies at {knee:.0f} sends a second: the next step was slower than {ms(slow)} (p99), or fell behind.",
            *lines,
        ]
