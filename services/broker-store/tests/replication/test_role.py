"""One replica, fact by fact: what may leave before what is durable, and what it refuses."""

import pytest
from mutants import planted

from broker_store.replication.epochs import Epoch, EpochTable
from broker_store.replication.messages import Beat, DurableEnd, Hello, Refused, Resigned, Session, Welcome
from broker_store.replication.register.record import Registered
from broker_store.replication.replica import Replica, RoleSettings
from broker_store.replication.role import Role
from broker_store.replication.states import ReplicaState
from broker_store.replication.steps import (
    Acknowledge,
    Appended,
    BecomeLeader,
    CutLog,
    EndProcess,
    EndReason,
    Input,
    Kept,
    LogCut,
    Output,
    Persist,
    Persisted,
    ReadRegister,
    Received,
    RegisterLost,
    RegisterRead,
    RegisterRefused,
    RegisterWritten,
    Resign,
    Send,
    Ship,
    ShipmentReceived,
    Show,
    Synced,
    Tick,
    WriteRegister,
    WriteShipment,
)

TABLE = EpochTable((Epoch(1, 0),))
ORIGIN = "a.0-1"
OTHERS = Registered(5, "g", 2, "b", ("a", "b", "c"), 2, "b.1-1", ORIGIN)
WITHOUT = Registered(5, "g", 2, "b", ("b", "c"), 2, "b.1-1", ORIGIN)
LATER_TABLE = EpochTable((Epoch(1, 0), Epoch(2, 90), Epoch(3, 170)))


def kept(newest: Registered | None = OTHERS, fence: int = 5, table: EpochTable = TABLE) -> Kept:
    return Kept(fence, newest, table)


class Shell:
    """Steps a role and finds its orders by their kind."""

    def __init__(
        self, kept: Kept, end: int = 100, confirm: int = 0, bootstrap: bool = False, min_in_sync: int = 1
    ):
        settings = RoleSettings("a", "g", min_in_sync=min_in_sync, bootstrap=bootstrap)
        self.now = 1000
        self.role = Role(Replica(settings, kept, kept.begin, end, confirm, "a.7", self.now))
        self.orders: list[Output] = []

    def step(self, given: Input, ms: int = 1) -> list[Output]:
        self.now += ms
        self.orders = self.role.step(self.now, given)
        return self.orders

    def order(self, kind: type) -> Output:
        found = self.all_of(kind)
        assert len(found) == 1, self.orders
        return found[0]

    def all_of(self, kind: type) -> list[Output]:
        return [order for order in self.orders if isinstance(order, kind)]

    def sent(self, kind: type) -> list:
        return [order.message for order in self.all_of(Send) if isinstance(order.message, kind)]

    def read(self, record: Registered | None, ms: int = 1) -> None:
        """Let the next read of the register answer with this record."""
        self.step(Tick(), ms)
        self.step(RegisterRead(self.order(ReadRegister).operation, record))

    def persisted(self) -> list[Output]:
        return self.step(Persisted(self.all_of(Persist)[-1].number))

    def promised(self) -> WriteRegister:
        """Let it campaign: silence, an answer of the register, a durable promise."""
        self.read(self.role.replica.kept.newest, ms=1600)
        self.persisted()
        return self.order(WriteRegister)

    def led(self) -> None:
        self.step(RegisterWritten(self.promised().operation))
        self.persisted()

    def copying(self, version: int = 5, common: int = 100, record: Registered = OTHERS) -> Session:
        """Let it copy from b."""
        self.step(Tick())
        (hello,) = self.sent(Hello)
        self.step(RegisterRead(self.order(ReadRegister).operation, record))
        table = EpochTable((Epoch(1, 0), Epoch(2, 90)))
        self.step(Received("b", Welcome(hello.session, 2, version, common, table, 50, 0)))
        self.persisted()
        if common < 100:
            self.step(LogCut(common))
        self.persisted()
        return hello.session


def test_the_first_replica_promises_durably_and_then_makes_the_first_record():
    shell = Shell(Kept(), bootstrap=True)
    shell.read(None)
    assert shell.order(Persist).kept.fence == 1
    assert not shell.all_of(WriteRegister)
    shell.persisted()
    record = shell.order(WriteRegister).record
    assert record == Registered(1, "g", 1, "a", ("a",), 1, record.nonce, record.nonce)
    shell.step(RegisterWritten(shell.order(WriteRegister).operation))
    assert shell.order(Persist).kept == Kept(1, record, TABLE)
    assert shell.role.state is ReplicaState.PROMISED
    shell.persisted()
    assert shell.orders == [BecomeLeader(record, 100), Acknowledge(100)]


