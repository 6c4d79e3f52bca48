"""`receive`: one group with good, slow and failing consumers.

Good ones acknowledge, slow ones acknowledge after their lease ends, failing ones return each message once.
"""

import time
from collections.abc import Callable

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.judging.history import Sent
from gantry_loadtest.load.ports import Calls
from gantry_loadtest.load.reading import receive_group
from gantry_loadtest.load.run_state import RunState
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import deliveries, rate
from gantry_loadtest.profiles.base import Profile, demand
from gantry_loadtest.profiles.consuming import Group, Message

GOOD, SLOW, FAILING = 4, 6, 2
SLOW_LEASE_SECONDS = 2
SLOW_WORK_SECONDS = 3.0
SLOW_MESSAGES_MAX = 4


class Chosen(Profile):
    """Sends; a mixed group receives."""

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        self.group = Group(state, self.topic, state.name("g"), "group")
        self.groups = [self.group.group]

    @staticmethod
    def readers(plan: Plan) -> list[str]:
        """Return the group."""
        return ["group"]

    def prepare(self, calls: Calls) -> None:
        """Create the topic and the group."""
        super().prepare(calls)
        demand(calls.call("prepare", "PUT", f"/v1/groups/{self.group.group}", {}), "make a group")

    def watchers(self) -> list[Callable[[Calls], None]]:
        """Return the consumers."""
        return [*[self._good] * GOOD, *[self._slow] * SLOW, *[self._failing] * FAILING]

    def passed(self, calls: Calls) -> Callable[[str, Sent], bool]:
        """Use the group's offsets."""
        offsets = self.group.offsets(calls)

        def has_passed(_reader: str, sent: Sent) -> bool:
            return sent.place is not None and 0 <= sent.offset < offsets.get(
                (sent.place[1], sent.place[2]), 0
            )

        return has_passed

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return the latency, and the effect of slow and failing consumers."""
        counts = findings.counts
        return [
            f"{rate(findings)}; {counts['delivered']} received at least once.",
            f"{deliveries(findings)} Only first deliveries count here.",
            (
                f"Given back {counts['nacked']}; work that outlasted its lease {counts['outlasted']}; "
                f"given again {counts['redelivered']} times; acknowledged {counts['acked']}."
            ),
            f"Given again after an acknowledgement: {counts['duplicates']}.",
        ]

    def _good(self, calls: Calls) -> None:
        def work(calls: Calls, messages: list[Message]) -> None:
            self.group.judge(messages)
            self.group.settle(calls, messages)

        receive_group(self.state, calls, self.topic, self.group.group, work)

    def _slow(self, calls: Calls) -> None:
        def work(calls: Calls, messages: list[Message]) -> None:
            self.group.judge(messages)
            time.sleep(0 if self.state.is_over else SLOW_WORK_SECONDS)
            self.state.findings.count("outlasted", self.state.now(), len(messages))
            self.group.settle(calls, messages)

        receive_group(
            self.state, calls, self.topic, self.group.group, work,
            lease_seconds=SLOW_LEASE_SECONDS, messages_max=SLOW_MESSAGES_MAX,
        )  # fmt: skip

    def _failing(self, calls: Calls) -> None:
        def work(calls: Calls, messages: list[Message]) -> None:
            self.group.judge(messages)
            again = [one for one in messages if one["deliveryAttempt"] > 1]
            self.group.settle(calls, again, [one for one in messages if one["deliveryAttempt"] == 1])

        receive_group(self.state, calls, self.topic, self.group.group, work)
