"""The first record of a register that was lost, from what all replicas of the group remember. Pure.

Which replica has everything that was acknowledged? A record of the register may be lost that no replica remembers: its writer crashed before it
noted the answer. So the sets that replicas remember do not decide, their logs do. What was acknowledged in an epoch is in the log of its leader, and of
the leaders after it. A log with a later epoch therefore has it, and of two logs with the same newest epoch the longer one. That holds among the
logs that are known: a replica that is left out may have more.

The new record leaves room above the highest version, epoch and boot count that are remembered: numbers of records that nobody
remembers are not used twice.
"""

from collections.abc import Sequence

import msgspec

from broker_store.replication.register.record import Count, Name, Registered

ROOM = 1000
"""Versions, epochs and boots that are left out. A group writes a few records per failure."""


class CannotRebuild(Exception):
    """No record follows from what is remembered. The message says what is missing."""


class Remembered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What one stopped replica has in its directory."""

    group: str
    name: Name
    fence: int
    """It acknowledges nobody of an older version. 0: it never belonged to a group."""
    newest: Registered | None
    """The newest record of the register that it knows."""
    epoch: int
    """The newest one of its log."""
    end: int
    """Position behind the last whole record of its log."""
    is_void: bool
    """Its log is of no use: its next start removes it."""

    @property
    def version(self) -> Count:
        """The highest version that it remembers or promised."""
        return max(self.fence, self.newest.version if self.newest else 0)

    @property
    def may_lead(self) -> bool:
        """Whether its log counts."""
        return self.fence > 0 and not self.is_void


def missing_names(replicas: Sequence[Remembered], configured: Sequence[str]) -> list[str]:
    """Return the names of replicas that the settings, or a remembered set, name, and that are not among these."""
    named = set(configured)
    for one in replicas:
        named |= set(one.newest.members) if one.newest else set()
    return sorted(named - {one.name for one in replicas})


def rebuilt(replicas: Sequence[Remembered], nonce: str) -> Registered:
    """Return the record: its one member is the replica with the whole log, which leads next; the others copy from it.

    Raises CannotRebuild.
    """
    groups = {one.group for one in replicas} | {one.newest.group for one in replicas if one.newest}
    if len(groups) != 1:
        raise CannotRebuild(f"these are replicas of several brokers: {', '.join(sorted(groups)) or 'none'}")
    if len({one.name for one in replicas}) < len(replicas):
        raise CannotRebuild("two of these have the same name: take what each replica said last")
    leaders = [one for one in replicas if one.may_lead]
    if not leaders:
        raise CannotRebuild(
            "none of these has belonged to the group with its log: there is nothing to rebuild from"
        )
    known = [one.newest for one in replicas if one.newest]
    origins = {record.origin for record in known}
    if len(origins) != 1:
        raise CannotRebuild(
            "these are replicas of two groups with the same name"
            if origins
            else "none of these remembers a record"
        )
    best = max(leaders, key=lambda one: (one.epoch, one.end))
    epochs = [one.epoch for one in replicas] + [record.epoch for record in known]
    return Registered(
        version=max(one.version for one in replicas) + ROOM,
        group=best.group,
        epoch=max(epochs) + ROOM,
        leader=best.name,
        members=(best.name,),
        boots=max((record.boots for record in known), default=0) + ROOM,
        nonce=nonce,
        origin=origins.pop(),
    )
