"""A burst takes its share of the store's time, and only lanes that have one wait for it."""

from scheduler.burst_pace import NEVER, BurstPace


def test_the_pause_after_a_full_batch_follows_the_time_its_answer_took():
    pace = BurstPace(0.5)
    pace.took(0, is_full=True)
    pace.sent(10.0)
    assert pace.free_at() == NEVER
    pace.answered(10.25)
    assert pace.free_at() == 10.5
    pace.sent(11.0)
    pace.answered(11.01)
    assert abs(pace.free_at() - 11.02) < 1e-9


def test_a_smaller_share_makes_longer_pauses_and_all_of_it_none():
    for share, pause in ((0.25, 3.0), (1.0, 0.0)):
        pace = BurstPace(share)
        pace.sent(0.0)
        pace.answered(1.0)
        assert pace.free_at() == 1.0 + pause


def test_a_batch_of_several_queues_is_over_with_its_last_answer():
    pace = BurstPace(0.5)
    pace.sent(1.0)
    pace.sent(1.5)
    pace.answered(2.0)
    assert pace.free_at() == NEVER
    pace.answered(3.0)
    assert pace.free_at() == 5.0


def test_a_lane_is_in_a_burst_while_its_batches_are_full():
    pace = BurstPace(0.5)
    pace.took(0, is_full=True)
    pace.took(1, is_full=False)
    assert pace.lanes == {0}
    pace.took(0, is_full=False)
    assert pace.lanes == set()
