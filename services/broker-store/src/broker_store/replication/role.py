"""The decisions of one replica, as a state machine: facts and the time go in, orders come out. No IO, no clock, no chance.

An order that depends on a durable fact leaves after `Persisted` or `LogCut` reports it, never before. Reports of an old session, an old register
operation or an old life change nothing. The rules, with the place of each:

2, 7, 9  `as_leader.py`, `_adopt`: sets count when the register has them, another leader ends the process, an absent register delays changes only
3        `_promise`: the fence is durable before the register gets the write; acknowledgements stop with the decision
4        `_may_campaign`, `_candidacy`: only members of the newest known set, in silence, on a fresh answer of the register
5        `_take_over`: the epoch table is durable before the replica leads, with a new gate
6        `as_follower.py`: the fence is durable before the cut, the cut before the table, the table before the first acknowledgement

10, 11   `as_follower.py`: a follower may delete what its leader has deleted; a learner whose position the leader has deleted begins again
13       `_patience_ms`, `Leading.fit_successor`: a replica that is not fit to lead does so only where no other one does

1 and 8 are in `gate.py`. All times are milliseconds of one steady clock of this machine.
"""

from dataclasses import replace

from broker_store.replication.as_follower import Following
from broker_store.replication.as_leader import Leading
from broker_store.replication.messages import Hello, Leads, Message, Refused, Resigned
from broker_store.replication.register.record import Registered
from broker_store.replication.register_use import RegisterUse
from broker_store.replication.replica import Replica
from broker_store.replication.states import ReplicaState
from broker_store.replication.steps import (
    Appended,
    BecomeFollower,
    EndReason,
    Fitness,
    Input,
    LogCut,
    Output,
    Persisted,
    Received,
    RegisterAnswer,
    RegisterRead,
    Removed,
    Resign,
    ShipmentReceived,
    Synced,
    Tick,
)  # fmt: skip

FULL_LEASES = 2
"""A replica that is not fit campaigns so many leases later than others: a fit one has taken over by then."""


