"""When, how often and how long halves are checked: RocketMQ's numbers."""

from hypothesis import given
from hypothesis import strategies as st

from txn_checker.check_policy import Policy, due_event, due_ms
from txn_checker.half_message import STATES, Event, Half, State

POLICY = Policy()
HALF = Half("U1", "pg", "orders", 2, 5, 500, 10_000, 10_000, 0, 0, "ID")


def test_the_first_check_comes_after_six_seconds():
    assert due_ms(POLICY, HALF) == 16_000


def test_a_longer_immunity_applies_and_a_shorter_one_does_not():
    assert due_ms(POLICY, HALF._replace(immunity_ms=60_000)) == 70_000
    assert due_ms(POLICY, HALF._replace(immunity_ms=1_000)) == 16_000


def test_further_checks_follow_every_thirty_seconds():
    assert due_ms(POLICY, HALF._replace(checks=1, stored_ms=16_000, immunity_ms=90_000)) == 46_000


def test_no_more_than_fifteen_checks():
    assert due_event(POLICY, HALF._replace(checks=14), 20_000) is Event.CHECK_DUE
    assert due_event(POLICY, HALF._replace(checks=15), 20_000) is Event.TOO_OLD


def test_a_half_older_than_the_retention_is_parked_however_many_checks_it_had():
    assert due_event(POLICY, HALF, 10_000 + POLICY.retention_ms) is Event.CHECK_DUE
    assert due_event(POLICY, HALF, 10_001 + POLICY.retention_ms) is Event.TOO_OLD


@given(st.lists(st.sampled_from(Event), max_size=12))
def test_no_order_of_events_leaves_the_end_state(events):
    state = State.WAITING
    for event in events:
        following = STATES[state].get(event, state)
        assert state is not State.ENDED or following is State.ENDED
        state = following


def test_a_decision_ends_every_state():
    for state, events in STATES.items():
        assert state is State.ENDED or events[Event.DECIDED] is State.ENDED
