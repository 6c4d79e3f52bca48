"""Users keep to a fixed schedule, and load shapes fit a run of any length."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_loadtest.load.schedule import Pace
from gantry_loadtest.load.shapes import SHAPES, most

RATES = st.floats(0.01, 1000)


@given(RATES, st.integers(0, 1000), st.integers(1, 50))
def test_instants_are_evenly_spaced_however_late_they_are_taken(
    per_second: float, user: int, taken: int
) -> None:
    pace = Pace(5.0, per_second, user)
    instants = [pace.take() for _ in range(taken)]
    assert 5.0 <= instants[0] < 5.0 + 1 / per_second
    for before, after in pairwise(instants):
        assert after - before == pytest.approx(1 / per_second)


def test_users_do_not_act_at_the_same_instant() -> None:
    firsts = sorted(Pace(0.0, 1.0, user).take() for user in range(100))
    assert max(after - before for before, after in pairwise(firsts)) < 0.03


@given(st.floats(0.5, 50), st.floats(0, 20))
def test_overdue_actions_are_reported_once_and_completely(per_second: float, now: float) -> None:
    pace, again = Pace(0.0, per_second, 3), Pace(0.0, per_second, 3)
    overdue = list(pace.overdue(now))
    assert all(instant <= now for instant in overdue)
    assert list(pace.overdue(now)) == []
    assert pace.take() > now
    assert [again.take() for _ in overdue] == overdue


@given(st.floats(0.5, 50), st.integers(0, 5), st.floats(0, 20))
def test_held_back_actions_are_counted_and_the_next_follows(
    per_second: float, taken: int, until: float
) -> None:
    pace = Pace(0.0, per_second, 1)
    for _ in range(taken):
        pace.take()
    skipped = pace.skip_until(until)
    assert skipped >= 0
    assert pace.take() > until or skipped == 0


@given(st.sampled_from(sorted(SHAPES)), st.floats(0, 0.999), st.integers(1, 500))
def test_a_shape_never_exceeds_its_limit_nor_has_no_users(shape: str, share: float, users: int) -> None:
    assert 1 <= SHAPES[shape](share, users) <= most(shape, users)


def test_every_shape_reaches_its_namesake() -> None:
    moments = [number / 1000 for number in range(1000)]
    assert max(SHAPES["burst"](share, 4) for share in moments) == 40
    assert [SHAPES["ramp"](share, 50) for share in (0.0, 0.55, 0.999)] == [5, 30, 50]
    rises = [SHAPES["spike"](a, 2) < SHAPES["spike"](b, 2) for a, b in pairwise(moments)]
    assert sum(rises) == 3
    waves = [SHAPES["soak"](share, 100) for share in moments]
    assert (min(waves), max(waves)) == (50, 100)
