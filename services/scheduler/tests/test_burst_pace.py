"""A burst leaves the store to others as far as it is in time, and only lanes that have one wait for it."""

import pytest

from scheduler.burst_pace import NEVER, BurstPace


def pause_after(pace, count, seconds):
    pace.sent(100.0, count)
    assert pace.free_at() == NEVER
    pace.answered(100.0 + seconds)
    return pace.free_at() - 100.0 - seconds


def test_while_the_burst_is_in_time_others_have_half():
    pace = BurstPace(10_000)
    assert pause_after(pace, 500, 0.01) == pytest.approx(0.01)
    assert pause_after(pace, 500, 0.025) == pytest.approx(0.025)


def test_a_slower_store_is_given_less_of_a_pause_and_never_none():
    pace = BurstPace(10_000)
    assert pause_after(pace, 500, 0.03) == pytest.approx(0.02)
    assert pause_after(pace, 500, 0.2) == pytest.approx(0.05)


def test_a_batch_of_several_queues_is_over_with_its_last_answer():
    pace = BurstPace(10)
    pace.sent(1.0, 20)
    pace.sent(1.5, 20)
    pace.answered(2.0)
    assert pace.free_at() == NEVER
    pace.answered(3.0)
    assert pace.free_at() == 5.0


def test_a_lane_is_in_a_burst_while_its_batches_are_full():
    pace = BurstPace(10)
    pace.took(0, is_full=True)
    pace.took(1, is_full=False)
    assert pace.lanes == {0}
    pace.took(0, is_full=False)
    assert pace.lanes == set()
