"""Few due messages are sent ahead and together. Late ones do not wait, and no answer is awaited too long."""

import pytest

from scheduler.delivering.round_pace import (
    AHEAD_SECONDS,
    BUSY_SECONDS,
    NEVER,
    ROUND_SECONDS,
    WAY_SECONDS,
    RoundPace,
)

LONG_AGO = 0.0


def test_a_single_message_is_sent_ahead():
    assert RoundPace(2).opens_at(100.0) == pytest.approx(100.0 - AHEAD_SECONDS)


def test_a_due_round_begins_at_once_while_none_is_in_flight():
    pace = RoundPace(2)
    assert pace.begin(100.0, LONG_AGO)
    assert pace.begin(100.0, LONG_AGO), "nothing was sent"
    pace.answered(pace.sent())
    assert pace.begin(100.0, LONG_AGO)


def test_nothing_due_begins_no_round():
    assert not RoundPace(2).begin(100.0, NEVER)


def test_a_steady_stream_is_sent_in_rounds():
    pace = RoundPace(8)
    pace.begin(100.0, LONG_AGO)
    pace.sent()
    assert pace.opens_at(100.0 + AHEAD_SECONDS) == pytest.approx(100.0 + ROUND_SECONDS)
    assert not pace.begin(100.0 + ROUND_SECONDS / 2, 100.0 + AHEAD_SECONDS)
    assert pace.begin(100.0 + ROUND_SECONDS, 100.0 + AHEAD_SECONDS)


def test_messages_due_before_the_next_round_leave_early():
    pace = RoundPace(8)
    pace.begin(100.0, LONG_AGO)
    pace.sent()
    due = 100.0 + WAY_SECONDS + BUSY_SECONDS * 1.5
    assert pace.opens_at(due) == pytest.approx(due - WAY_SECONDS)
    assert pace.opens_at(100.0) == pytest.approx(100.0 + BUSY_SECONDS)


def test_a_round_waits_for_the_last_one_only_a_moment():
    pace = RoundPace(2)
    pace.begin(100.0, LONG_AGO)
    first, second = pace.sent(), pace.sent()
    pace.answered(first)
    assert not pace.begin(100.0 + BUSY_SECONDS / 2, LONG_AGO)
    assert pace.begin(100.0 + BUSY_SECONDS, LONG_AGO)
    pace.answered(second)
    assert pace.begin(100.0 + BUSY_SECONDS / 2, LONG_AGO)


def test_an_unresponsive_store_gets_no_more_rounds():
    pace = RoundPace(2)
    pace.begin(100.0, LONG_AGO)
    first = pace.sent()
    pace.begin(200.0, LONG_AGO)
    pace.sent()
    assert pace.opens_at(LONG_AGO) == NEVER
    pace.answered(first)
    assert pace.begin(200.0 + BUSY_SECONDS, LONG_AGO)
