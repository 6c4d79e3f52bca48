"""`soak`: waves of keyed sends, every tenth one delayed; a reader holds pulls, a group receives. Its end is compared with its beginning."""

import random
from collections.abc import Callable
from typing import Any

from gantry_loadtest.findings import Findings
from gantry_loadtest.history import Sent
from gantry_loadtest.options import Plan
from gantry_loadtest.ports import Calls
from gantry_loadtest.profiles.base import READER, Profile, demand
from gantry_loadtest.profiles.consuming import Group, Message
from gantry_loadtest.reading import receive_group
from gantry_loadtest.wording import deliveries, latency, ms, rate
from gantry_loadtest.world import Sender, World, wall_ms

GROUP = "group"
CONSUMERS = 2
DELAYED_EVERY = 10


class Chosen(Profile):
    """Does a little of everything, for long."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.group = Group(world, self.topic, world.name("g"), GROUP)
        self.groups = [self.group.group]

    @staticmethod
    def readers(plan: Plan) -> list[str]:
        """Return the reader that pulls, and the group."""
        return [READER, GROUP]

    def prepare(self, calls: Calls) -> None:
        """Make the topic and the group."""
        super().prepare(calls)
        demand(calls.call("prepare", "PUT", f"/v1/groups/{self.group.group}", {}), "make a group")

    def act(self, calls: Calls, sender: Sender, intended: float) -> None:
        """Send one message, now and then a delayed one."""
        number = sender.take()
        sent = self.world.history.begin(sender.stream, number, intended)
        message: dict[str, Any] = {
            "body": self.world.body(sender.stream, number),
            "shardingKey": f"user-{sender.stream}",
        }
        if _is_delayed(number):
            sent.due = message["deliverAt"] = int(wall_ms() + random.uniform(1000, 5000))  # noqa: S311 - no secret
        self.world.told(sender, number, intended, self.send(calls, self.topic, message, intended))

    def watchers(self) -> list[Callable[[Calls], None]]:
        """Return the readers and the group's consumers."""
        return [*super().watchers(), *[self._consume] * CONSUMERS]

    def take_in(self, message: dict[str, Any]) -> None:
        """Judge it; order holds among those that are not delayed."""
        mark = self.world.mark(message.get("body") or "")
        self.world.arrived(READER, message, is_ordered=mark is not None and not _is_delayed(mark.number))

    def passed(self, calls: Calls) -> Callable[[str, Sent], bool]:
        """Go by how far each reader came; of a delayed message nobody knows the place."""
        offsets = self.group.offsets(calls)

        def has_passed(reader: str, sent: Sent) -> bool:
            if sent.place is None or sent.due:
                return False
            if reader == READER:
                return self.world.has_passed(reader, sent.place, sent.offset)
            return 0 <= sent.offset < offsets.get((sent.place[1], sent.place[2]), 0)

        return has_passed

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return figures of the first quarter beside those of the last."""
        quarter = plan.load_seconds / 4
        lines = [
            f"{rate(findings)}.",
            deliveries(findings),
            f"Delayed messages were late by {latency(findings.of('lateness'))}.",
        ]
        for measure in ("send", "delivery", "lateness"):
            first = findings.between(measure, 0, quarter)
            last = findings.between(measure, 3 * quarter, plan.load_seconds)
            if first.count and last.count:
                lines.append(
                    f"{measure}: p99 {ms(first.percentile(0.99))} in the first quarter, {ms(last.percentile(0.99))} in the last."
                )
        return lines

    def _consume(self, calls: Calls) -> None:
        def work(calls: Calls, messages: list[Message]) -> None:
            self.group.judge(messages)
            self.group.settle(calls, messages)

        receive_group(self.world, calls, self.topic, self.group.group, work)


def _is_delayed(number: int) -> bool:
    return number % DELAYED_EVERY == DELAYED_EVERY - 1
