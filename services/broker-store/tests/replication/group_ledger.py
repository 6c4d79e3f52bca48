"""What must hold after every step of a simulated group, and what was acknowledged.

- An acknowledged position is never lost or changed: the true log only grows, and every member of the register's newest set has it durably.
- An epoch has one leader. Two leaders never acknowledge different bytes at a position.
- An acknowledged send is durable on `min_in_sync` replicas.
- A leader acknowledges what it confirms at once: the next message may let a follower show it.
- What a replica shows is a part of the true log, so logs are equal below their confirm offsets.
- At most one replica has a lease.
- Retention deletes only what was acknowledged, and a follower only what a leader has deleted. A member that could lead has the state that outlives it.
"""

from typing import TYPE_CHECKING

from broker_store.replication.register.record import Registered

if TYPE_CHECKING:
    from group_node import Node
    from group_world import World


class RuleBroken(AssertionError):
    """The promise of replication is broken."""


class Ledger:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.truth: list[int] = []
        self._leaders: dict[int, str] = {}
        self.takeovers = 0
        self.acknowledged_at = 0
        self.granted = 0
        self.began_again = 0
        self._leaders_begin = 0
        self.handovers: list[tuple[str, str]] = []
        """Of leaders whose disk was full: the old leader and the one that it named."""

    def fail(self, words: str) -> None:
        raise RuleBroken(f"at {self._world.now} ms: {words}")

    def leads(self, node: "Node", record: Registered) -> None:
        self.takeovers += 1
        if self._leaders.setdefault(record.epoch, record.nonce) != record.nonce or record.leader != node.name:
            self.fail(f"epoch {record.epoch} has a second leader, {node.name}")

    def handed_over(self, name: str, successor: str) -> None:
        self.handovers.append((name, successor))

    def acknowledged(self, node: "Node", up_to: int) -> None:
        common = min(up_to, len(self.truth))
        if node.log[node.first : common] != self.truth[node.first : common]:
            self.fail(f"{node.name} acknowledges other bytes below {common}")
        if up_to > len(node.log):
            self.fail(f"{node.name} acknowledges {up_to} of {len(node.log)}")
        if up_to > len(self.truth):
            self.truth += node.log[len(self.truth) : up_to]
            self.acknowledged_at = self._world.now
            self._check_copies(node, up_to)

    def _check_copies(self, node: "Node", up_to: int) -> None:
        assert node.role is not None
        own = node.role.replica.kept.table.entries[-1].start
        copies = [
            other.name for other in self._world.nodes.values()
            if other.durable >= up_to and _equal(other, node, up_to)
        ]  # fmt: skip
        if up_to > own and len(copies) < self._world.profile.min_in_sync:
            self.fail(f"{node.name} acknowledges {up_to}, only {copies} have it")

    def check_members(self) -> None:
        newest = self._world.register.newest
        for name in newest.members if newest is not None else ():
            self.check_member(self._world.nodes[name], newest)

    def check_member(self, node: "Node", newest: Registered | None) -> None:
        if node.is_lost or newest is None or node.name not in newest.members:
            return
        count = len(self.truth)
        if node.durable < count or node.log[node.first : count] != self.truth[node.first :]:
            self.fail(f"{node.name} of {newest.members} (version {newest.version}) lacks some of {count}")
        if node.first > 0 and not node.has_state(node.first, count):
            self.fail(f"{node.name}, a member, has no state from {node.first} to {count}")

    def deleted(self, node: "Node") -> None:
        role = node.role
        if role is not None and role.leading is not None:
            self._leaders_begin = max(self._leaders_begin, node.first)
        if node.first > min(len(self.truth), self._leaders_begin):
            self.fail(f"{node.name} deletes below {node.first}: leaders deleted below {self._leaders_begin}")

    def check_shown(self, node: "Node") -> None:
        if node.role is None:
            return
        shown, leading = node.role.replica.confirm, node.role.leading
        if leading is not None and leading.gate.confirm not in {None, shown}:
            self.fail(f"{node.name} confirms {leading.gate.confirm} and acknowledges {shown}")
        if shown > len(self.truth) or node.log[node.first : shown] != self.truth[node.first : shown]:
            self.fail(f"{node.name} shows {shown} of {len(self.truth)}, or other bytes")

    def check_leases(self) -> None:
        granting = [
            node.name for node in self._world.nodes.values()
            if node.role is not None and node.role.leading is not None and node.role.may_grant(node.clock())
        ]  # fmt: skip
        self.granted += len(granting)
        if len(granting) > 1:
            self.fail(f"{granting} have a lease")


def _equal(one: "Node", other: "Node", end: int) -> bool:
    first = max(one.first, other.first)
    return one.log[first:end] == other.log[first:end]
