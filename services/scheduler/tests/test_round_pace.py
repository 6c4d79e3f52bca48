"""Few due messages are asked for ahead and together; what is read too late for that does not wait, and no answer is waited for too long."""

import pytest

from scheduler.round_pace import (
    AHEAD_SECONDS,
    BUSY_SECONDS,
    NEVER,
    ROUND_SECONDS,
    WAY_SECONDS,
    RoundPace,
)

LONG_AGO = 0.0


def test_what_is_due_alone_is_asked_for_ahead():
    assert RoundPace(2).opens_at(100.0) == pytest.approx(100.0 - AHEAD_SECONDS)


def test_what_is_due_may_begin_at_once_while_no_round_is_on_its_way():
    pace = RoundPace(2)
    assert pace.begin(100.0, LONG_AGO)
    assert pace.begin(100.0, LONG_AGO), "nothing was sent"
    pace.answered(pace.sent())
    assert pace.begin(100.0, LONG_AGO)


def test_nothing_due_begins_no_round():
    assert not RoundPace(2).begin(100.0, NEVER)


def test_a_steady_stream_is_asked_for_in_rounds():
    pace = RoundPace(8)
    pace.begin(100.0, LONG_AGO)
    pace.sent()
    assert pace.opens_at(100.0 + AHEAD_SECONDS) == pytest.approx(100.0 + ROUND_SECONDS)
    assert not pace.begin(100.0 + ROUND_SECONDS / 2, 100.0 + AHEAD_SECONDS)
    assert pace.begin(100.0 + ROUND_SECONDS, 100.0 + AHEAD_SECONDS)


def test_what_would_come_too_late_with_the_next_round_leaves_before_it():
    pace = RoundPace(8)
    pace.begin(100.0, LONG_AGO)
    pace.sent()
    due = 100.0 + WAY_SECONDS + BUSY_SECONDS * 1.5
    assert pace.opens_at(due) == pytest.approx(due - WAY_SECONDS)
    assert pace.opens_at(100.0) == pytest.approx(100.0 + BUSY_SECONDS)


def test_what_is_due_waits_for_all_answers_to_the_last_round_but_a_moment_only():
    pace = RoundPace(2)
    pace.begin(100.0, LONG_AGO)
    first, second = pace.sent(), pace.sent()
    pace.answered(first)
    assert not pace.begin(100.0 + BUSY_SECONDS / 2, LONG_AGO)
    assert pace.begin(100.0 + BUSY_SECONDS, LONG_AGO)
    pace.answered(second)
    assert pace.begin(100.0 + BUSY_SECONDS / 2, LONG_AGO)


def test_of_a_store_that_does_not_answer_no_more_is_asked():
    pace = RoundPace(2)
    pace.begin(100.0, LONG_AGO)
    first = pace.sent()
    pace.begin(200.0, LONG_AGO)
    pace.sent()
    assert pace.opens_at(LONG_AGO) == NEVER
    pace.answered(first)
    assert pace.begin(200.0 + BUSY_SECONDS, LONG_AGO)
