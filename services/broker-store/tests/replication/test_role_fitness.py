"""Rule 13, fact by fact: a replica that is not fit, for example because its disk is full, leads only where no other one does."""

import pytest
from mutants import planted
from test_role import ORIGIN, OTHERS, TABLE, Shell, kept

from broker_store.replication.messages import Beat, DurableEnd, Hello, Resigned, Session
from broker_store.replication.register.record import Registered
from broker_store.replication.steps import (
    Fitness,
    Persist,
    Received,
    RegisterWritten,
    Resign,
    Tick,
    WriteRegister,
)


def test_a_replica_that_is_not_fit_campaigns_when_others_had_their_time():
    shell = Shell(kept())
    shell.step(Fitness(False))
    shell.read(OTHERS, ms=3200)
    assert not shell.all_of(Persist)
    shell.read(OTHERS, ms=300)
    assert shell.order(Persist).kept.fence == 6


def test_a_leader_that_is_not_fit_and_comes_back_lets_others_campaign():
    own = Registered(5, "g", 2, "a", ("a", "b"), 2, "a.6-3", ORIGIN)
    shell = Shell(kept(own))
    shell.step(Fitness(False))
    shell.read(own)
    assert not shell.all_of(Persist)
    shell.step(Fitness(True))
    shell.read(own, ms=300)
    assert shell.order(Persist).kept.fence == 6


def test_a_follower_reports_that_it_has_no_room():
    shell = Shell(kept())
    session = shell.copying()
    for is_fit in (False, True):
        shell.step(Fitness(is_fit))
        shell.step(Received("b", Beat(session, 2, 5, 90, 60, 0)))
        assert [report.is_fit for report in shell.sent(DurableEnd)] == [is_fit]


def led_by_a_with_b_and_c(b_is_fit: bool, b_end: int = 100) -> Shell:
    record = Registered(5, "g", 2, "a", ("a", "b", "c"), 2, "a.6-3", ORIGIN)
    shell = Shell(kept(record))
    shell.read(record)
    shell.persisted()
    shell.step(RegisterWritten(shell.order(WriteRegister).operation))
    shell.persisted()
    for name, is_fit, end in (("b", b_is_fit, b_end), ("c", False, 100)):
        session = Session(f"{name}.1", 1)
        shell.step(Received(name, Hello(session, "g", ORIGIN, TABLE, 100, 5)))
        shell.step(Received(name, DurableEnd(session, 3, 6, end, end, shell.now, is_fit)))
    return shell


def test_a_leader_that_is_not_fit_names_a_fit_member_or_nobody():
    for b_is_fit, successor in ((True, "b"), (False, "")):
        shell = led_by_a_with_b_and_c(b_is_fit)
        assert shell.role.leading.fit_successor(shell.now) == successor


def test_a_member_that_is_not_heard_is_not_named():
    shell = led_by_a_with_b_and_c(b_is_fit=True)
    assert shell.role.leading.heard(shell.now) == ["b", "c"]
    shell.step(Tick(), ms=1100)
    assert shell.role.leading.fit_successor(shell.now) == ""
    assert shell.role.leading.heard(shell.now) == []


def test_a_leader_that_stops_names_one_with_room_and_one_with_most_of_the_log_where_there_is_none():
    for b_is_fit, successor in ((True, "b"), (False, "c")):
        shell = led_by_a_with_b_and_c(b_is_fit, b_end=90)
        shell.step(Resign())
        assert {message.successor for message in shell.sent(Resigned)} == {successor}


def successor_named(shell: Shell, wished: str = "") -> set[str]:
    shell.step(Resign(wished))
    return {message.successor for message in shell.sent(Resigned)}


def test_a_leader_that_stops_names_a_member_that_was_heard_before_one_with_more_of_the_log():
    for wished in ("", "b"):
        shell = led_by_a_with_b_and_c(b_is_fit=True, b_end=110)
        session = Session("c.1", 1)
        shell.step(Received("c", DurableEnd(session, 3, 6, 100, 100, shell.now + 1100, False)), ms=1100)
        assert shell.role.leading.heard(shell.now) == ["c"]
        assert successor_named(shell, wished) == {"c"}


def test_a_leader_that_stops_names_the_member_that_was_heard_last_where_both_have_the_same_log():
    for last in ("b", "c"):
        shell = led_by_a_with_b_and_c(b_is_fit=False)
        shell.step(
            Received(last, DurableEnd(Session(f"{last}.1", 1), 3, 6, 100, 100, shell.now, False)), ms=300
        )
        assert successor_named(shell) == {last}


def test_a_leader_that_stops_and_heard_nobody_names_a_member_that_may_hear_it():
    shell = led_by_a_with_b_and_c(b_is_fit=True, b_end=90)
    shell.step(Tick(), ms=1100)
    assert successor_named(shell) == {"b"}


FOUND_BY_A_TEST = {
    "full_is_named": test_a_leader_that_is_not_fit_names_a_fit_member_or_nobody,
    "full_campaigns_with_the_others": test_a_replica_that_is_not_fit_campaigns_when_others_had_their_time,
}


@pytest.mark.parametrize("name", FOUND_BY_A_TEST)
def test_a_planted_violation_is_found_by_a_fact(name):
    with planted(name), pytest.raises(AssertionError):
        FOUND_BY_A_TEST[name]()
