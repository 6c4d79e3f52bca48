"""`topics`: every send goes to another topic, and a pull is held at each topic."""

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.load.ports import Calls
from gantry_loadtest.load.run_state import RunState, Sender
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import deliveries, rate, sends
from gantry_loadtest.profiles.base import Profile, demand


class Chosen(Profile):
    """Sends to many topics in turn."""

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        self.topics = [state.name(f"t{number}") for number in range(state.plan.count)]

    def prepare(self, calls: Calls) -> None:
        """Create all topics, with a queue at each broker."""
        topics = [{"topic": topic, "readQueues": 1, "writeQueues": 1, "perm": "rw"} for topic in self.topics]
        demand(calls.call("prepare", "PUT", "/v1/definitions", {"topics": topics}), "make the topics")
        self.queues = [place for topic in self.topics for place in self.queues_of(calls, topic)]

    def act(self, calls: Calls, sender: Sender, intended: float) -> None:
        """Send to the next topic."""
        number = sender.take()
        topic = self.topics[(sender.stream * 7 + number) % len(self.topics)]
        self.state.history.begin(sender.stream, number, intended)
        answer = self.send(calls, topic, {"body": self.state.body(sender.stream, number)}, intended)
        self.state.record_result(sender, number, intended, answer)

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return latencies."""
        return [f"{rate(findings)}, over {plan.count} topics.", deliveries(findings), sends(findings)]
