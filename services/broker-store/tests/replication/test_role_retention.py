"""One replica and retention, fact by fact: who begins again, after what is durable, and what a follower may delete."""

import pytest
from mutants import FOUND_BY_A_LIFE, MUTANTS, planted
from test_role import FOUND_BY_A_TEST as OTHERS_FOUND
from test_role import LATER_TABLE, ORIGIN, OTHERS, TABLE, WITHOUT, Shell, kept
from test_role_fitness import FOUND_BY_A_TEST as FITNESS_FOUND

from broker_store.replication.epochs import Epoch, EpochTable
from broker_store.replication.messages import Beat, DurableEnd, Hello, Refused, Session, Welcome
from broker_store.replication.states import ReplicaState
from broker_store.replication.steps import (
    CutLog,
    EndProcess,
    EndReason,
    Kept,
    LeaderBegins,
    LogCut,
    Persist,
    Persisted,
    Received,
    RegisterRead,
    Removed,
    Send,
    Synced,
    Tick,
)


def welcomed(shell: Shell, common: int, first: int, version: int = 6, table: EpochTable = LATER_TABLE):
    shell.step(Tick())
    (hello,) = shell.sent(Hello)
    shell.step(Received("b", Welcome(hello.session, 2, version, common, table, 50, first)))
    return hello.session


def test_a_learner_whose_position_was_deleted_begins_again_once_that_is_durable_and_does_nothing_else():
    shell = Shell(kept(WITHOUT), confirm=80)
    session = welcomed(shell, 90, 160)
    void = Kept(6, WITHOUT, EpochTable((Epoch(1, 0), Epoch(2, 90))), begin=160, is_void=True)
    persist = shell.order(Persist)
    assert shell.orders == [Persist(persist.number, void)]
    for given in (
        Tick(), Persisted(persist.number - 1), RegisterRead(1, OTHERS), Synced(100), LogCut(90),
        Received("b", Welcome(session, 2, 6, 100, TABLE, 50, 0)), Received("b", Beat(session, 2, 6, 90, 60, 0)),
    ):  # fmt: skip
        assert shell.step(given, ms=1600) == []
    assert shell.step(Persisted(persist.number)) == [EndProcess(EndReason.BEGINS_AGAIN)]


def test_a_replica_that_begins_again_says_that_it_has_what_was_deleted_and_copies_from_there():
    table = EpochTable((Epoch(1, 0), Epoch(2, 90)))
    shell = Shell(Kept(6, WITHOUT, table, begin=160), end=160)
    shell.step(Tick())
    (hello,) = shell.sent(Hello)
    assert (hello.table, hello.end, hello.version) == (table, 160, 6)
    assert LATER_TABLE.common_end(500, hello.table, hello.end) == 160
    assert shell.role.replica.confirm == 160
    shell.step(Received("b", Welcome(hello.session, 2, 6, 159, LATER_TABLE, 50, 0)))
    assert shell.orders == [EndProcess(EndReason.CUT_BELOW_CONFIRM)]


def test_a_learner_continues_where_the_leader_still_has_its_position():
    shell = Shell(kept(WITHOUT))
    session = welcomed(shell, 90, 90)
    assert shell.order(Persist).kept.fence == 6
    assert not shell.order(Persist).kept.is_void
    assert shell.persisted() == [CutLog(90)]
    shell.step(LogCut(90))
    assert shell.persisted() == [Send("b", DurableEnd(session, 2, 6, 90, 90, 50))]


def test_a_copying_learner_begins_again_when_the_leader_deletes_its_position():
    shell = Shell(kept(WITHOUT))
    session = shell.copying(record=WITHOUT)
    shell.step(Received("b", Beat(session, 2, 5, 300, 60, 100)))
    assert not shell.all_of(Persist)
    shell.step(Received("b", Beat(session, 2, 7, 300, 70, 101)))
    assert shell.order(Persist).kept == Kept(
        7, WITHOUT, EpochTable((Epoch(1, 0), Epoch(2, 90))), begin=101, is_void=True
    )
    assert shell.persisted() == [EndProcess(EndReason.BEGINS_AGAIN)]


