"""A burst that keeps its rate leaves half of the store to others, and delays only the due queues that have one."""

import pytest

from scheduler.delivering.burst_pace import NEVER, BurstPace


def pause_after(pace, count, seconds):
    pace.sent(100.0, count)
    assert pace.free_at() == NEVER
    pace.answered(100.0 + seconds)
    return pace.free_at() - 100.0 - seconds


def test_a_burst_that_keeps_its_rate_leaves_half_of_the_store_to_others():
    pace = BurstPace(10_000)
    assert pause_after(pace, 500, 0.01) == pytest.approx(0.01)
    assert pause_after(pace, 500, 0.025) == pytest.approx(0.025)


def test_a_slower_store_gets_a_shorter_pause_but_never_none():
    pace = BurstPace(10_000)
    assert pause_after(pace, 500, 0.03) == pytest.approx(0.02)
    assert pause_after(pace, 500, 0.2) == pytest.approx(0.05)


def test_a_batch_of_several_queues_ends_with_its_last_answer():
    pace = BurstPace(10)
    pace.sent(1.0, 20)
    pace.sent(1.5, 20)
    pace.answered(2.0)
    assert pace.free_at() == NEVER
    pace.answered(3.0)
    assert pace.free_at() == 5.0


def test_a_due_queue_has_a_burst_while_its_batches_are_full():
    pace = BurstPace(10)
    pace.took(0, is_full=True)
    pace.took(1, is_full=False)
    assert pace.due_queues == {0}
    pace.took(0, is_full=False)
    assert pace.due_queues == set()
