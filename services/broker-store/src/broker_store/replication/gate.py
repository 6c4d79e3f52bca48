"""The gate of a leader: up to where the log is confirmed, which set to ask the register for, and whether the leader has its lease.

A gate belongs to one epoch: a new leader builds a new one, so its confirm offset starts again from what its set proves (rule 5).

- Confirmed is what is durable at the leader and at every member of the recorded set, and of the proposed one while a change is under way (rule 1).
  It starts to advance when all of them have the log up to the start of this epoch, and goes no further while a set has fewer than `min_in_sync`
  members: not only sends are answered by it, but also decisions, acknowledgements and offsets.
- A changed set counts when the register has it. A member that was silent for longer than the lease may be removed, but the set keeps
  `min_in_sync` members. A learner may be added when its durable end reaches the confirm offset and the start of this epoch (rule 2).
- Under steady load a learner is always a little behind. When it has what was confirmed at its report before, it *joins*: the confirm offset waits
  for it from then on, so that it reaches it and the register gets the set. Nothing is written yet: a joining learner that falls silent is left out again.
- The leader has its lease while every other member of both sets was heard within the lease (rule 8).

A replica is heard *when the leader sent* what the replica answers, not when the answer arrives: the replica counts the leader's silence from the
receipt of the same beat, which is later. So an answer that is late in the network never extends the lease beyond the replica's patience.
Times are milliseconds of the leader's steady clock.
"""

from collections.abc import Mapping


class Gate:
    """Confirm offset, set changes and lease of one leader in one epoch."""

    def __init__(
        self, leader: str, recorded: tuple[str, ...], start: int, min_in_sync: int, lease_ms: int, now: int
    ) -> None:
        assert leader in recorded
        self._leader, self._start, self._min_in_sync, self._lease_ms = leader, start, min_in_sync, lease_ms
        self.recorded = frozenset(recorded)
        self.proposed: frozenset[str] | None = None
        self.confirm: int | None = None
        """End of what is confirmed in this epoch. None: the set has not proved the start of the epoch yet."""
        self._joining: frozenset[str] = frozenset()
        self._ends: dict[str, int] = {}
        self._confirm_at_report: dict[str, int] = {}
        self._near: set[str] = set()
        self._heard: dict[str, int] = {}
        self._led_since = now

    @property
    def counted(self) -> frozenset[str]:
        """The replicas that may be in the register's newest set: the recorded and the proposed set."""
        return self.recorded | (self.proposed or frozenset())

    @property
    def ends(self) -> Mapping[str, int]:
        """Durable ends as reported, by name."""
        return self._ends

    @property
    def accepts_sends(self) -> bool:
        """Say whether both sets have `min_in_sync` members. Otherwise sends are refused, not acknowledged thinner."""
        sets = [self.recorded] if self.proposed is None else [self.recorded, self.proposed]
        return min(map(len, sets)) >= self._min_in_sync

    def joined(self, replica: str) -> None:
        """Begin a session of a replica: what it reported in an earlier one no longer counts."""
        self._ends.pop(replica, None)
        self._confirm_at_report.pop(replica, None)
        self._near.discard(replica)
        self._joining -= {replica}

    def durable(self, replica: str, end: int) -> None:
        """Take the durable end of a replica, or of the leader itself. Within a session it never shrinks."""
        end = self._ends[replica] = max(end, self._ends.get(replica, 0))
        self._set_near(replica, end >= max(self._start, self._confirm_at_report.get(replica, end + 1)))
        self._confirm_at_report[replica] = self.confirm or 0
        self._advance()

    def heard(self, replica: str, sent_at: int) -> None:
        """Take an answer to what the leader sent at that time."""
        self._heard[replica] = max(sent_at, self._heard.get(replica, sent_at))

    def propose(self, members: frozenset[str]) -> None:
        """Count a set that the register may get from now on."""
        assert self.proposed is None
        assert self._leader in members
        self.proposed, self._joining = members, frozenset()
        self._advance()

    def record(self, members: tuple[str, ...]) -> None:
        """Take the set that the register has."""
        self.recorded, self.proposed = frozenset(members), None
        self._advance()

    def has_lease(self, now: int) -> bool:
        """Say whether every other counted replica was heard within the lease."""
        others = self.counted - {self._leader}
        return all(self.is_heard(replica, now) for replica in others)

    def is_heard(self, replica: str, now: int) -> bool:
        """Say whether it was heard within the lease."""
        heard = self._heard.get(replica)
        return heard is not None and now - heard < self._lease_ms

    def stop_joining(self) -> None:
        """Wait for no learner: no set can be asked for now."""
        self._joining = frozenset()
        self._advance()

    def next_set(self, now: int) -> frozenset[str] | None:
        """Return the set to ask the register for, None when the recorded one is right. Choose the learners that join."""
        assert self.proposed is None
        self._joining = frozenset(
            replica for replica in self._near - self.recorded if self.is_heard(replica, now)
        )
        self._advance()
        smaller = self.recorded - self._silent(now)
        if smaller != self.recorded and len(smaller) >= self._min_in_sync:
            return smaller
        larger = self.recorded | {replica for replica in self._ends if self._may_be_added(replica, now)}
        return larger if larger != self.recorded else None

    def _silent(self, now: int) -> set[str]:
        since = {replica: self._heard.get(replica, self._led_since) for replica in self.recorded}
        return {
            replica
            for replica, heard in since.items()
            if replica != self._leader and now - max(heard, self._led_since) > self._lease_ms
        }

    def _may_be_added(self, replica: str, now: int) -> bool:
        reached = self._ends.get(replica, -1) >= max(self._start, self.confirm or 0)
        return reached and self.is_heard(replica, now)

    def _set_near(self, replica: str, is_near: bool) -> None:
        if is_near:
            self._near.add(replica)
        else:
            self._near.discard(replica)

    def _advance(self) -> None:
        ends = [self._ends.get(replica, -1) for replica in self.counted | self._joining]
        known = max(self._start, self.confirm or 0)
        lowest = min(ends)
        if lowest >= known:
            self.confirm = lowest if self.accepts_sends else known
