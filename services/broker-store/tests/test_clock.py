from hypothesis import given
from hypothesis import strategies as st

from broker_store.clock import StoreClock


class Hands:
    def __init__(self) -> None:
        self.wall_s = 1000.0
        self.monotonic_s = 0.0

    def clock(self) -> StoreClock:
        return StoreClock(lambda: self.wall_s, lambda: self.monotonic_s)


def test_a_forward_step_of_the_wall_clock_is_followed():
    hands = Hands()
    clock = hands.clock()
    hands.wall_s = 5000.0
    assert clock.now_ms() == 5_000_000


def test_after_a_backward_step_time_goes_on_at_its_pace():
    hands = Hands()
    clock = hands.clock()
    assert clock.now_ms() == 1_000_000
    hands.wall_s = 10.0
    hands.monotonic_s = 2.0
    assert clock.now_ms() == 1_002_000


def test_store_time_starts_behind_the_newest_record():
    clock = Hands().clock()
    clock.advance_to(9_000_000)
    assert clock.now_ms() >= 9_000_000


@given(st.lists(st.tuples(st.floats(0, 10_000), st.floats(0, 100))))
def test_store_time_never_goes_back(steps):
    hands = Hands()
    clock = hands.clock()
    last = clock.now_ms()
    for wall_s, passed_s in steps:
        hands.wall_s = wall_s
        hands.monotonic_s += passed_s
        now = clock.now_ms()
        assert now >= last
        assert now >= int(wall_s * 1000)
        last = now
