"""`large`: raw bodies from 64 KiB to 4 MB (or all of --size); each must arrive unchanged."""

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.load.ports import Calls
from gantry_loadtest.load.run_state import Sender
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import deliveries, rate, sends
from gantry_loadtest.profiles.base import Profile

SIZES = (65_536, 65_536, 262_144, 65_536, 1_048_576, 65_536, 262_144, 4_000_000)


class Chosen(Profile):
    """Sends large bodies."""

    @staticmethod
    def size_of(plan: Plan, number: int) -> int:
        """Return the requested size, else the next of our own."""
        return plan.size if plan.size != plan.entry.size else SIZES[number % len(SIZES)]

    def act(self, calls: Calls, sender: Sender, intended: float) -> None:
        """Send one large message."""
        number = sender.take()
        self.state.history.begin(sender.stream, number, intended)
        body = self.state.body(sender.stream, number).encode()
        path = f"/v1/topics/{self.topic}/messages"
        answer = calls.call(
            "send", "POST", path, data=body, headers={"Content-Type": "text/plain"}, since=intended
        )
        for result in answer.body.get("results") or []:
            result["topic"] = self.topic
        if self.state.record_result(sender, number, intended, answer):
            self.state.findings.count("bytes", intended, len(body))

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return megabytes a second, and latencies."""
        return [
            f"{rate(findings)}: {findings.per_second('bytes') / 1e6:.2f} MB a second.",
            sends(findings),
            deliveries(findings),
            f"Bodies that came out otherwise than they went in: {findings.counts['damaged']}.",
        ]
