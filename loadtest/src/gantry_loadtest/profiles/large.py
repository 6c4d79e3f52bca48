"""`large`: bodies from 64 KiB to 4 MB (or all of --size), sent as raw bodies; each must come out as it went in."""

from typing import Any

from gantry_loadtest.findings import Findings
from gantry_loadtest.options import Plan
from gantry_loadtest.ports import Calls
from gantry_loadtest.profiles.base import Profile
from gantry_loadtest.wording import deliveries, rate, sends
from gantry_loadtest.world import Sender

SIZES = (65_536, 65_536, 262_144, 65_536, 1_048_576, 65_536, 262_144, 4_000_000)


class Chosen(Profile):
    """Sends large bodies; the readers compare each with what was sent."""

    def act(self, calls: Calls, sender: Sender, intended: float) -> None:
        """Send one large message."""
        number = sender.take()
        self.world.history.begin(sender.stream, number, intended)
        body = self._body(sender, number).encode()
        path = f"/v1/topics/{self.topic}/messages"
        answer = calls.call(
            "send", "POST", path, data=body, headers={"Content-Type": "text/plain"}, since=intended
        )
        for result in answer.body.get("results") or []:
            result["topic"] = self.topic
        if self.world.told(sender, number, intended, answer):
            self.world.findings.count("bytes", intended, len(body))

    def take_in(self, message: dict[str, Any]) -> None:
        """Judge it as any other, and its bytes."""
        super().take_in(message)
        body = message.get("body") or ""
        mark = self.world.mark(body)
        if mark is None:
            self.world.fault(
                "damaged",
                f"{message.get('queueId')}:{message.get('queueOffset')} does not begin as it was sent",
            )
        elif body != self._body(Sender(mark.stream), mark.number):
            self.world.fault(
                "damaged", f"{mark.stream}/{mark.number} has {len(body)} bytes, not as it was sent"
            )

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return megabytes a second, and latencies."""
        return [
            f"{rate(findings)}: {findings.per_second('bytes') / 1e6:.2f} MB a second.",
            sends(findings),
            deliveries(findings),
            f"Bodies that came out otherwise than they went in: {findings.counts['damaged']}.",
        ]

    def _body(self, sender: Sender, number: int) -> str:
        plan = self.world.plan
        is_told = plan.size != plan.entry.size
        return self.world.body(sender, number, plan.size if is_told else SIZES[number % len(SIZES)])
