"""The states of a replica and what each may do: the one table that code and tests share.

learner ──recorded in the set──▶ follower ──silence of the leader, register answers──▶ promised ──register took the write──▶ leader

follower, promised ──out of the set──▶ learner      promised ──another write was first──▶ follower

leader ──another leader or epoch──▶ deposed         any ──it may not continue──▶ deposed: the process ends and starts as a learner
"""

from dataclasses import dataclass
from enum import Enum


class ReplicaState(Enum):
    """What a replica is for its broker group."""

    LEARNER = "learner"
    """Copies the log. The set does not contain it."""
    FOLLOWER = "follower"
    """Copies the log. The newest set that it knows contains it."""
    PROMISED = "promised"
    """Acknowledges nobody: it campaigns, or asks the register how its campaign ended."""
    LEADER = "leader"
    DEPOSED = "deposed"
    """Does nothing more: the process ends. Nothing in memory of an old leader survives."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a replica in a state may do."""

    acknowledges_leader: bool
    """It reports its durable end to the leader."""
    counts: bool
    """The leader waits for its durable end before it acknowledges."""
    accepts_sends: bool
    """Only while the set has `min_in_sync` members."""
    grants: bool
    """Leases, queue locks, claims, reads that must be newest: only while it has the leader's lease."""
    begins_again: bool
    """It may give up its log for a later beginning of its leader's. Never while the set may contain it: its log counts."""


MAY: dict[ReplicaState, Permissions] = {
    ReplicaState.LEARNER: Permissions(True, False, False, False, True),
    ReplicaState.FOLLOWER: Permissions(True, True, False, False, False),
    ReplicaState.PROMISED: Permissions(False, True, False, False, False),
    ReplicaState.LEADER: Permissions(False, True, True, True, False),
    ReplicaState.DEPOSED: Permissions(False, False, False, False, False),
}

NEXT: dict[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.LEARNER: frozenset({ReplicaState.FOLLOWER, ReplicaState.PROMISED, ReplicaState.DEPOSED}),
    ReplicaState.FOLLOWER: frozenset({ReplicaState.PROMISED, ReplicaState.LEARNER, ReplicaState.DEPOSED}),
    ReplicaState.PROMISED: frozenset(
        {ReplicaState.LEADER, ReplicaState.FOLLOWER, ReplicaState.LEARNER, ReplicaState.DEPOSED}
    ),
    ReplicaState.LEADER: frozenset({ReplicaState.DEPOSED}),
    ReplicaState.DEPOSED: frozenset(),
}
"""The only learner that promises is the first replica of a group, which makes the register's first record (`ha_bootstrap`)."""
