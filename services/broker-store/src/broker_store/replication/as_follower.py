"""What a learner or follower does with its leader: find where the logs part, cut, copy, report what is durable (rule 6).

asked ──welcome: persist the fence──▶ remembering ──cut the log──▶ cutting ──persist the leader's table──▶ recording ──▶ copying

Retention deletes the beginnings of logs. A follower deletes nothing that its leader still has: the leader appends again what must not go with a
segment (rule 10). A learner whose next bytes the leader has deleted begins again at the leader's first position: it persists, together, the fence,
the leader's table up to there, and that its own log is void, and its process ends; the next start removes the log (rule 11).

A crash after the cut and before the table finds the old table, which is right for the shorter log. A table before the cut would call
bytes the leader's that are not.
"""

from dataclasses import dataclass, replace
from enum import Enum

from broker_store.replication.messages import (
    Beat,
    DurableEnd,
    Hello,
    Message,
    Refused,
    Resigned,
    Session,
    Welcome,
)
from broker_store.replication.replica import Replica
from broker_store.replication.steps import (
    CutLog,
    EndReason,
    LeaderBegins,
    ShipmentReceived,
    Show,
    WriteShipment,
)  # fmt: skip

ASKED_BEATS = 2
"""A leader that does not answer within so many beats is asked again: the question, or the answer, met no connection."""


class Stage(Enum):
    """How far a session is."""

    ASKED = "asked"
    REMEMBERING = "remembering"
    CUTTING = "cutting"
    RECORDING = "recording"
    COPYING = "copying"


@dataclass(slots=True)
class Copying:
    """One session."""

    leader: str
    session: Session
    stage: Stage
    welcome: Welcome | None
    version: int
    sent_at: int


