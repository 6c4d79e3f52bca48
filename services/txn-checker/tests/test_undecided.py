"""The undecided halves: what is due when, and that decided ones are not checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from txn_checker.check_policy import Policy
from txn_checker.half_message import Event, Half
from txn_checker.undecided import OUTDATED_DUE_MAX, RETRY_MS, Undecided, gaps

POLICY = Policy(6_000, 30_000, 3, 3_600_000)


def half(key="U1", offset=0, stored_ms=0, checks=0, group="pg", immunity_ms=0):
    return Half(
        key, group, "orders", 2, offset, offset * 100, stored_ms, stored_ms, checks, immunity_ms, "ID"
    )


def test_nothing_is_due_before_its_time():
    undecided = Undecided(POLICY)
    undecided.seen(half())
    assert undecided.due(5_999, 10).check == []
    assert [one.key for one in undecided.due(6_000, 10).check] == ["U1"]
    assert undecided.due(6_000, 10).check == [], "it is being asked about"


def test_a_copy_waits_for_the_next_check_and_counts_this_one():
    undecided = Undecided(POLICY)
    undecided.seen(half())
    (first,) = undecided.due(6_000, 10).check
    copy = undecided.copied(first, 9, 900, "ID9", 6_000)
    assert copy is not None
    assert (copy.offset, copy.position, copy.checks, copy.begun_ms) == (9, 900, 1, 0)
    assert undecided.due(35_999, 10).check == []
    assert undecided.due(36_000, 10).check == [copy]


def test_after_the_last_unanswered_check_it_is_parked():
    undecided = Undecided(POLICY)
    undecided.seen(half(checks=3))
    assert undecided.due(30_000, 10).give_up == [half(checks=3)]


def test_a_half_settled_meanwhile_is_not_checked():
    undecided = Undecided(POLICY)
    for offset in range(5):
        undecided.seen(half(f"U{offset}", offset))
    gone = undecided.settled(1, [(2, 4)])
    assert [one.key for one in gone] == ["U0", "U2", "U3"]
    assert [one.key for one in undecided.due(6_000, 10).check] == ["U1", "U4"]


def test_a_half_settled_during_its_check_is_decided_if_no_copy_of_it_is_open():
    undecided = Undecided(POLICY)
    for offset in range(3):
        undecided.seen(half(f"U{offset}", offset))
    copied, decided, parked = undecided.due(6_000, 10).check
    assert undecided.settled(3, []) == [], "their copies may be open, and are not seen yet"
    undecided.seen(half("U0", 3, checks=1))
    assert undecided.settled(3, [], is_all_seen=True) == [decided, parked]
    assert [one.offset for one, _due_ms in undecided.all()] == [3]
    assert undecided.copied(copied, 3, 300, "ID3", 6_000) is not None
    assert undecided.copied(decided, 4, 400, "ID4", 6_000) is None
    undecided.apply(parked, Event.PARKED)
    assert [one.key for one, _due_ms in undecided.all()] == ["U0"]


def test_decided_halves_that_asked_for_a_day_without_checks_do_not_stay_in_memory():
    undecided = Undecided(POLICY)
    undecided.seen(half("open", 0))
    for offset in range(1, 3 * OUTDATED_DUE_MAX):
        undecided.seen(half(f"U{offset}", offset, immunity_ms=86_400_000))
        undecided.settled(0, [(offset, offset + 1)])
        assert len(undecided._due) <= OUTDATED_DUE_MAX + 4
    assert [one.key for one in undecided.due(6_000, 10).check] == ["open"]
    assert undecided.due(86_400_000, 10).check == []


def test_a_failed_half_is_retried_later():
    undecided = Undecided(POLICY)
    undecided.seen(half())
    (first,) = undecided.due(6_000, 10).check
    undecided.apply(first, Event.FAILED, 6_000)
    assert undecided.due(6_000 + RETRY_MS - 1, 10).check == []
    assert undecided.due(6_000 + RETRY_MS, 10).check == [first]


def test_the_newer_of_two_copies_counts_and_the_older_is_settled():
    for order in ((0, 7), (7, 0)):
        undecided = Undecided(POLICY)
        for offset in order:
            undecided.seen(half("U1", offset))
        assert [one.offset for one in undecided.due(6_000, 10).check] == [7]
        assert [one.offset for one in undecided.stale] == [0]


@pytest.mark.parametrize("other", [{"group": "x"}, {"topic": "bills"}])
def test_halves_of_other_groups_and_topics_are_other_transactions(other):
    undecided = Undecided(POLICY)
    undecided.seen(half("U1", 0))
    undecided.seen(half("U1", 7)._replace(**other))
    assert [one.offset for one in undecided.due(6_000, 10).check] == [0, 7]
    assert undecided.stale == []


def test_a_half_sent_again_while_its_copy_is_written_is_settled():
    undecided = Undecided(POLICY)
    undecided.seen(half("U1", 0))
    (first,) = undecided.due(6_000, 10).check
    undecided.seen(half("U1", 1))
    assert undecided.copied(first, 2, 200, "ID2", 6_000) is not None
    assert [one.offset for one in undecided.stale] == [1]


def test_a_copy_that_is_read_before_the_answer_to_its_write_is_not_settled():
    undecided = Undecided(POLICY)
    undecided.seen(half("U1", 0))
    (first,) = undecided.due(6_000, 10).check
    undecided.seen(half("U1", 2, checks=1))
    assert undecided.copied(first, 2, 200, "ID2", 6_000) is not None
    assert undecided.stale == []
    assert [one.offset for one in undecided.due(36_000, 10).check] == [2]


def test_asked_halves_of_a_group_are_listed_until_decided():
    undecided = Undecided(POLICY)
    undecided.seen(half("young", 1))
    undecided.seen(half("old", 2, checks=1))
    undecided.seen(half("other", 3, checks=1, group="x"))
    assert [one.key for one in undecided.asked("pg")] == ["old"]
    undecided.settled(3, [])
    assert undecided.asked("pg") == []


@given(st.sets(st.integers(0, 60)), st.integers(0, 60), st.integers(0, 60))
def test_gaps_are_exactly_the_undecided_offsets(decided, first, end):
    cursor = next((n for n in range(61) if n not in decided), 61)
    ranges: list[tuple[int, int]] = []
    for offset in sorted(n for n in decided if n > cursor):
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    found = {n for start, stop in gaps(first, end, cursor, ranges) for n in range(start, stop)}
    assert found == {n for n in range(first, end) if n not in decided}


class CheckerLife(RuleBasedStateMachine):
    """Any order of begins, decisions, checks, failures and new holders, compared with a model."""

    def __init__(self):
        super().__init__()
        self.undecided = Undecided(POLICY)
        self.now_ms = 0
        self.log: list[Half] = []
        self.decided: set[int] = set()
        self.final: set[str] = set()
        self.checks: dict[str, int] = {}

    def newest(self, key):
        return max((one for one in self.log if one.key == key), key=lambda one: one.offset)

    @rule()
    def begin(self):
        one = half(f"U{len(self.checks)}", len(self.log), self.now_ms)
        self.checks[one.key] = 0
        self.log.append(one)
        self.undecided.seen(one)

    @precondition(lambda self: self.checks)
    @rule(pick=st.integers(0, 1_000))
    def producer_decides(self, pick):
        key = sorted(self.checks)[pick % len(self.checks)]
        self.final.add(key)
        self.decided.add(self.newest(key).offset)

    @rule(ms=st.integers(0, 40_000), fails=st.booleans(), is_read_early=st.booleans())
    def time_passes(self, ms, fails, is_read_early):
        self.now_ms += ms
        self.undecided.settled(0, [(n, n + 1) for n in sorted(self.decided)])
        work = self.undecided.due(self.now_ms, 100)
        for one in work.check:
            assert one.key not in self.final
            assert self.checks[one.key] < POLICY.checks_max
            assert self.now_ms >= one.stored_ms + (POLICY.interval_ms if one.checks else POLICY.timeout_ms)
            if fails:
                self.undecided.apply(one, Event.FAILED, self.now_ms)
                continue
            offset = len(self.log)
            self.decided.add(one.offset)
            if is_read_early:
                copy = half(one.key, offset, self.now_ms, one.checks + 1)
                self.undecided.seen(copy._replace(begun_ms=one.begun_ms))
            copy = self.undecided.copied(one, offset, offset * 100, "ID", self.now_ms)
            assert copy is not None
            self.log.append(copy)
            self.checks[one.key] += 1
            assert copy.checks == self.checks[one.key]
        for one in work.give_up:
            assert (
                self.checks[one.key] == POLICY.checks_max or self.now_ms - one.begun_ms > POLICY.retention_ms
            )
            self.final.add(one.key)
            self.decided.add(one.offset)
            self.undecided.apply(one, Event.PARKED)

    @rule()
    def another_holder_takes_over(self):
        """It knows only the log: what is not settled, with the counts in the records."""
        self.undecided = Undecided(POLICY)
        for one in self.log:
            if one.offset not in self.decided:
                self.undecided.seen(one)

    @invariant()
    def only_older_copies_are_stale(self):
        assert all(one.offset < self.newest(one.key).offset for one in self.undecided.stale)

    @invariant()
    def every_open_transaction_is_known(self):
        assert all(("pg", "orders", key) in self.undecided for key in self.checks if key not in self.final)


TestCheckerLife = CheckerLife.TestCase
