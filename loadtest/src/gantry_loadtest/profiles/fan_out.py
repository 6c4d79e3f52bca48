"""`fan-out`: many groups; each gets and acknowledges every message."""

from collections.abc import Callable

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.judging.history import Sent
from gantry_loadtest.load.ports import Calls
from gantry_loadtest.load.reading import receive_group
from gantry_loadtest.load.run_state import RunState
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import deliveries, rate, sends
from gantry_loadtest.profiles.base import Profile, demand
from gantry_loadtest.profiles.consuming import Group, Message


class Chosen(Profile):
    """Sends; every group has one consumer."""

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        self._members = {
            reader: Group(state, self.topic, state.name(reader), reader)
            for reader in self.readers(state.plan)
        }
        self.groups = [member.group for member in self._members.values()]

    @staticmethod
    def readers(plan: Plan) -> list[str]:
        """Return a reader for each group."""
        return [f"g{number}" for number in range(plan.count)]

    def prepare(self, calls: Calls) -> None:
        """Create the topic and the groups."""
        super().prepare(calls)
        groups = [{"group": group} for group in self.groups]
        demand(calls.call("prepare", "PUT", "/v1/definitions", {"groups": groups}), "make the groups")

    def watchers(self) -> list[Callable[[Calls], None]]:
        """Return a consumer of each group."""
        return [self._consumer(member) for member in self._members.values()]

    def passed(self, calls: Calls) -> Callable[[str, Sent], bool]:
        """Query a group's offsets once, when needed."""
        offsets: dict[str, dict[tuple[str, int], int]] = {}

        def has_passed(reader: str, sent: Sent) -> bool:
            if reader not in offsets:
                offsets[reader] = self._members[reader].offsets(calls)
            return sent.place is not None and 0 <= sent.offset < offsets[reader].get(
                (sent.place[1], sent.place[2]), 0
            )

        return has_passed

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return deliveries a second and their latency."""
        delivered = findings.counts["delivered"]
        return [
            f"{rate(findings)}.",
            f"{plan.count} groups got {delivered} messages in all, {findings.per_second('delivered'):.0f} a second.",
            deliveries(findings),
            sends(findings),
        ]

    def _consumer(self, member: Group) -> Callable[[Calls], None]:
        def work(calls: Calls, messages: list[Message]) -> None:
            member.judge(messages)
            member.settle(calls, messages)

        return lambda calls: receive_group(self.state, calls, member.topic, member.group, work)
