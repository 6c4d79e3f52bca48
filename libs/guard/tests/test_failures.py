import pytest
from guarded import Clock
from hypothesis import given
from hypothesis import strategies as st

from gantry_guard.failures import (
    FORGET_SECONDS,
    FREE_FAILURES,
    NAME_CHARACTERS_MAX,
    PAIRS_MAX,
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    FailureLimits,
)


def fail(limits, times, user="alice", address="10.0.0.5"):
    for _ in range(times):
        limits.failed(user, address)


def test_some_failures_pause_nobody():
    limits = FailureLimits(Clock())
    fail(limits, FREE_FAILURES)
    assert not limits.is_paused("alice", "10.0.0.5")


def test_each_further_failure_doubles_the_pause_up_to_a_bound():
    clock = Clock()
    limits = FailureLimits(clock)
    fail(limits, FREE_FAILURES)
    pauses = []
    for _ in range(14):
        fail(limits, 1)
        started = clock.now
        while limits.is_paused("alice", "10.0.0.5"):
            clock.now += PAUSE_SECONDS_MIN / 2
        pauses.append(round(clock.now - started, 1))
    assert pauses[:4] == [0.2, 0.4, 0.8, 1.6]
    assert max(pauses) == pauses[-1] == pytest.approx(PAUSE_SECONDS_MAX, abs=PAUSE_SECONDS_MIN)


def test_another_user_and_another_address_are_served():
    limits = FailureLimits(Clock())
    fail(limits, FREE_FAILURES + 5)
    assert limits.is_paused("alice", "10.0.0.5")
    assert not limits.is_paused("bob", "10.0.0.5")
    assert not limits.is_paused("alice", "10.0.0.6")


def test_a_success_and_a_long_time_forget_the_failures():
    clock = Clock()
    limits = FailureLimits(clock)
    fail(limits, FREE_FAILURES + 5)
    limits.succeeded("alice", "10.0.0.5")
    assert not limits.is_paused("alice", "10.0.0.5")
    fail(limits, FREE_FAILURES + 5)
    clock.now += FORGET_SECONDS + 1
    fail(limits, 1)
    assert not limits.is_paused("alice", "10.0.0.5")


def test_the_table_is_bounded_and_forgets_an_old_pair_that_is_not_paused():
    limits = FailureLimits(Clock())
    fail(limits, FREE_FAILURES + 1, "paused")
    fail(limits, FREE_FAILURES, "nearly")
    for number in range(PAIRS_MAX):
        fail(limits, 1, f"user-{number}")
    assert len(limits) == PAIRS_MAX
    assert limits.is_paused("paused", "10.0.0.5")
    fail(limits, FREE_FAILURES, "nearly")
    assert not limits.is_paused("nearly", "10.0.0.5")


def test_if_all_are_paused_the_one_that_failed_longest_ago_is_forgotten():
    limits = FailureLimits(Clock())
    for number in range(PAIRS_MAX + 1):
        fail(limits, FREE_FAILURES + 1, f"user-{number}")
    assert len(limits) == PAIRS_MAX
    assert not limits.is_paused("user-0", "10.0.0.5")
    assert limits.is_paused("user-1", "10.0.0.5")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 100))))
def test_no_pause_is_longer_than_the_bound(steps):
    clock = Clock()
    limits = FailureLimits(clock)
    for user, wait in steps:
        limits.failed(user, "10.0.0.5")
        clock.now += wait
    clock.now += PAUSE_SECONDS_MAX
    assert not any(limits.is_paused(user, "10.0.0.5") for user in "ab")


def test_an_overlong_name_is_counted_without_keeping_it():
    limits = FailureLimits(Clock())
    fail(limits, FREE_FAILURES + 1, "x" * 60_000)
    assert limits.is_paused("x" * 60_000, "10.0.0.5")
    assert max(len(user) for user, _ in limits._pairs) == NAME_CHARACTERS_MAX
