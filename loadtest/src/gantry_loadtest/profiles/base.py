"""What every profile has: a topic, users that send to it, readers that pull it, a final check, and a clean-up."""

from collections.abc import Callable
from typing import Any

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.judging.history import Place, Sent
from gantry_loadtest.load.ports import Answer, Calls
from gantry_loadtest.load.reading import pull_queue
from gantry_loadtest.load.run_state import RunState, Sender, wall_ms
from gantry_loadtest.options import Plan, Refused

READER = "pull"
QUEUES = 4


class Profile:
    """One process's part of a run. Subclasses define what differs."""

    act_measure = "send"
    """The latency that one act of a user is."""
    is_ordered = False
    """Whether each user's messages go into one queue, and must come out in order."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.topic = state.name("t")
        self.topics: list[str] = [self.topic]
        self.groups: list[str] = []
        self.queues: list[Place] = []

    @staticmethod
    def readers(plan: Plan) -> list[str]:
        """Return the readers that must get every message."""
        return [READER]

    @staticmethod
    def size_of(plan: Plan, number: int) -> int:
        """Return the body size of a user's n-th message."""
        del number
        return plan.size

    def prepare(self, calls: Calls) -> None:
        """Create topics and groups. Raises Refused."""
        self.make_topic(calls, self.topic, QUEUES)
        self.queues = self.queues_of(calls, self.topic)

    def act(self, calls: Calls, sender: Sender, intended: float) -> None:
        """Perform one act of a user."""
        number = sender.take()
        self.state.history.begin(sender.stream, number, intended)
        fields = {"shardingKey": f"user-{sender.stream}"} if self.is_ordered else {}
        message = {"body": self.state.body(sender.stream, number), **fields}
        answer = self.send(calls, self.topic, message, intended)
        self.state.record_result(sender, number, intended, answer)

    def watchers(self) -> list[Callable[[Calls], None]]:
        """Return what runs beside the users until it is killed, each with its own client."""
        return [self._puller(place) for place in self.queues]

    def is_settled(self) -> bool:
        """Whether the load is over and nothing is awaited."""
        return self.state.is_settled

    def take_in(self, message: dict[str, Any]) -> None:
        """Judge a pulled message."""
        self.state.arrived(READER, message, is_ordered=self.is_ordered)

    def last_look(self, calls: Calls, *, has_waited: bool) -> None:
        """Judge, at the end, the messages that have not arrived.

        A message is lost if readers waited for it as long as the plan says (`has_waited`) or one read beyond its
        place. In a run that was cut short, it is not seen.
        """
        passed, now = self.passed(calls), wall_ms()
        lost, not_seen = self.state.history.judge(
            lambda reader, sent: (has_waited and sent.due <= now) or passed(reader, sent)
        )
        for reader, (stream, number), sent in lost:
            self.state.fault(
                "lost", f"{stream}/{number}, acknowledged as {sent.place}:{sent.offset}, for {reader}"
            )
        self.state.findings.count("notSeen", number=not_seen)

    def passed(self, calls: Calls) -> Callable[[str, Sent], bool]:
        """Return a function that tells whether a reader went beyond a message's place."""
        del calls
        return lambda reader, sent: self.state.has_passed(reader, sent.place, sent.offset)

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return the answer to the profile's question, one line each."""
        raise AssertionError(f"{plan.entry.name} has no answer; {len(findings.counts)} counts")

    def clean_up(self, calls: Calls) -> None:
        """Delete what was created."""
        for group in self.groups:
            calls.call("tidy", "DELETE", f"/v1/groups/{group}", also=(404,))
        for topic in self.topics:
            calls.call("tidy", "DELETE", f"/v1/topics/{topic}", also=(404,))

    def send(self, calls: Calls, topic: str, message: dict[str, Any], intended: float) -> Answer:
        """Send one message."""
        answer = calls.call(
            "send", "POST", f"/v1/topics/{topic}/messages", {"messages": [message]}, since=intended
        )
        for result in answer.body.get("results") or []:
            result["topic"] = topic
        return answer

    def make_topic(self, calls: Calls, topic: str, queues: int) -> None:
        """Create a topic. Raises Refused."""
        fields = {"readQueues": queues, "writeQueues": queues, "perm": "rw"}
        demand(calls.call("prepare", "PUT", f"/v1/topics/{topic}", fields), f"make the topic {topic}")

    def queues_of(self, calls: Calls, topic: str) -> list[Place]:
        """Return the queues of a topic."""
        answer = demand(calls.call("prepare", "GET", f"/v1/topics/{topic}"), f"see the topic {topic}")
        return [Place((topic, str(one["broker"]), int(one["queueId"]))) for one in answer["queues"]]

    def _puller(self, place: Place) -> Callable[[Calls], None]:
        return lambda calls: pull_queue(self.state, calls, READER, place, self.take_in)


def demand(answer: Answer, what: str) -> dict[str, Any]:
    """Return the body of a required answer. Raises Refused."""
    if not answer.is_done:
        words = answer.body.get("detail") or f"status {answer.status}"
        hint = "; set GANTRY_TOKEN" if answer.status == 401 else ""
        raise Refused(f"cannot {what}: {words}{hint}")
    return answer.body
