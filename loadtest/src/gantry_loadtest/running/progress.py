"""Reports progress on stderr every few seconds."""

import sys

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.judging.verdict import Totals
from gantry_loadtest.options import Plan

EVERY_SECONDS = 2.0


class Progress:
    """Remembers the time of the last report."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._told = 0.0
        self._has_ended = False

    def tell(self, now: float, users: int, findings: Findings, totals: Totals) -> None:
        """Write a line if it is time for one."""
        if now < self._told + EVERY_SECONDS:
            return
        self._told = now
        if now >= self._plan.load_seconds and not self._has_ended:
            self._has_ended = True
            say("the senders are done; what is on its way may still arrive")
        latencies = findings.of(self._plan.entry.measure)
        p99 = f"p99 {latencies.percentile(0.99):.1f} ms" if latencies.count else "not seen yet"
        say(
            f"{now:4.0f} of {self._plan.seconds:.0f} s, {users} users, {totals.per_second:.0f} requests/s, "
            f"{findings.counts['acknowledged']} acknowledged, {self._plan.entry.measure} {p99}, "
            f"{totals.failures} failures"
        )


def say(words: str) -> None:
    """Write one line of progress."""
    sys.stderr.write(f"gantry: load: {words}\n")
    sys.stderr.flush()
