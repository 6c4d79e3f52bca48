"""How far the replicas of one broker are in sync, from what each answers at `GET /v1/replication`. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

LEADER, FOLLOWER = "leader", "follower"


@dataclass(frozen=True)
class Other:
    """What a leader says about another replica."""

    is_in_sync: bool
    behind_bytes: int | None


@dataclass(frozen=True)
class Member:
    """What a replica says about itself, and a leader about the others."""

    role: str
    epoch: int
    end: int
    """Where its log ends."""
    members: frozenset[str]
    """The newest in-sync set that it knows."""
    min_in_sync: int
    accepts_sends: bool
    others: Mapping[str, Other]
    """Of a leader: the replicas in its settings."""
    register_fault: str = ""
    """Why it does not reach the register; empty while it does."""


Said = Mapping[str, Member | None]
"""What the replicas of a broker say, by their names; None for one that does not answer or is not ready."""


def read_member(body: Mapping[str, Any]) -> Member | None:
    """Return what an answer says; None if it is none."""
    listed, members = body.get("replicas"), body.get("members")
    if not (isinstance(body.get("role"), str) and isinstance(listed, list) and isinstance(members, list)):
        return None
    others = {
        str(one.get("name")): Other(one.get("isInSync") is True, _int(one.get("behindBytes")))
        for one in cast("list[dict[str, Any]]", listed)
    }
    return Member(
        body["role"], _int(body.get("epoch")) or 0, _int(body.get("endOffset")) or 0,
        frozenset(map(str, cast("list[Any]", members))), _int(body.get("minInSync")) or 1, body.get("acceptsSends") is True, others,
        str(body.get("registerFault") or ""),
    )  # fmt: skip


def leader_of(said: Said) -> str | None:
    """Return who leads: of two that say so, the one of the later epoch."""
    leaders = [(one.epoch, name) for name, one in said.items() if one is not None and one.role == LEADER]
    return max(leaders)[1] if leaders else None


def obstacles(said: Said, *, with_unknown: bool) -> dict[str, str]:
    """Return by name what is missing until every replica is in sync; under the empty name what is missing as a whole.

    Replicas that the leader does not know, because it runs with an older list, are left out unless `with_unknown`.
    """
    leader = leader_of(said)
    leading = said[leader] if leader is not None else None
    if leading is None:
        return {"": "no replica leads"}
    found = {name: _obstacle(leading.others.get(name), said[name]) for name in said if name != leader}
    known = {
        name: words for name, words in found.items() if words and (with_unknown or name in leading.others)
    }
    if not known and not leading.accepts_sends:
        return {"": f"{leader} leads and accepts no sends yet"}
    return known


def _obstacle(by_leader: Other | None, own: Member | None) -> str:
    if own is None:
        return "it is not ready"
    if by_leader is None:
        return "the leader does not know it yet"
    if by_leader.is_in_sync:
        return "" if own.role == FOLLOWER else f"in sync, and about to learn it ({own.role})"
    behind = "" if by_leader.behind_bytes is None else f", behind by {by_leader.behind_bytes:,} bytes"
    return f"not in sync: {own.role}{behind}"


def progress_of(said: Said, missing: Collection[str]) -> tuple[Any, ...]:
    """Return what changes while a replica that is missing comes nearer: who leads, and role and end of each one missing."""
    far = sorted((name, one.role, one.end) for name, one in said.items() if name in missing and one)
    return leader_of(said), tuple(far)


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