def test_a_replica_that_belonged_to_a_group_never_makes_a_first_record():
    shell = Shell(kept(), bootstrap=True)
    shell.read(None, ms=1600)
    assert not shell.all_of(Persist)
    assert shell.role.state is ReplicaState.FOLLOWER


def test_a_member_campaigns_after_grace_with_the_set_less_the_leader():
    shell = Shell(kept())
    shell.read(OTHERS, ms=1499)
    assert shell.role.state is ReplicaState.FOLLOWER
    record = shell.promised().record
    assert record == Registered(6, "g", 3, "a", ("a", "c"), 3, record.nonce, ORIGIN)


def test_nothing_is_acknowledged_from_the_promise_on():
    shell = Shell(kept())
    session = shell.copying()
    shell.read(OTHERS, ms=1600)
    assert shell.role.state is ReplicaState.PROMISED
    for given in (Synced(100), Received("b", Beat(session, 2, 5, 90, 60, 0)), Tick()):
        shell.step(given)
        assert not shell.sent(DurableEnd)


def test_a_promise_is_never_lower_than_one_before():
    shell = Shell(kept(fence=9))
    shell.read(OTHERS, ms=1600)
    assert shell.order(Persist).kept.fence == 9


@pytest.mark.parametrize("answer", [None, Registered(4, "g", 1, "c", ("a", "c"), 1, "c", ORIGIN)])
def test_an_empty_or_older_register_is_no_reason_to_campaign(answer):
    shell = Shell(kept())
    shell.read(answer, ms=1600)
    assert not shell.all_of(Persist)


def test_a_register_without_an_answer_is_no_reason_to_campaign_and_is_shown():
    shell = Shell(kept())
    shell.step(Tick(), ms=1600)
    shell.step(RegisterLost(shell.order(ReadRegister).operation))
    assert shell.orders == []
    assert shell.role.register.silent_since == shell.now


@pytest.mark.parametrize(
    "state",
    [kept(Registered(5, "g", 2, "b", ("b", "c"), 2, "", ORIGIN)), kept(fence=0)],
    ids=["not in the set", "lost its log"],
)
def test_a_learner_never_campaigns(state):
    shell = Shell(state)
    assert shell.role.state is ReplicaState.LEARNER
    shell.read(state.newest, ms=5000)
    assert not shell.all_of(Persist)


def test_a_leader_that_comes_back_writes_a_new_epoch_at_once():
    own = Registered(5, "g", 2, "a", ("a", "b"), 2, "a.6-3", ORIGIN)
    shell = Shell(kept(own))
    shell.read(own)
    shell.persisted()
    assert shell.order(WriteRegister).record.epoch == 3
    assert shell.order(WriteRegister).record.members == ("a", "b")


def test_a_lost_reply_is_repeated_and_an_own_write_recognized():
    shell = Shell(kept())
    write = shell.promised()
    shell.step(RegisterLost(write.operation))
    shell.step(Tick(), ms=250)
    again = shell.order(WriteRegister)
    assert again.record == write.record
    shell.step(RegisterRefused(again.operation, None))
    shell.step(Tick())
    shell.step(RegisterRead(shell.order(ReadRegister).operation, OTHERS))
    assert shell.role.state is ReplicaState.PROMISED
    shell.read(write.record, ms=250)
    shell.persisted()
    assert shell.role.state is ReplicaState.LEADER


def test_a_candidate_that_comes_second_follows_what_the_register_has():
    shell = Shell(kept())
    write = shell.promised()
    other = Registered(6, "g", 3, "c", ("a", "c"), 3, "c.1-1", ORIGIN)
    shell.step(RegisterRefused(write.operation, other))
    assert shell.role.state is ReplicaState.FOLLOWER
    assert [order.peer for order in shell.all_of(Send)] == ["c"]