@pytest.mark.parametrize("version", [5, 6])
def test_a_member_of_the_set_never_begins_again(version):
    member_does_not_begin_again(version)


def member_does_not_begin_again(version: int = 5) -> None:
    shell = Shell(kept())
    session = welcomed(shell, 90, 160, version)
    assert shell.orders == []
    shell.step(Received("b", Beat(session, 2, version, 300, 60, 160)))
    assert shell.orders == []
    shell = Shell(kept())
    session = shell.copying()
    assert shell.step(Received("b", Beat(session, 2, version, 300, 60, 101))) == []
    assert shell.role.state is ReplicaState.FOLLOWER


def test_a_leader_refuses_a_counted_replica_whose_position_it_deleted():
    shell = Shell(kept())
    shell.led()
    shell.step(Received("c", Hello(Session("c.1", 1), "g", ORIGIN, TABLE, 100, 5)))
    shell.step(Received("c", DurableEnd(Session("c.1", 1), 3, 6, 100, 100, shell.now)))
    shell.step(Removed(50))
    for number, (peer, end, is_welcome) in enumerate(
        [("c", 49, False), ("c", 50, True), ("d", 49, True)], start=2
    ):
        session = Session(f"{peer}.1", number)
        shell.step(Received(peer, Hello(session, "g", ORIGIN, TABLE, end, 5)))
        wanted = Welcome(session, 3, 6, end, shell.role.replica.kept.table, shell.now, 50)
        assert shell.orders == [Send(peer, wanted if is_welcome else Refused(session, 6))]
    shell.step(Tick())
    assert {beat.first for beat in shell.sent(Beat)} == {50}


def test_a_follower_says_once_where_its_leader_begins_and_only_of_its_session():
    shell = Shell(kept())
    session = shell.copying()
    said = []
    for head in (
        Beat(session, 2, 5, 90, 60, 0), Beat(session, 2, 5, 90, 70, 40), Beat(session, 2, 5, 90, 80, 40),
        Beat(session, 2, 5, 90, 80, 20), Beat(session, 2, 4, 90, 80, 60), Beat(session, 1, 5, 90, 80, 60),
        Beat(Session("a.6", 1), 2, 5, 90, 80, 60), Beat(session, 2, 5, 90, 80, 50),
    ):  # fmt: skip
        shell.step(Received("b", head))
        said += shell.all_of(LeaderBegins)
    assert said == [LeaderBegins(40), LeaderBegins(50)]


def test_a_void_log_is_never_opened():
    with pytest.raises(AssertionError):
        Shell(Kept(6, WITHOUT, TABLE, begin=100, is_void=True))


FOUND_BY_A_TEST = {
    "begins_again_without_the_version": (
        test_a_learner_whose_position_was_deleted_begins_again_once_that_is_durable_and_does_nothing_else
    ),
    "ends_before_it_is_durable": (
        test_a_learner_whose_position_was_deleted_begins_again_once_that_is_durable_and_does_nothing_else
    ),
    "continues_on_a_void_log": (
        test_a_learner_whose_position_was_deleted_begins_again_once_that_is_durable_and_does_nothing_else
    ),
    "member_begins_again": member_does_not_begin_again,
    "member_without_its_log_welcomed": test_a_leader_refuses_a_counted_replica_whose_position_it_deleted,
}


@pytest.mark.parametrize("name", FOUND_BY_A_TEST)
def test_a_planted_violation_that_lives_hardly_show_is_found_by_a_fact(name):
    with planted(name), pytest.raises(AssertionError):
        FOUND_BY_A_TEST[name]()


def test_each_mutant_is_found_by_a_life_or_by_a_fact():
    assert set(MUTANTS) == {*OTHERS_FOUND, *FITNESS_FOUND, *FOUND_BY_A_TEST, *FOUND_BY_A_LIFE}
