"""What a leader does with beats, sessions of its followers, acknowledgements and set changes (rules 2, 7 and 9)."""

import msgspec

from broker_store.replication.gate import Gate
from broker_store.replication.messages import (
    Beat,
    DurableEnd,
    Hello,
    Leads,
    Message,
    Refused,
    Resigned,
    Session,
    Welcome,
)
from broker_store.replication.register.record import Registered
from broker_store.replication.register_use import RegisterUse
from broker_store.replication.replica import Replica
from broker_store.replication.steps import Acknowledge, BecomeLeader, Ship


class Leading:
    """One epoch of one leader. Ends with the process."""

    def __init__(self, replica: Replica, register: RegisterUse, record: Registered) -> None:
        settings = replica.settings
        self._replica, self._register = replica, register
        self.since = replica.now
        self.epoch = record.epoch
        self.gate = Gate(
            settings.name, record.members, replica.end, settings.min_in_sync, settings.lease_ms, replica.now
        )
        self._record = record
        self._start = replica.end
        self._sessions: dict[str, Session] = {}
        self._arrived: dict[str, int] = {}
        """When something of a peer arrived the last time."""
        self._unfit: set[str] = set()
        self._shown: int | None = None
        self.has_resigned = False
        """It grants nothing more in this epoch. Never goes back: a message that says so may arrive late."""

    def begin(self) -> None:
        """Serve."""
        replica, record = self._replica, self._record
        replica.emit(BecomeLeader(record, self._start))
        self.synced()
        for peer in record.members:
            if peer != replica.settings.name:
                replica.send(peer, Leads(Session(replica.life, replica.new_number()), record.version))

    def resign(self, wished: str) -> None:
        """Let another member campaign: the one that is wished, or the best one. Does nothing if there is none.

        Members that were heard within the lease go first, among them the fit ones. Where none was heard, one of the others may still take it.
        """
        replica, others = self._replica, self._members
        if not others:
            return
        self.has_resigned = True
        heard = self.heard(replica.now) or others
        successor = wished if wished in heard else self._best([*filter(self.is_fit, heard)] or heard)
        for peer in others:
            replica.send(peer, Resigned(self._sessions[peer], self.epoch, replica.version, successor))

    def fit_successor(self, now: int) -> str:
        """Return the best member that can lead at this time: it is fit, and was heard within the lease. Empty: there is none (rule 13)."""
        heard = [*filter(self.is_fit, self.heard(now))]
        return self._best(heard) if heard else ""

    def heard(self, now: int) -> list[str]:
        """Return the other members of the recorded set that this leader heard within the lease before this time."""
        return [peer for peer in self._members if self.gate.is_heard(peer, now)]

    def sources(self, position: int) -> list[str]:
        """Return the replicas that have the log durably up to above this position, the members of the set first."""
        ends = self.gate.ends
        peers = [peer for peer in sorted(self._sessions) if ends.get(peer, -1) > position]
        return sorted(peers, key=lambda peer: peer not in self.gate.recorded)

    def is_fit(self, peer: str) -> bool:
        """Say whether a replica is fit to lead, as far as this leader knows."""
        return peer not in self._unfit

    @property
    def _members(self) -> list[str]:
        """The other members of the recorded set that have a session."""
        own = self._replica.settings.name
        return [peer for peer in sorted(self.gate.recorded) if peer != own and peer in self._sessions]

    def _best(self, peers: list[str]) -> str:
        """Return the one with most of the log; among equals the one that was heard last, because another one may just have been paused."""
        ends, arrived = self.gate.ends, self._arrived
        return max(peers, key=lambda peer: (ends.get(peer, -1), arrived.get(peer, self.since)))

    def tick(self) -> None:
        """Send beats; ask the register for another set if one is needed. One that has resigned falls silent."""
        if self.has_resigned:
            return
        if self.hears_enough:
            for peer, session in self._sessions.items():
                self._replica.send(peer, self.beat(session))
        self._change_set()

    @property
    def hears_enough(self) -> bool:
        """Say whether it hears as many replicas as an acknowledgement needs. One that hears fewer must say nothing.

        It confirms nothing, and may not record a smaller set. Where only the way back is cut, beats and shipments would keep followers
        from taking over for as long as that lasts.
        """
        replica = self._replica
        settings = replica.settings
        silent_ms = [replica.now - max(at, self.since) for at in self._arrived.values()]
        heard = sum(silence <= settings.lease_ms for silence in silent_ms)
        is_new = replica.now - self.since <= settings.lease_ms
        return is_new or 1 + heard >= settings.min_in_sync

    def beat(self, session: Session) -> Beat:
        """Return a beat, or the head of a shipment, for a follower now."""
        replica = self._replica
        return Beat(session, self.epoch, replica.version, self.gate.confirm, replica.now, replica.first)

    def synced(self) -> None:
        """Take the leader's own durable end."""
        self.gate.durable(self._replica.settings.name, self._replica.durable)
        self._acknowledge()

    def recorded(self, record: Registered) -> None:
        """Take the set that the register has now."""
        self._record = record
        self.gate.record(record.members)
        self._acknowledge()

    def receive(self, peer: str, message: Message) -> None:
        """Take a message of a follower. Those of other leaders only make it read the register."""
        self._arrived[peer] = self._replica.now
        if isinstance(message, Hello):
            self._hello(peer, message)
        elif isinstance(message, DurableEnd):
            self._durable_end(peer, message)

    def _hello(self, peer: str, hello: Hello) -> None:
        replica = self._replica
        if hello.group != replica.settings.group or hello.origin not in {"", self._record.origin}:
            return
        table = replica.kept.table
        common = table.common_end(replica.end, hello.table, hello.end)
        lost_its_log = peer in self.gate.counted and (hello.version == 0 or common < replica.first)
        if hello.version > replica.version or lost_its_log:
            replica.send(peer, Refused(hello.session, replica.version))
            return
        old = self._sessions.get(peer)
        if old is not None and old.life == hello.session.life and old.number >= hello.session.number:
            return  # repeated or late
        self._sessions[peer] = hello.session
        self.gate.joined(peer)
        numbers = self.epoch, replica.version, common
        replica.send(peer, Welcome(hello.session, *numbers, table, replica.now, replica.first))

    def _durable_end(self, peer: str, report: DurableEnd) -> None:
        if self._sessions.get(peer) != report.session or report.epoch != self.epoch:
            self._replica.send(peer, Refused(report.session, self._replica.version))
            return
        self.gate.heard(peer, report.sent_at)
        self.gate.durable(peer, report.durable)
        if report.is_fit:
            self._unfit.discard(peer)
        else:
            self._unfit.add(peer)
        self._replica.emit(Ship(peer, report.session, report.end))
        self._acknowledge()

    def _change_set(self) -> None:
        """Propose a set; from now on its members count, too. Not while the register is away: the proposal could not be taken back."""
        replica = self._replica
        if self._register.writes or self._register.silent_since is not None:
            self.gate.stop_joining()
            self._acknowledge()
            return
        members = self.gate.next_set(replica.now)
        self._acknowledge()
        if members is None:
            return
        self.gate.propose(members)
        self._acknowledge()  # a learner that was waited for may not be in the set: followers must not show what is not acknowledged
        version, nonce = replica.version + 1, replica.new_nonce()
        self._register.write(
            msgspec.structs.replace(
                self._record, version=version, members=tuple(sorted(members)), nonce=nonce
            )
        )

    def _acknowledge(self) -> None:
        confirm = self.gate.confirm
        if confirm is not None and confirm != self._shown:
            self._shown = confirm
            self._replica.confirmed(confirm)
            self._replica.emit(Acknowledge(confirm))
