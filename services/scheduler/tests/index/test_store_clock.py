"""The clock of a store from its answers: never ahead, whatever the latency.

It follows forward steps and holds at backward ones.
"""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.index.store_clock import StoreClock


def test_nothing_is_due_before_the_store_reports_its_time():
    assert StoreClock().now_ms(1e9) == 0
    assert not StoreClock().is_known


@given(st.lists(st.tuples(st.integers(0, 100_000), st.floats(0, 5)), min_size=1, max_size=30))
def test_it_is_never_ahead_of_the_store_and_lags_at_least_the_fastest_answer(answers):
    clock, epoch_ms = StoreClock(), 1_700_000_000_000
    for sent_ms, latency_seconds in sorted(answers):
        clock.heard(epoch_ms + sent_ms, sent_ms / 1000 + latency_seconds)
    least = min(latency for _, latency in answers)
    behind = epoch_ms + 200_000 - clock.now_ms(200.0)
    assert -0.01 <= behind <= least * 1000 + 0.01


def test_a_forward_step_is_taken_with_the_next_answer():
    clock = StoreClock()
    clock.heard(1000, 1.0)
    clock.heard(3_602_000, 2.0)
    assert clock.now_ms(3.0) == 3_603_000


def test_instants_wait_for_a_wall_clock_that_was_set_back():
    clock = StoreClock()
    clock.heard(3_600_000, 0.0, wall_ms=0)
    assert clock.now_ms(1.0) == 3_601_000
    assert clock.wall_ms(1.0) == 1000
    clock.heard(3_602_000, 2.0, wall_ms=3_602_000)
    assert clock.wall_ms(2.0) == 3_602_000


def test_an_early_message_moves_it_back_to_the_last_answer():
    clock = StoreClock()
    clock.heard(1010, 1.0)
    clock.heard(2000, 2.0)
    assert clock.now_ms(2.0) == 2010
    clock.was_early()
    assert clock.now_ms(2.0) == 2000
