"""Store time over clocks that step both ways, drift and restart: it never goes back, nothing ends early, and lateness is bounded."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_clocks import EPOCH_S, Clocks

from broker_store.clocks.shifts import Shift, Shifts
from broker_store.clocks.steady_wall import START_LASTS_SECONDS, STEP_LASTS_SECONDS, STEP_SECONDS_MIN
from broker_store.clocks.store_clock import (
    AHEAD_SECONDS_MAX,
    FASTER_RATE,
    PLAN_MS,
    SLOWER_RATE,
    StoreClock,
)

HOUR = 3600.0
STEPS = st.one_of(
    st.floats(-80 * HOUR, 80 * HOUR), st.sampled_from([2.0, -2.0, 60.0, -60.0, HOUR, -HOUR, 80 * HOUR])
)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.floats(0.001, 1200)),
        st.tuples(st.just("step"), STEPS),
        st.tuples(st.just("right"), st.just(0.0)),
        st.tuples(st.just("restart"), st.floats(0.01, 1000)),
        st.tuples(st.just("begin"), st.floats(1, 5000)),
    ),
    min_size=1,
    max_size=25,
)


def ms(clocks: Clocks) -> int:
    return int(clocks.true_s * 1000)


@given(EVENTS)
@settings(max_examples=400, deadline=None)
def test_no_delay_is_over_early_and_none_is_late_by_more_than_the_bound_whatever_the_wall_clock_does(events):
    clocks = Clocks()
    clock = clocks.open()
    begun: list[tuple[int, int, float]] = []  # true time, store time, how long
    last_ms = clock.now_ms()
    for kind, value in events:
        if kind == "pass":
            clocks.pass_time(clock, value)
        elif kind == "step":
            clocks.error_s += value
            clocks.look(clock)
        elif kind == "right":
            clocks.error_s = 0.0
            clocks.look(clock)
        elif kind == "restart":
            clocks.true_s += value
            clock = clocks.open()
            clock.advance_to(last_ms)
        else:
            begun.append((ms(clocks), clock.now_ms(), value * 1000))
        now_ms = clock.now_ms()
        assert now_ms >= last_ms
        last_ms = now_ms
        for true_ms, store_ms, lasts_ms in begun:
            passed_ms, counted_ms = ms(clocks) - true_ms, clock.since_ms(store_ms)
            is_over = store_ms + lasts_ms + clock.shifts.since(store_ms) <= now_ms
            assert is_over == (counted_ms >= lasts_ms)
            assert (clock.ago_ms(int(lasts_ms)) < store_ms) == (counted_ms < int(lasts_ms))
            assert counted_ms <= passed_ms * (1 + FASTER_RATE) + 3
            assert counted_ms >= passed_ms * (1 - SLOWER_RATE) - 3


@given(EVENTS)
@settings(max_examples=200, deadline=None)
def test_the_clock_of_leases_never_jumps(events):
    clocks = Clocks()
    clock = clocks.open()
    for kind, value in events:
        true_ms, steady_ms = ms(clocks), clock.steady_ms()
        if kind == "pass":
            clocks.pass_time(clock, value)
        elif kind == "step":
            clocks.error_s += value
        elif kind == "right":
            clocks.error_s = 0.0
        passed_ms, counted_ms = ms(clocks) - true_ms, clock.steady_ms() - steady_ms
        assert passed_ms * (1 - SLOWER_RATE) - 3 <= counted_ms <= passed_ms * (1 + FASTER_RATE) + 3


@given(st.floats(-80 * HOUR, 80 * HOUR), st.floats(0, 80 * HOUR))
@settings(max_examples=100, deadline=None)
def test_store_time_returns_to_a_wall_clock_that_stays_where_it_is(first_s, second_s):
    clocks = Clocks()
    clock = clocks.open()
    clocks.error_s = first_s
    clocks.pass_time(clock, STEP_LASTS_SECONDS * 2)
    clocks.error_s = second_s
    clocks.pass_time(clock, STEP_LASTS_SECONDS * 2)
    ahead_s = max(-clock.difference_s(), 0.0)
    clocks.pass_time(clock, (ahead_s + STEP_SECONDS_MIN) / SLOWER_RATE, 400)
    clocks.pass_time(clock, STEP_SECONDS_MIN / FASTER_RATE)
    assert -AHEAD_SECONDS_MAX - 0.01 <= clock.difference_s() <= 0.01


@given(st.floats(-0.0004, 0.0004))
@settings(max_examples=50, deadline=None)
def test_a_wall_clock_that_drifts_is_followed_without_a_step(rate):
    clocks = Clocks()
    clock = clocks.open()
    for _ in range(500):
        clocks.error_s += 60 * rate
        clocks.pass_time(clock, 60, 1)
        assert -AHEAD_SECONDS_MAX - 0.1 <= clock.difference_s() <= 0.1
    assert clock.wall.steps == 0


@pytest.mark.parametrize("step_s", [80 * HOUR, 2 * HOUR, 60.0, 2.0, -2.0, -80 * HOUR])
def test_a_step_that_is_reverted_moves_nothing(step_s):
    clocks = Clocks()
    clock = clocks.open()
    before_ms = clock.now_ms()
    clocks.error_s = step_s
    clocks.pass_time(clock, STEP_LASTS_SECONDS - 10)
    assert clock.now_ms() - before_ms == pytest.approx(STEP_LASTS_SECONDS * 1000 - 10_000, abs=2)
    clocks.error_s = 0.0
    clocks.pass_time(clock, 100)
    assert clock.now_ms() - before_ms == pytest.approx(STEP_LASTS_SECONDS * 1000 + 90_000, abs=3)
    assert clock.shifts.all == []
    assert clock.wall.steps == 1


def test_a_step_ahead_that_lasts_moves_store_time_once_it_is_saved():
    clocks = Clocks()
    clock = clocks.open()
    clocks.error_s = 80 * HOUR
    clocks.pass_time(clock, STEP_LASTS_SECONDS + PLAN_MS / 1000 + 60, 1000)
    assert clock.difference_s() == pytest.approx(0, abs=0.01)
    assert [shift.by_ms for shift in clock.shifts.all] == [pytest.approx(80 * HOUR * 1000, abs=2)]


@pytest.mark.parametrize("later_s", [0.5, 5.0, 500.0])
def test_a_crash_between_saving_a_shift_and_its_time_neither_loses_nor_doubles_it(later_s):
    clocks = Clocks()
    clock = clocks.open()
    begun_ms, true_ms = clock.now_ms(), ms(clocks)
    clocks.error_s = 80 * HOUR
    clock.now_ms()
    clocks.true_s += STEP_LASTS_SECONDS
    planned = clock.plan()
    assert planned is not None
    clocks.kept = clock.note(planned)
    assert clock.confirm(planned)
    clocks.true_s += later_s
    last_ms = clock.now_ms()
    again = clocks.open()
    again.advance_to(last_ms)
    assert again.now_ms() == pytest.approx(last_ms, abs=2)
    assert again.since_ms(begun_ms) == pytest.approx(ms(clocks) - true_ms, abs=2)


@pytest.mark.parametrize("step_s", [-0.6, -0.7, -0.9])
@pytest.mark.parametrize("seconds", [0.5, 4.0, 30.0])
def test_a_kill_soon_after_a_small_step_back_ends_no_delay_early(step_s, seconds):
    clocks = Clocks()
    clock = clocks.open()
    clocks.pass_time(clock, 5)
    clocks.error_s = step_s
    for tenth in range(int(seconds * 10)):  # requests read the clock between two looks of its loop
        clocks.true_s += 0.1
        clock.now_ms()
        if tenth % 10 == 9:
            clocks.look(clock)
    begun_ms = clock.now_ms()
    again = clocks.open()
    again.advance_to(begun_ms)
    assert again.since_ms(begun_ms) <= 3


def test_a_clock_that_is_wrong_at_a_start_is_not_trusted():
    clocks = Clocks()
    clock = clocks.open()
    before_ms = clock.now_ms()
    clocks.true_s += 100
    clocks.error_s = 80 * HOUR
    clock = clocks.open()
    assert clock.now_ms() - before_ms == pytest.approx(100_000, abs=2)
    clocks.pass_time(clock, 60)
    clocks.error_s = 0.0
    clocks.pass_time(clock, 60)
    assert clock.difference_s() == pytest.approx(0, abs=0.01)


def test_after_a_start_of_the_machine_a_clock_is_trusted_only_once_it_is_set():
    clocks = Clocks()
    clock = clocks.open()
    before_ms = clock.now_ms()
    clocks.start_machine(300)
    clocks.error_s = 80 * HOUR
    clock = clocks.open()
    clocks.pass_time(clock, START_LASTS_SECONDS - 10)
    assert clock.now_ms() - before_ms < 300_000
    clocks.error_s = 0.0
    clocks.pass_time(clock, START_LASTS_SECONDS + 10)
    assert clock.now_ms() - before_ms == pytest.approx(ms(clocks), abs=5)
    assert [shift.by_ms for shift in clock.shifts.all] == [pytest.approx(300_000, abs=2)]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("pass"), st.sampled_from([0.5, 5.0, 60.0, 130.0])),
            st.tuples(st.just("machine"), st.sampled_from([0.2, 3.0, 300.0, HOUR])),
            st.tuples(st.just("restart"), st.floats(0.01, 10)),
            st.tuples(st.just("begin"), st.just(0.0)),
        ),
        min_size=3,
        max_size=25,
    )
)
@settings(max_examples=400, deadline=None)
def test_nothing_ends_early_while_machines_start_again_with_a_right_clock(events):
    """What began while the clock was trusted counts the time the machine was off. What began before it was trusted again does not."""
    clocks = Clocks()
    clock = clocks.open()
    begun: list[tuple[float, int, bool]] = []
    for kind, value in events:
        if kind == "pass":
            clocks.pass_time(clock, value)
        elif kind == "begin":
            begun.append((clocks.true_s, clock.now_ms(), clock.wall.is_known))
        else:
            last_ms = clock.now_ms()
            if kind == "machine":
                clocks.start_machine(value)
            else:
                clocks.true_s += value
            clock = clocks.open(last_ms)
        for true_s, store_ms, _ in begun:
            assert clock.since_ms(store_ms) <= (clocks.true_s - true_s) * 1000 * (1 + FASTER_RATE) + 3
    clocks.pass_time(clock, START_LASTS_SECONDS + 20)
    assert clock.difference_s() < STEP_SECONDS_MIN
    for true_s, store_ms, was_known in begun:
        if was_known:
            passed_ms = (clocks.true_s - true_s) * 1000
            assert clock.since_ms(store_ms) >= passed_ms * (1 - SLOWER_RATE) - STEP_SECONDS_MIN * 1000 * len(
                events
            )


def test_a_delay_that_began_before_the_wall_clock_is_trusted_again_is_not_shortened():
    clocks = Clocks()
    clock = clocks.open()
    before_ms = clock.now_ms()
    clocks.start_machine(HOUR)
    clock = clocks.open(before_ms)
    clocks.pass_time(clock, 30)
    begun_ms = clock.now_ms()
    clocks.start_machine(HOUR)  # once more, before the clock was trusted
    clock = clocks.open(begun_ms)
    clocks.pass_time(clock, START_LASTS_SECONDS + 20)
    passed_ms = (START_LASTS_SECONDS + 20) * 1000
    assert clock.since_ms(before_ms) == pytest.approx(2 * HOUR * 1000 + 30_000 + passed_ms, abs=5)
    assert clock.since_ms(begun_ms) == pytest.approx(passed_ms, abs=5)
    assert clock.steady_ms() - before_ms == pytest.approx(30_000 + passed_ms, abs=5)


def test_after_a_start_of_the_machine_with_a_clock_of_1970_time_continues_and_then_follows():
    clocks = Clocks()
    clock = clocks.open()
    before_ms = clock.now_ms()
    clocks.start_machine(300)
    clocks.error_s = -EPOCH_S
    clock = clocks.open()
    clocks.pass_time(clock, 60)
    assert clock.now_ms() - before_ms == pytest.approx(60_000, abs=5)
    clocks.error_s = 0.0
    clocks.pass_time(clock, START_LASTS_SECONDS + 10)
    assert clock.now_ms() - before_ms == pytest.approx(ms(clocks), abs=5)


def test_two_readings_with_a_pause_between_them_are_no_step():
    clocks = Clocks()
    clock = clocks.open()
    before_ms = clock.now_ms()
    slow = {"left": 3}

    def wall() -> float:
        seconds = EPOCH_S + clocks.true_s
        if slow["left"]:
            slow["left"] -= 1
            clocks.true_s += 5  # the process was paused between its two readings
        return seconds

    paused = StoreClock(wall, clocks.steady, "run 0", clocks.kept)
    assert paused.now_ms() - before_ms == ms(clocks)
    assert paused.wall.steps == 0


def test_store_time_starts_after_the_newest_record_and_returns_slowly():
    clocks = Clocks()
    clock = clocks.open()
    newest_ms = clock.now_ms() + int(80 * HOUR * 1000)
    clock.advance_to(newest_ms)
    assert 0 <= clock.now_ms() - newest_ms <= 1
    clocks.pass_time(clock, 1600)
    assert clock.now_ms() - newest_ms == pytest.approx(1600_000 * (1 - SLOWER_RATE), abs=5)


@given(
    st.lists(
        st.tuples(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(0, 9_999) | st.none()),
        max_size=6,
    ),
    st.integers(0, 60_000),
)
def test_shifts_turn_a_store_time_into_a_distance_and_back(gaps, passed_ms):
    shifts, now_ms = Shifts(), 1_000_000
    for gap_ms, by_ms, since_ms in gaps:
        from_ms = 0 if since_ms is None else now_ms + since_ms % gap_ms
        now_ms += gap_ms
        shifts = shifts.plus(Shift(now_ms, by_ms, from_ms))
        now_ms += by_ms

    def passed_since(store_ms: int) -> int:
        return now_ms - store_ms - shifts.since(store_ms)

    then_ms = shifts.before(now_ms, passed_ms)
    is_off = any(shift.from_ms == then_ms for shift in shifts.all)
    assert passed_since(then_ms) == passed_ms or (
        is_off and passed_since(then_ms) < passed_ms < passed_since(then_ms - 1)
    )