def test_a_new_leader_records_its_epoch_at_its_durable_end_and_then_leads():
    table = EpochTable((Epoch(1, 0), Epoch(2, 90)))
    shell = Shell(kept(table=table))
    session = shell.copying()
    shell.step(ShipmentReceived("b", Beat(session, 2, 5, 95, 60, 0), 100, 130))
    write = shell.promised()
    shell.step(RegisterWritten(write.operation))
    assert shell.orders == []
    shell.step(Synced(130))
    assert shell.order(Persist).kept.table.entries[-1] == Epoch(3, 130)
    assert shell.role.state is ReplicaState.PROMISED
    shell.persisted()
    assert shell.orders[0] == BecomeLeader(write.record, 130)
    assert [(order.peer, order.message.version) for order in shell.all_of(Send)] == [("c", 6)]
    assert len(shell.orders) == 2


def test_epochs_beyond_the_end_are_dropped_at_a_takeover():
    shell = Shell(kept(table=EpochTable((Epoch(1, 0), Epoch(2, 120)))))
    shell.step(RegisterWritten(shell.promised().operation))
    assert shell.order(Persist).kept.table == EpochTable((Epoch(1, 0), Epoch(3, 100)))


def test_a_follower_remembers_then_cuts_then_records_then_acknowledges():
    shell = Shell(kept(fence=4))
    shell.step(Tick())
    (hello,) = shell.sent(Hello)
    assert (hello.table, hello.end, hello.version) == (TABLE, 100, 5)
    table = EpochTable((Epoch(1, 0), Epoch(2, 90)))
    shell.step(Received("b", Welcome(hello.session, 2, 6, 90, table, 50, 0)))
    assert [type(order) for order in shell.orders] == [Persist]
    assert (shell.orders[0].kept.fence, shell.orders[0].kept.table) == (6, TABLE)
    assert shell.persisted() == [CutLog(90)]
    shell.step(LogCut(90))
    assert shell.order(Persist).kept.table == table
    assert shell.persisted() == [Send("b", DurableEnd(hello.session, 2, 6, 90, 90, 50))]


def test_a_leader_with_an_older_version_than_promised_is_refused():
    shell = Shell(kept(fence=7))
    shell.step(Tick())
    (hello,) = shell.sent(Hello)
    assert hello.version == 7
    shell.step(Received("b", Welcome(hello.session, 2, 6, 90, TABLE, 50, 0)))
    assert shell.orders == []


def test_a_cut_below_the_own_confirm_offset_ends_the_process():
    shell = Shell(kept(), confirm=80)
    shell.step(Tick())
    (hello,) = shell.sent(Hello)
    shell.step(Received("b", Welcome(hello.session, 2, 5, 79, TABLE, 50, 0)))
    assert shell.orders == [EndProcess(EndReason.CUT_BELOW_CONFIRM)]
    assert shell.step(Tick(), ms=5000) == []


def test_shipments_are_written_in_sequence_and_shown_up_to_the_confirm_offset():
    shell = Shell(kept())
    session = shell.copying()
    shell.step(ShipmentReceived("b", Beat(session, 2, 5, 95, 60, 0), 100, 130))
    assert shell.orders == [WriteShipment(), Show(95)]  # its sync reports it
    shell.step(ShipmentReceived("b", Beat(session, 2, 5, 300, 60, 0), 140, 150))
    assert not shell.all_of(WriteShipment)
    assert shell.sent(DurableEnd) == [DurableEnd(session, 2, 5, 100, 130, 60)]
    assert shell.all_of(Show) == [Show(130)]
    shell.step(Synced(130))
    assert shell.sent(DurableEnd) == [DurableEnd(session, 2, 5, 130, 130, 60)]


def test_shipments_of_another_session_change_nothing():
    shell = Shell(kept())
    shell.copying()
    shell.step(ShipmentReceived("b", Beat(Session("a.6", 1), 2, 5, 95, 60, 0), 100, 130))
    assert shell.orders == []


