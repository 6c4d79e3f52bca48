"""Percentiles are exact to their bucket, metrics of several processes add up, and points in time are found again."""

import json
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_loadtest.judging.findings import EXAMPLES_MAX, Findings
from gantry_loadtest.judging.latencies import Latencies

TIMES = st.lists(st.floats(0.02, 100_000), min_size=1, max_size=50)


def counted(times: list[float]) -> Latencies:
    latencies = Latencies()
    for ms in times:
        latencies.add(ms)
    return latencies


@given(TIMES, st.floats(0.01, 1))
def test_a_percentile_is_that_of_the_values_within_two_percent(times: list[float], share: float) -> None:
    exact = sorted(times)[max(1, ceil(len(times) * share)) - 1]
    assert counted(times).percentile(share) == pytest.approx(exact, rel=0.02)


@given(TIMES, TIMES)
def test_the_sum_of_two_histograms_is_that_of_all_values(left: list[float], right: list[float]) -> None:
    both = counted(left)
    both.merge(counted(right))
    assert sorted(both.to_list()[2:]) == sorted(counted(left + right).to_list()[2:])
    assert (both.count, both.max_ms) == (len(left) + len(right), max(left + right))


def test_an_empty_histogram_has_no_percentile() -> None:
    assert (Latencies().percentile(0.99), Latencies().mean()) == (0.0, 0.0)


def filled(times: list[float]) -> Findings:
    findings = Findings.over(60)
    for second, ms in enumerate(times):
        findings.took("send", second, ms)
        findings.count("acknowledged", second)
    findings.count("notSeen", number=2)
    findings.example("a fault")
    return findings


@given(TIMES, TIMES)
def test_findings_of_workers_add_up(left: list[float], right: list[float]) -> None:
    summed = Findings.over(60)
    for one in (filled(left), filled(right)):
        summed.merge(Findings.from_dict(json.loads(json.dumps(one.to_dict()))))
    assert summed.counts == {"acknowledged": len(left) + len(right), "notSeen": 4}
    assert summed.of("send").count == len(left) + len(right)
    assert summed.between("send", 0, 1).count == 2
    assert summed.rate("acknowledged", 0, 1) == 2


def test_moments_are_those_of_the_requested_seconds() -> None:
    findings = filled([10, 20, 30, 40])
    assert findings.between("send", 1, 3).count == 2
    assert findings.between("send", 1, 3).max_ms == 30
    assert findings.rate("acknowledged", 1, 3) == 1
    assert findings.rate("acknowledged", 2, 2) == 0


def test_only_the_first_faults_are_described() -> None:
    findings = Findings()
    for number in range(100):
        findings.example(str(number))
    assert findings.examples == [str(number) for number in range(EXAMPLES_MAX)]