class Role:
    """The role of one life of a replica, on what its directory holds."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.register = RegisterUse(replica)
        self.following = Following(replica)
        self.leading: Leading | None = None
        self._won: Registered | None = None
        state = self._state_by(replica.kept.newest)
        if state is not replica.state:
            replica.become(state)

    def step(self, now: int, given: Input) -> list[Output]:
        """Take a fact, at this time; return what to do now. Nothing comes out after `EndProcess`."""
        self.replica.begin_step(now)
        if self.replica.state is not ReplicaState.DEPOSED:
            self._take(given)
        elif isinstance(given, Persisted):
            self.replica.persisted(given.number)
        return self.replica.orders()

    @property
    def state(self) -> ReplicaState:
        """What the replica is for its group."""
        return self.replica.state

    @property
    def accepts_sends(self) -> bool:
        """Say whether sends may be appended. Otherwise they are refused."""
        leading = self._serving
        return self.replica.may.accepts_sends and leading is not None and leading.gate.accepts_sends

    def may_grant(self, now: int) -> bool:
        """Say whether it may grant what lives in memory, at this time (rule 8).

        An old leader has no lease any more: it needed answers of this replica, a member of its set, and got none for longer than the grace.
        """
        leading = self._serving
        return self.replica.may.grants and leading is not None and leading.gate.has_lease(now)

    def sources(self, position: int) -> list[str]:
        """Return the replicas whose log, below what is confirmed, is this one's, and that have this position durably."""
        if self.leading is not None:
            return self.leading.sources(position)
        return [self.following.leader] if self.following.leader else []

    @property
    def _serving(self) -> Leading | None:
        return self.leading if self.leading is not None and not self.leading.has_resigned else None

    def _take(self, given: Input) -> None:
        match given:
            case Tick():
                self._tick()
            case Received():
                self._receive(given.peer, given.message)
            case ShipmentReceived():
                self.following.receive_shipment(given)
            case Resign():
                if self.leading is not None:
                    self.leading.resign(given.successor)
            case Fitness():
                self.replica.is_fit = given.is_fit
            case Appended() | Synced() | Persisted() | LogCut() | Removed():
                self._take_from_disk(given)
            case _:
                self._register_answer(given)

    def _take_from_disk(self, given: Appended | Synced | Persisted | LogCut | Removed) -> None:
        replica = self.replica
        match given:
            case Appended():
                assert self.leading is not None
                replica.grew(given.end)
            case Synced():
                replica.synced(given.end)
                self._synced()
            case Persisted():
                replica.persisted(given.number)
            case LogCut():
                replica.log_cut(given.at)
                self.following.cut()
            case Removed():
                replica.removed(given.first)

    def _tick(self) -> None:
        settings = self.replica.settings
        if self.leading is not None:
            self.leading.tick()
        elif self.replica.may.acknowledges_leader:
            self.following.tick()
        elif not self.register.writes:
            return  # a promise, or the table of an own epoch, is not durable yet
        is_quiet = (self.leading is not None or self.following.is_copying) and not self.register.writes
        self.register.tick(settings.look_ms if is_quiet else settings.beat_ms)

    def _receive(self, peer: str, message: Message) -> None:
        if message.version > self.replica.version:
            self.register.look_soon()
        if self.leading is not None:
            self.leading.receive(peer, message)
        elif isinstance(message, Hello):
            self.replica.send(peer, Refused(message.session, self.replica.version))
        else:
            self.following.receive(peer, message)
        if isinstance(message, Leads | Resigned):
            self._look_now()

    def _look_now(self) -> None:
        """Read the register without waiting for a tick: another replica leads, or shall lead."""
        self.register.look_soon()
        if self.replica.may.acknowledges_leader or self.register.writes:
            self.register.tick(self.replica.settings.look_ms)

    def _synced(self) -> None:
        if self.leading is not None:
            self.leading.synced()
        else:
            self.following.report()
            self._take_over()

    # The register

    def _register_answer(self, answer: RegisterAnswer) -> None:
        answered, record = self.register.answer(answer)
        if not answered:
            return
        if record is not None and self._is_foreign(record):
            self.replica.end_process(EndReason.FOREIGN_GROUP)
            return
        if record is not None and record.version > self.replica.version:
            self._adopt(record)
        if isinstance(answer, RegisterRead) and self._may_campaign(record):
            self._promise()

    def _is_foreign(self, record: Registered) -> bool:
        """Say whether a record belongs to another group than this directory."""
        newest = self.replica.kept.newest
        is_other = newest is not None and newest.origin != record.origin
        return is_other or record.group != self.replica.settings.group

    def _adopt(self, record: Registered) -> None:
        """Take a newer record: the outcome of an own write, or what others did."""
        old, is_own = self.replica.kept.newest, self.register.is_own(record)
        if old is not None and record.epoch < old.epoch:
            self.replica.end_process(EndReason.REGISTER_WENT_BACK)
            return
        self.register.settle()
        if self.leading is not None:
            self._adopt_as_leader(self.leading, record, is_own)
        elif is_own:
            self._won = record
            self._take_over()
        else:
            self._follow(record)

    def _adopt_as_leader(self, leading: Leading, record: Registered, is_own: bool) -> None:
        """Count an own set now; any other record means another leader or epoch (rule 7)."""
        if not is_own:
            self.replica.end_process(EndReason.DEPOSED)
            return
        self.replica.persist(replace(self.replica.kept, newest=record))
        leading.recorded(record)

    def _follow(self, record: Registered) -> None:
        old = self.replica.kept.newest
        if old is None or (old.leader, old.epoch) != (record.leader, record.epoch):
            self.following.restart()
        self._won = None
        state = self._state_by(record)
        if state is not self.replica.state:
            self.replica.become(state)
        self.replica.persist(replace(self.replica.kept, newest=record))
        self.replica.emit(BecomeFollower(record, state is ReplicaState.FOLLOWER))
        self.following.tick()

    def _state_by(self, record: Registered | None) -> ReplicaState:
        """Return the state that a record gives. A directory that never belonged to a group is no member: the log of that name is lost."""
        name, fence = self.replica.settings.name, self.replica.kept.fence
        is_member = record is not None and name in record.members and fence > 0
        return ReplicaState.FOLLOWER if is_member else ReplicaState.LEARNER

    # Takeover

    def _may_campaign(self, read: Registered | None) -> bool:
        """Say whether to campaign on this answer of the register (rule 4)."""
        replica, newest = self.replica, self.replica.kept.newest
        settings = replica.settings
        if self.following.is_cutting:
            return False
        if newest is None:
            is_new = replica.state is ReplicaState.LEARNER and replica.kept.fence <= 1
            return read is None and settings.bootstrap and is_new
        if replica.state is not ReplicaState.FOLLOWER or read is None or read.version != newest.version:
            return False  # an older answer is stale, or the register went back: neither is a reason
        is_back = newest.leader == settings.name and replica.is_fit
        return is_back or self.following.is_silent(self._patience_ms)

    @property
    def _patience_ms(self) -> int:
        """How long it waits before it campaigns. One that is not fit lets others go first, and leads where there are none (rule 13)."""
        settings = self.replica.settings
        return settings.grace_ms + (0 if self.replica.is_fit else FULL_LEASES * settings.lease_ms)

    def _candidacy(self) -> Registered:
        """Return the record to write: a new epoch, and the old set without its leader."""
        newest, settings, nonce = self.replica.kept.newest, self.replica.settings, self.replica.new_nonce()
        name = settings.name
        if newest is None:
            return Registered(1, settings.group, 1, name, (name,), settings.boots + 1, nonce, nonce)
        members = tuple(member for member in newest.members if member == name or member != newest.leader)
        version, epoch, boots = newest.version + 1, newest.epoch + 1, max(newest.boots, settings.boots) + 1
        return Registered(version, settings.group, epoch, name, members, boots, nonce, newest.origin)

    def _promise(self) -> None:
        """Promise the version to write, durably, then write it (rule 3). Acknowledgements stop now."""
        record, kept = self._candidacy(), self.replica.kept
        self.following.restart()
        self.replica.become(ReplicaState.PROMISED)
        kept = replace(kept, fence=max(kept.fence, record.version))
        self.replica.persist(kept, lambda: self.register.write(record))

    def _take_over(self) -> None:
        """Record the epoch durably, at the durable end of the log (rule 5)."""
        record, replica = self._won, self.replica
        if record is None or replica.durable < replica.end:
            return
        self._won = None
        start = 0 if record.version == 1 else replica.end  # what a single store wrote belongs to epoch 1
        table = replica.kept.table.until(replica.end).with_epoch(record.epoch, start)
        replica.persist(replace(replica.kept, newest=record, table=table), lambda: self._lead(record))

    def _lead(self, record: Registered) -> None:
        self.replica.become(ReplicaState.LEADER)
        self.leading = Leading(self.replica, self.register, record)
        self.leading.begin()
