"""Intervals behave as a set of numbers and stay few for consecutive numbers."""

from hypothesis import given
from hypothesis import strategies as st

from gantry_loadtest.judging.intervals import Intervals


@given(st.lists(st.integers(0, 60)))
def test_ranges_behave_as_a_set(numbers: list[int]) -> None:
    kept, model = Intervals(), set[int]()
    for number in numbers:
        assert kept.add(number) == (number not in model)
        model.add(number)
    assert [number for number in range(-1, 62) if number in kept] == sorted(model)
    assert len(kept) == len(model)
    gaps = sum(1 for number in model if number + 1 not in model)
    assert kept.ranges == gaps


@given(st.permutations(range(40)))
def test_consecutive_numbers_are_one_range(numbers: list[int]) -> None:
    kept = Intervals()
    for number in numbers:
        kept.add(number)
    assert (kept.ranges, len(kept)) == (1, 40)
