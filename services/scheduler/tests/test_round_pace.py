"""Few due messages leave together with what becomes due while the last ones are settled; no answer is waited for too long."""

import pytest

from scheduler.round_pace import NEVER, SECONDS, RoundPace


def test_a_round_may_begin_at_once_while_none_is_on_its_way():
    pace = RoundPace(2)
    assert pace.begin(100.0)
    assert pace.begin(100.0), "nothing was sent"
    pace.answered(pace.sent())
    assert pace.begin(100.0)


def test_the_next_round_waits_for_all_answers_to_the_last():
    pace = RoundPace(2)
    pace.begin(100.0)
    first, second = pace.sent(), pace.sent()
    pace.answered(first)
    assert not pace.begin(100.001)
    pace.answered(second)
    assert pace.begin(100.001)


def test_a_slow_answer_is_waited_for_a_moment_only():
    pace = RoundPace(2)
    pace.begin(100.0)
    pace.sent()
    assert pace.opens_at() == pytest.approx(100.0 + SECONDS)
    assert pace.begin(100.0 + SECONDS)
    assert pace.begin(100.0 + SECONDS * 1.5), "a round in which nothing was due holds nothing up"


def test_of_a_store_that_does_not_answer_no_more_is_asked():
    pace = RoundPace(2)
    pace.begin(100.0)
    first = pace.sent()
    pace.begin(200.0)
    pace.sent()
    assert pace.opens_at() == NEVER
    pace.answered(first)
    assert pace.begin(200.0 + SECONDS)