def test_what_a_proposed_set_confirms_is_acknowledged_at_once():
    """Two learners join, and the confirm offset waits for both. The faster one is proposed alone: it waits for the other no more."""
    shell = Shell(kept(Registered(5, "g", 2, "b", ("a", "b"), 2, "b.1-1", ORIGIN)))
    shell.led()
    sessions = {peer: Session(f"{peer}.1", 1) for peer in "de"}
    for peer in "de":
        shell.step(Received(peer, Hello(sessions[peer], "g", ORIGIN, TABLE, 100, 5)))

    def report(peer: str, end: int) -> None:
        shell.step(Received(peer, DurableEnd(sessions[peer], 3, 6, end, end, shell.now)))

    def append(end: int) -> None:
        shell.step(Appended(end))
        shell.step(Synced(end))

    report("d", 100)
    report("e", 100)
    append(110)
    assert shell.orders == [Acknowledge(110)]
    report("d", 105)
    report("e", 105)
    shell.step(Tick())
    append(120)
    assert shell.orders == []
    report("d", 120)
    assert not shell.all_of(Acknowledge)
    shell.step(Tick())
    assert shell.role.leading.gate.proposed == {"a", "d"}
    assert shell.all_of(Acknowledge) == [Acknowledge(120)]


def test_a_leader_welcomes_ships_and_adds_a_learner_that_has_caught_up():
    shell = Shell(kept())
    shell.led()
    session = Session("d.1", 1)
    hello = Hello(session, "g", "", TABLE, 300, 0)
    shell.step(Received("d", hello))
    table = EpochTable((Epoch(1, 0), Epoch(3, 100)))
    assert shell.sent(Welcome) == [Welcome(session, 3, 6, 100, table, shell.now, 0)]
    shell.step(Received("c", Hello(Session("c.1", 1), "g", ORIGIN, TABLE, 100, 5)))
    shell.step(Received("c", DurableEnd(Session("c.1", 1), 3, 6, 100, 100, shell.now)))
    assert shell.orders == [Ship("c", Session("c.1", 1), 100), Acknowledge(100)]
    shell.step(Received("d", DurableEnd(session, 3, 6, 100, 100, shell.now)))
    shell.step(Tick())
    record = shell.order(WriteRegister).record
    assert (record.version, record.members) == (7, ("a", "c", "d"))


def test_a_report_of_another_epoch_counts_for_nothing():
    """A repeated hello opens its old session in a new life of the leader; a late report to the life before comes after it."""
    shell = Shell(kept())
    shell.led()
    session = Session("c.1", 1)
    shell.step(Received("c", Hello(session, "g", ORIGIN, TABLE, 100, 5)))
    shell.step(Received("c", DurableEnd(session, 2, 5, 300, 300, 999_999)))
    assert shell.orders == [Send("c", Refused(session, 6))]
    assert not shell.role.leading.gate.has_lease(shell.now)


def test_a_leader_refuses_a_follower_that_knows_more_and_one_that_lost_its_log():
    shell = Shell(kept())
    shell.led()
    shell.step(Received("d", Hello(Session("d.1", 1), "g", ORIGIN, TABLE, 0, 7)))
    shell.step(Received("c", Hello(Session("c.1", 1), "g", "", EpochTable(), 0, 0)), ms=0)
    assert shell.sent(Refused) == [Refused(Session("c.1", 1), 6)]
    assert not shell.sent(Welcome)
    shell.step(Tick())
    assert shell.all_of(ReadRegister)


def test_a_leader_that_learns_of_another_ends_its_process():
    shell = Shell(kept())
    shell.led()
    shell.step(Received("c", Hello(Session("c.1", 1), "g", ORIGIN, TABLE, 0, 7)))
    shell.read(Registered(7, "g", 4, "c", ("c",), 4, "c.1-1", ORIGIN))
    assert shell.orders == [EndProcess(EndReason.DEPOSED)]
    assert shell.role.state is ReplicaState.DEPOSED
    assert shell.step(Appended(200)) == []
    assert not shell.role.accepts_sends
    assert not shell.role.may_grant(shell.now)


def test_a_new_leader_grants_once_it_has_heard_its_whole_set_and_within_its_lease():
    shell = Shell(kept())
    shell.led()
    session = Session("c.1", 1)
    shell.step(Received("c", Hello(session, "g", ORIGIN, TABLE, 100, 5)))
    assert not shell.role.may_grant(shell.now)
    for _ in range(8):
        shell.step(Tick(), ms=200)
        shell.step(Received("c", DurableEnd(session, 3, 6, 100, 100, shell.now)))
        assert shell.role.may_grant(shell.now)
    assert not shell.role.may_grant(shell.now + 1000)


