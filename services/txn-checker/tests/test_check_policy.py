"""When, how often and how long: RocketMQ's numbers."""

from hypothesis import given
from hypothesis import strategies as st

from txn_checker.check_policy import Policy, due_event, due_ms
from txn_checker.half_message import STATES, Event, Half, State

POLICY = Policy()
HALF = Half("U1", "pg", "orders", 2, 5, 500, 10_000, 10_000, 0, 0, "ID")


def test_the_first_check_comes_after_six_seconds():
    assert due_ms(POLICY, HALF) == 16_000


def test_a_longer_immunity_is_kept_and_a_shorter_one_is_not():
    assert due_ms(POLICY, HALF._replace(immunity_ms=60_000)) == 70_000
    assert due_ms(POLICY, HALF._replace(immunity_ms=1_000)) == 16_000


def test_every_further_check_comes_thirty_seconds_after_the_one_before():
    assert due_ms(POLICY, HALF._replace(checks=1, stored_ms=16_000, immunity_ms=90_000)) == 46_000


def test_fifteen_checks_and_no_more():
    assert due_event(POLICY, HALF._replace(checks=14), 20_000) is Event.CHECK_DUE
    assert due_event(POLICY, HALF._replace(checks=15), 20_000) is Event.TOO_OLD


def test_older_than_the_retention_is_given_up_however_often_it_was_asked():
    assert due_event(POLICY, HALF, 10_000 + POLICY.retention_ms) is Event.CHECK_DUE
    assert due_event(POLICY, HALF, 10_001 + POLICY.retention_ms) is Event.TOO_OLD


@given(st.lists(st.sampled_from(Event), max_size=12))
def test_no_order_of_events_leads_back_from_the_end(events):
    state = State.WAITING
    for event in events:
        following = STATES[state].get(event, state)
        assert state is not State.GONE or following is State.GONE
        state = following


def test_every_state_can_end_by_a_decision():
    for state, events in STATES.items():
        assert state is State.GONE or events[Event.DECIDED] is State.GONE