class Following:
    """The sessions of one life of a replica, one after the other."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._copying: Copying | None = None
        self._heard_at = replica.now
        self._asked_at: int | None = None
        self._leader_begins = 0
        self.has_caught_up = False
        """In this life it had everything that a leader confirmed."""
        self.is_cutting = False
        self._is_successor = False
        """The leader that it copies from has resigned, and named this replica."""

    def is_silent(self, patience_ms: int) -> bool:
        """Say whether the leader was silent for longer, or has resigned. After a start, or with a new leader, silence begins to count again."""
        return self._is_successor or self._replica.now - self._heard_at > patience_ms

    @property
    def is_copying(self) -> bool:
        """Say whether it copies from a leader that lives."""
        return self._has_session and not self.is_silent(self._replica.settings.lease_ms)

    @property
    def leader(self) -> str:
        """The leader whose log is compared with this one, empty if there is none."""
        return self._copying.leader if self._copying is not None and self._has_session else ""

    @property
    def _has_session(self) -> bool:
        return self._copying is not None and self._copying.stage is Stage.COPYING

    def restart(self) -> None:
        """Leave the session: the leader is another one, or this replica campaigns."""
        self._leave()
        self._asked_at = None
        self._heard_at = self._replica.now

    def _leave(self) -> None:
        self._copying, self._is_successor = None, False
        self._replica.forget_then()

    def tick(self) -> None:
        """Ask the leader for a session when there is none that lives."""
        replica, newest = self._replica, self._replica.kept.newest
        if newest is None or newest.leader == replica.settings.name or self.is_cutting:
            return
        patience = replica.settings.lease_ms
        is_unanswered = self._copying is None or self._copying.stage is Stage.ASKED
        wait = ASKED_BEATS * replica.settings.beat_ms if is_unanswered else patience
        asked = self._asked_at is not None and replica.now - self._asked_at <= wait
        if asked or (self._copying is not None and not self.is_silent(patience)):
            return
        session = Session(replica.life, replica.new_number())
        replica.forget_then()
        self._asked_at = replica.now
        self._copying = Copying(newest.leader, session, Stage.ASKED, None, 0, 0)
        kept = replica.kept
        table, version = kept.table.until(replica.end), max(kept.fence, newest.version) if kept.fence else 0
        group, origin = replica.settings.group, newest.origin if version else ""
        replica.send(newest.leader, Hello(session, group, origin, table, replica.end, version))

    def receive(self, peer: str, message: Message) -> None:
        """Take a message of the leader."""
        copying = self._copying
        if copying is None or copying.leader != peer or copying.session != message.session:
            return
        if isinstance(message, Welcome):
            self._welcome(copying, message)
        elif isinstance(message, Beat):
            self._hear(copying, message)
            self.report()
        elif isinstance(message, Refused):
            self._leave()
        elif isinstance(message, Resigned):
            self._take_resignation(copying, message)

    def _take_resignation(self, copying: Copying, message: Resigned) -> None:
        welcome = copying.welcome
        is_current = welcome is not None and message.epoch == welcome.epoch
        if is_current and copying.stage is Stage.COPYING and message.version >= self._replica.kept.fence:
            self._is_successor = message.successor == self._replica.settings.name

    def receive_shipment(self, shipment: ShipmentReceived) -> None:
        """Take log bytes of the leader if they continue this log."""
        copying = self._copying
        if copying is None or copying.leader != shipment.peer or copying.session != shipment.head.session:
            return
        if copying.stage is Stage.COPYING and self._is_current(copying, shipment.head):
            is_next = shipment.position == self._replica.end
            if is_next:
                self._replica.emit(WriteShipment())
                self._replica.grew(shipment.end)
            self._hear(copying, shipment.head)
            if not is_next:  # the sync of what was written reports it, and where the log ends
                self.report()

    def cut(self) -> None:
        """Take the leader's table, now that the log is a part of the leader's."""
        replica, copying = self._replica, self._copying
        self.is_cutting = False
        if copying is None or copying.stage is not Stage.CUTTING or copying.welcome is None:
            return
        copying.stage = Stage.RECORDING
        replica.persist(replace(replica.kept, table=copying.welcome.table), self._copy)

    def report(self) -> None:
        """Acknowledge to the leader what is durable here."""
        replica, copying = self._replica, self._copying
        if not replica.may.acknowledges_leader or copying is None or copying.stage is not Stage.COPYING:
            return
        welcome = copying.welcome
        if welcome is None or copying.version < replica.kept.fence:
            return
        ends = (replica.durable, replica.end)
        message = DurableEnd(
            copying.session, welcome.epoch, copying.version, *ends, copying.sent_at, replica.is_fit
        )
        replica.send(copying.leader, message)

    def _welcome(self, copying: Copying, welcome: Welcome) -> None:
        replica = self._replica
        if copying.stage is not Stage.ASKED:
            return
        if not self._accepts(welcome.version):
            self._leave()
            return
        if welcome.common < min(replica.confirm, replica.end):
            replica.end_process(EndReason.CUT_BELOW_CONFIRM)
            return
        if welcome.common < welcome.first:
            self._begin_again(welcome, welcome.first)
            return
        copying.welcome, copying.version, copying.sent_at = welcome, welcome.version, welcome.sent_at
        copying.stage = Stage.REMEMBERING
        self._heard_at = replica.now
        kept = replace(replica.kept, fence=max(replica.kept.fence, welcome.version))
        replica.persist(kept, lambda: self._cut(copying, welcome.common))

    def _accepts(self, version: int) -> bool:
        """Refuse a leader that knows less than what this replica knows or promised."""
        return version >= max(self._replica.kept.fence, self._replica.version)

    def _cut(self, copying: Copying, at: int) -> None:
        copying.stage = Stage.CUTTING
        if at < self._replica.end:
            self.is_cutting = True
            self._replica.emit(CutLog(at))
        else:
            self.cut()

    def _copy(self) -> None:
        assert self._copying is not None
        self._copying.stage = Stage.COPYING
        self.report()

    def _is_current(self, copying: Copying, head: Beat) -> bool:
        welcome = copying.welcome
        return (
            welcome is not None and head.epoch == welcome.epoch and head.version >= self._replica.kept.fence
        )

    def _hear(self, copying: Copying, head: Beat) -> None:
        if not self._is_current(copying, head):
            return
        replica = self._replica
        self._heard_at = replica.now
        copying.version = max(copying.version, head.version)
        copying.sent_at = max(copying.sent_at, head.sent_at)
        if copying.stage is not Stage.COPYING or copying.welcome is None:
            return
        if replica.end < head.first:
            self._begin_again(replace(copying.welcome, version=copying.version), head.first)
            return
        self._show(head.confirm)
        if head.first > self._leader_begins:
            self._leader_begins = head.first
            replica.emit(LeaderBegins(head.first))

    def _begin_again(self, welcome: Welcome, first: int) -> None:
        """Give up this log for one that begins where the leader's does. Not while this replica may be in the set: the register will say."""
        replica = self._replica
        self._leave()
        if replica.may.begins_again:
            fence, table = max(replica.kept.fence, welcome.version), welcome.table.until(first)
            kept = replace(replica.kept, fence=fence, table=table, begin=first, is_void=True)
            replica.end_process_after(kept, EndReason.BEGINS_AGAIN)

    def _show(self, confirm: int | None) -> None:
        replica = self._replica
        known = min(confirm or 0, replica.end)
        if confirm is not None and confirm == known:
            self.has_caught_up = True
        if replica.confirmed(known):
            replica.emit(Show(known))