def test_a_leader_that_resigns_grants_nothing_and_takes_no_sends_and_says_so_to_its_members():
    shell = Shell(kept())
    shell.led()
    session = Session("c.1", 1)
    shell.step(Received("c", Hello(session, "g", ORIGIN, TABLE, 100, 5)))
    shell.step(Received("c", DurableEnd(session, 3, 6, 100, 100, shell.now)))
    assert shell.role.accepts_sends
    assert shell.role.may_grant(shell.now)
    shell.step(Resign())
    assert [(order.peer, order.message) for order in shell.all_of(Send)] == [
        ("c", Resigned(session, 3, 6, "c"))
    ]
    assert not shell.role.accepts_sends
    assert not shell.role.may_grant(shell.now)
    assert shell.step(Tick(), ms=200) == []


def test_the_successor_campaigns_without_waiting_for_silence_and_others_look_at_the_register():
    for successor in ("a", "c"):
        shell = Shell(kept())
        session = shell.copying()
        shell.step(Received("b", Resigned(session, 2, 5, successor)), ms=5)
        shell.step(RegisterRead(shell.order(ReadRegister).operation, shell.role.replica.kept.newest))
        assert bool(shell.all_of(Persist)) is (successor == "a")


def test_a_resignation_of_another_session_or_epoch_changes_nothing():
    for number, epoch in ((0, 2), (None, 1)):
        shell = Shell(kept())
        session = shell.copying()
        session = Session(session.life, session.number if number is None else number)
        shell.step(Received("b", Resigned(session, epoch, 5, "a")), ms=5)
        assert not shell.role.following.is_silent(1000)


def test_a_leader_that_hears_nobody_says_nothing_so_that_another_one_can_lead():
    shell = Shell(kept(), min_in_sync=2)
    shell.led()
    session = Session("c.1", 1)
    shell.step(Received("c", Hello(session, "g", ORIGIN, TABLE, 100, 5)))
    shell.step(Tick(), ms=900)
    assert shell.sent(Beat)
    shell.step(Tick(), ms=200)
    assert not shell.sent(Beat)
    assert not shell.role.leading.hears_enough
    shell.step(Received("c", DurableEnd(session, 3, 6, 100, 100, 0)))
    shell.step(Tick(), ms=200)
    assert shell.sent(Beat)


def test_a_leader_that_needs_nobody_speaks_though_it_hears_nobody():
    shell = Shell(kept())
    shell.led()
    shell.step(Received("c", Hello(Session("c.1", 1), "g", ORIGIN, TABLE, 100, 5)))
    shell.step(Tick(), ms=5000)
    assert shell.sent(Beat)


def test_a_register_of_another_group_ends_the_process():
    shell = Shell(kept())
    shell.read(Registered(9, "other", 9, "x", ("x",), 9, "", ORIGIN))
    assert shell.orders == [EndProcess(EndReason.FOREIGN_GROUP)]


def test_the_register_of_a_group_with_the_same_name_ends_the_process():
    shell = Shell(kept())
    shell.read(Registered(9, "g", 9, "x", ("x",), 9, "x.1-1", "z.0-1"))
    assert shell.orders == [EndProcess(EndReason.FOREIGN_GROUP)]


def test_a_leader_answers_nobody_of_a_group_with_the_same_name():
    shell = Shell(kept())
    shell.led()
    shell.step(Received("c", Hello(Session("c.1", 1), "g", "z.0-1", TABLE, 100, 5)))
    assert shell.sent(Welcome) == shell.sent(Refused) == []


def test_a_register_whose_epoch_went_back_ends_the_process():
    shell = Shell(kept())
    shell.read(Registered(9, "g", 1, "c", ("c",), 1, "", ORIGIN))
    assert shell.orders == [EndProcess(EndReason.REGISTER_WENT_BACK)]


FOUND_BY_A_TEST = {
    "promise_goes_down": test_a_promise_is_never_lower_than_one_before,
    "older_version_accepted": test_a_leader_with_an_older_version_than_promised_is_refused,
    "cut_before_remembering": test_a_follower_remembers_then_cuts_then_records_then_acknowledges,
    "table_before_the_cut": test_a_follower_remembers_then_cuts_then_records_then_acknowledges,
}


@pytest.mark.parametrize("name", FOUND_BY_A_TEST)
def test_a_planted_violation_that_lives_hardly_show_is_found_by_a_fact(name):
    with planted(name), pytest.raises(AssertionError):
        FOUND_BY_A_TEST[name]()
