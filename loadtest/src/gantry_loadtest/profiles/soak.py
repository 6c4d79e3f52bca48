"""`soak`: waves of keyed sends, every tenth one delayed, with held pulls and a group.

Compares its end with its beginning.
"""

import random
from collections.abc import Callable
from typing import Any

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.judging.history import Sent
from gantry_loadtest.load.ports import Calls
from gantry_loadtest.load.reading import receive_group
from gantry_loadtest.load.run_state import RunState, Sender, wall_ms
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import deliveries, latency, ms, rate
from gantry_loadtest.profiles.base import READER, Profile, demand
from gantry_loadtest.profiles.consuming import Group, Message

GROUP = "group"
CONSUMERS = 2
DELAYED_EVERY = 10


class Chosen(Profile):
    """Does a little of everything, for long."""

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        self.group = Group(state, self.topic, state.name("g"), GROUP)
        self.groups = [self.group.group]

    @staticmethod
    def readers(plan: Plan) -> list[str]:
        """Return the reader that pulls, and the group."""
        return [READER, GROUP]

    def prepare(self, calls: Calls) -> None:
        """Create the topic and the group."""
        super().prepare(calls)
        demand(calls.call("prepare", "PUT", f"/v1/groups/{self.group.group}", {}), "make a group")

    def act(self, calls: Calls, sender: Sender, intended: float) -> None:
        """Send one message, sometimes a delayed one."""
        number = sender.take()
        sent = self.state.history.begin(sender.stream, number, intended)
        message: dict[str, Any] = {
            "body": self.state.body(sender.stream, number),
            "shardingKey": f"user-{sender.stream}",
        }
        if _is_delayed(number):
            sent.due = message["deliverAt"] = int(wall_ms() + random.uniform(1000, 5000))  # noqa: S311 - no secret
        self.state.record_result(sender, number, intended, self.send(calls, self.topic, message, intended))

    def watchers(self) -> list[Callable[[Calls], None]]:
        """Return the readers and the group's consumers."""
        return [*super().watchers(), *[self._consume] * CONSUMERS]

    def take_in(self, message: dict[str, Any]) -> None:
        """Judge a message; order applies to those that are not delayed."""
        mark = self.state.mark(message.get("body") or "")
        self.state.arrived(READER, message, is_ordered=mark is not None and not _is_delayed(mark.number))

    def passed(self, calls: Calls) -> Callable[[str, Sent], bool]:
        """Use each reader's position; the place of a delayed message is unknown."""
        offsets = self.group.offsets(calls)

        def has_passed(reader: str, sent: Sent) -> bool:
            if sent.place is None or sent.due:
                return False
            if reader == READER:
                return self.state.has_passed(reader, sent.place, sent.offset)
            return 0 <= sent.offset < offsets.get((sent.place[1], sent.place[2]), 0)

        return has_passed

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return results of the first and last quarter."""
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

        receive_group(self.state, calls, self.topic, self.group.group, work)


def _is_delayed(number: int) -> bool:
    return number % DELAYED_EVERY == DELAYED_EVERY - 1
