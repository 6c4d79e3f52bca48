"""What every profile has: a topic, users that send into it, readers that pull it, a last look, and a tidy end."""

from collections.abc import Callable
from typing import Any

from gantry_loadtest.findings import Findings
from gantry_loadtest.history import Place, Sent
from gantry_loadtest.options import Plan, Refused
from gantry_loadtest.ports import Answer, Calls
from gantry_loadtest.reading import pull_queue
from gantry_loadtest.world import Sender, World, wall_ms

READER = "pull"
QUEUES = 4


class Profile:
    """One process' part of a run. Subclasses say what differs."""

    act_measure = "send"
    """The latency that one act of a user is."""
    is_ordered = False
    """Whether each user's messages go into one queue, and must come out in order."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.topic = world.name("t")
        self.topics: list[str] = [self.topic]
        self.groups: list[str] = []
        self.queues: list[Place] = []

    @staticmethod
    def readers(plan: Plan) -> list[str]:
        """Return who must get every message."""
        return [READER]

    @staticmethod
    def size_of(plan: Plan, number: int) -> int:
        """Return how long the body of a user's n-th message is."""
        del number
        return plan.size

    def prepare(self, calls: Calls) -> None:
        """Make topics and groups. Raises Refused."""
        self.make_topic(calls, self.topic, QUEUES)
        self.queues = self.queues_of(calls, self.topic)

    def act(self, calls: Calls, sender: Sender, intended: float) -> None:
        """Do once what a user does."""
        number = sender.take()
        self.world.history.begin(sender.stream, number, intended)
        fields = {"shardingKey": f"user-{sender.stream}"} if self.is_ordered else {}
        message = {"body": self.world.body(sender.stream, number), **fields}
        answer = self.send(calls, self.topic, message, intended)
        self.world.told(sender, number, intended, answer)

    def watchers(self) -> list[Callable[[Calls], None]]:
        """Return what runs beside the users, each with a client of its own, until it is killed."""
        return [self._puller(place) for place in self.queues]

    def is_settled(self) -> bool:
        """Whether the load is over and there is nothing to wait for."""
        return self.world.is_settled

    def take_in(self, message: dict[str, Any]) -> None:
        """Judge a message that was pulled."""
        self.world.arrived(READER, message, is_ordered=self.is_ordered)

    def last_look(self, calls: Calls, *, has_waited: bool) -> None:
        """Judge, at the end, what has not arrived.

        It is lost where readers went on for it as long as the plan says (`has_waited`), or one went on beyond its
        place; only what a run that was cut short, or ended before its time, could not see is not seen.
        """
        passed, now = self.passed(calls), wall_ms()
        lost, not_seen = self.world.history.judge(
            lambda reader, sent: (has_waited and sent.due <= now) or passed(reader, sent)
        )
        for reader, (stream, number), sent in lost:
            self.world.fault(
                "lost", f"{stream}/{number}, acknowledged as {sent.place}:{sent.offset}, for {reader}"
            )
        self.world.findings.count("notSeen", number=not_seen)

    def passed(self, calls: Calls) -> Callable[[str, Sent], bool]:
        """Return how to know that a reader went on beyond a message's place."""
        del calls
        return lambda reader, sent: self.world.has_passed(reader, sent.place, sent.offset)

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return the answer to the profile's question, a line each."""
        raise AssertionError(f"{plan.entry.name} has no answer; {len(findings.counts)} counts")

    def clean_up(self, calls: Calls) -> None:
        """Remove what was made."""
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
        """Make a topic. Raises Refused."""
        fields = {"readQueues": queues, "writeQueues": queues, "perm": "rw"}
        demand(calls.call("prepare", "PUT", f"/v1/topics/{topic}", fields), f"make the topic {topic}")

    def queues_of(self, calls: Calls, topic: str) -> list[Place]:
        """Return the queues of a topic."""
        told = demand(calls.call("prepare", "GET", f"/v1/topics/{topic}"), f"see the topic {topic}")
        return [Place((topic, str(one["broker"]), int(one["queueId"]))) for one in told["queues"]]

    def _puller(self, place: Place) -> Callable[[Calls], None]:
        return lambda calls: pull_queue(self.world, calls, READER, place, self.take_in)


def demand(answer: Answer, what: str) -> dict[str, Any]:
    """Return the body of an answer that a run cannot do without. Raises Refused."""
    if not answer.is_done:
        words = answer.body.get("detail") or f"status {answer.status}"
        hint = "; set GANTRY_TOKEN" if answer.status == 401 else ""
        raise Refused(f"cannot {what}: {words}{hint}")
    return answer.body
