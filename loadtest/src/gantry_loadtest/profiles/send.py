"""`send`: single sends at a steady rate without readers; everything is read back afterwards."""

import time
from collections.abc import Callable
from typing import Any

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.load.ports import Calls
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import rate, sends
from gantry_loadtest.profiles.base import READER, Profile


class Chosen(Profile):
    """Sends, then reads back."""

    def watchers(self) -> list[Callable[[Calls], None]]:
        """Return readers that begin when the senders are done."""
        return [self._after_the_load(watch) for watch in super().watchers()]

    def take_in(self, message: dict[str, Any]) -> None:
        """Judge a message read back, without a latency."""
        self.state.arrived(READER, message, is_timed=False)

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return rate and latency."""
        return [
            f"{rate(findings)}.",
            sends(findings),
            f"Read back afterwards: {findings.counts['delivered']} of {findings.counts['acknowledged']} acknowledged.",
        ]

    def _after_the_load(self, watch: Callable[[Calls], None]) -> Callable[[Calls], None]:
        def late(calls: Calls) -> None:
            while self.state.is_loading:
                time.sleep(0.2)
            watch(calls)

        return late
