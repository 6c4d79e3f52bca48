"""Rates from growing counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.metrics.rates import DAY_S, NOTHING, Meter, Mornings, Rate, Series, Triple


def test_a_steady_count_has_a_steady_rate_over_every_span():
    triple = Triple()
    for second in range(1, 700):
        triple.sample(second, second * 5)
    assert triple.text(699) == "5.000 5.000 5.000"
    assert triple.per_second(699) == 5.0


def test_the_rate_of_a_constant_count_falls_to_zero():
    series = Series(60)
    series.sample(0, 0)
    series.sample(10, 100)
    for second in range(20, 90, 10):
        series.sample(second, 100)
    assert series.rate(80, 10) == Rate(0, 0.0)


def test_one_sample_is_no_rate():
    series = Series(60)
    assert series.rate(0, 10) == NOTHING
    series.sample(5, 7)
    assert series.rate(5, 10) == NOTHING


@given(st.lists(st.integers(0, 50), min_size=2, max_size=200))
def test_sums_over_all_that_is_kept_equal_the_growth(steps):
    series = Series(10_000)
    total = 0
    for second, step in enumerate(steps):
        total += step
        series.sample(second, total)
    assert series.rate(len(steps) - 1, 10_000).sum == total - steps[0]


def test_a_long_life_keeps_few_samples():
    series = Series(60)
    for second in range(10_000):
        series.sample(second, second)
    assert len(series._times) <= 62


@pytest.mark.parametrize(("span", "expected"), [("minute", 60), ("hour", 3600), ("day", 86_400)])
def test_a_meter_reports_minute_hour_and_day(span, expected):
    meter = Meter()
    for second in range(0, 2 * DAY_S + 10, 10):
        meter.sample(second, second)
    rate = getattr(meter, span)(2 * DAY_S)
    assert rate == Rate(expected, 1.0)


def test_midnights_move_today_to_yesterday():
    mornings = Mornings(10)
    mornings.pass_time(DAY_S - 1, 500)
    assert (mornings.yesterday, mornings.today) == (0, 0)
    mornings.pass_time(DAY_S, 700)
    assert (mornings.yesterday, mornings.today) == (0, 700)
    mornings.pass_time(2 * DAY_S, 900)
    assert (mornings.yesterday, mornings.today) == (700, 900)
    mornings.pass_time(9 * DAY_S, 1000)
    assert (mornings.yesterday, mornings.today) == (1000, 1000)
