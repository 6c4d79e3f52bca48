"""A flat series is called flat and a growing one growing, despite noise, warm-up and the saw-teeth of restarts."""

import random
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from gantry_loadtest.endurance.judging import (
    MIB,
    Judgement,
    Point,
    judge_phases,
    judge_slope,
    judge_times,
    slope,
)
from gantry_loadtest.endurance.page import charts, outcome, pictures, render
from gantry_loadtest.endurance.samples import Seen, judgements, within_lives

LENGTH = 5400.0


def _noisy(grow_per_second: float, *, warm: float = 0.0) -> list[Point]:
    dice = random.Random(7)
    return [
        (at, 100 + dice.uniform(-5, 5) + grow_per_second * at + min(warm, warm * at / 900))
        for at in range(0, int(LENGTH) + 1, 10)
    ]


def _slope(points: list[Point]) -> Judgement:
    found = judge_slope("memory", points, LENGTH, share=0.15, least=12, unit="MiB")
    assert found is not None
    return found


def test_noise_and_warm_up_are_flat() -> None:
    assert _slope(_noisy(0.0)).is_flat
    assert _slope(_noisy(0.0, warm=80)).is_flat


def test_growth_by_a_quarter_is_not_flat_and_a_decline_is() -> None:
    assert not _slope(_noisy(0.012)).is_flat
    assert _slope(_noisy(-0.012)).is_flat


def test_few_outliers_are_not_a_slope() -> None:
    points = [(at, 1000.0 if at > LENGTH - 60 else y) for at, y in _noisy(0.0)]
    assert _slope(points).is_flat
    assert slope([(0, 0), (1, 2), (2, 4)]) == 2


def test_too_few_samples_are_not_judged() -> None:
    assert judge_slope("memory", _noisy(1.0)[:5], LENGTH, share=0.15, least=12, unit="MiB") is None
    assert judge_phases("handles", [(10, 4)], LENGTH, share=0.05, least=8, unit="") is None


@pytest.mark.parametrize(("last", "flat"), [(40, True), (48, True), (60, False)])
def test_handles_at_equal_phases_may_differ_by_a_few(last: int, flat: bool) -> None:
    points = [(2000, 39.0), (3000, 40.0), (3500, 41.0), (4000, last), (5000, last)]
    found = judge_phases("handles", points, LENGTH, share=0.05, least=8, unit="handles")
    assert found is not None
    assert found.is_flat is flat


def test_lateness_is_shown_but_not_judged() -> None:
    found = judge_times("lateness", [(2000, 5.0), (5000, 900.0)], LENGTH, least=20, unit="ms")
    assert found is not None
    assert not found.is_flat
    assert not found.is_judged


def _sample(at: float, pid: int, age: float, mebibytes: float, handles: int = 50) -> dict[str, Any]:
    process = {
        "pid": pid, "age": age, "pss": mebibytes * MIB, "rss": mebibytes * MIB, "dirty": 0, "handles": handles, "threads": 4, "cpu": 1,
    }  # fmt: skip
    return {
        "at": at, "load": 1.0, "processes": {"broker-a": process}, "cpuShare": 0.5, "logBytes": 9 * MIB,
        "firstSegment": 0, "diskBytes": 20 * MIB, "pullsHeld": 2.0, "receivesHeld": 1.0, "pending": 10,
        "attempted": int(at) * 2, "acknowledged": int(at) * 2, "read": int(at) * 2,
    }  # fmt: skip


def _seen(leak_a_life: float = 0.0, handles_a_life: int = 0) -> Seen:
    """Nine runs of a process of ten minutes each, ended by kills."""
    seen = Seen()
    seen.take("about", {"words": "2 cores <of a machine>"})
    for at in range(0, int(LENGTH) + 1, 10):
        life, age = divmod(at, 600)
        seen.take("sample", _sample(at, life, age, 100 + leak_a_life * age / 600, 50 + handles_a_life * life))
        if age == 590:
            seen.take("kill", {"at": at + 5.0, "name": "broker-a", "how": "kill -9", "seconds": 1.5})
    seen.take("minute", {"at": 30.0, "p50": 2.0, "p99": 9.0, "count": 100, "load": 1.0})
    return seen


def test_a_flat_run_has_only_flat_lines() -> None:
    judged = judgements(_seen())
    assert {"memory of broker-a", "handles of broker-a", "threads of broker-a"} <= {
        one.line for one in judged
    }
    assert all(one.is_flat for one in judged)


def test_handles_that_grow_from_life_to_life_are_detected() -> None:
    assert [one.line for one in judgements(_seen(handles_a_life=5)) if not one.is_flat] == [
        "handles of broker-a"
    ]


def test_a_leak_that_kills_hide_is_detected_within_lives() -> None:
    seen = _seen(leak_a_life=60)
    assert all(one.is_flat for one in judgements(seen))
    grown = within_lives(seen, "broker-a", "pss")
    assert grown is not None
    assert grown / MIB == pytest.approx(360, rel=0.05)


def test_the_page_shows_kills_and_is_self_contained() -> None:
    seen = _seen()
    page = render(seen, "attempted 1  lost 0", "pass", [], judgements(seen))
    assert page.count('class="mark"') >= 9
    assert "kill -9 broker-a at" in page
    assert "2 cores &lt;of a machine&gt;" in page
    assert "http" not in page
    assert "<script" not in page
    assert {"pss-1", "handles-1", "threads-1", "disk", "lateness", "recovery", "rates", "held"} <= set(
        charts(seen)
    )


def test_pictures_are_self_contained_and_well_formed() -> None:
    drawn = pictures(_seen())
    assert set(drawn) <= set(charts(_seen()))
    for picture in drawn.values():
        assert ET.fromstring(picture).tag.endswith("svg")
        assert "prefers-color-scheme" in picture
    assert "kill -9 broker-a" in drawn["pss-1"]


def test_an_aborted_run_reports_its_samples() -> None:
    lines = [
        '{"kind": "about", "words": "w"}\n', '{"kind": "fault", "at": 1, "words": "x <broke>"}\n', '{"kind": "sam',
    ]  # fmt: skip
    seen = Seen.of_lines(lines)
    assert seen.faults == [{"at": 1, "words": "x <broke>"}]
    assert outcome(seen, {}, ["aborted"], judgements(seen))["verdict"] == "fail"
    assert "x &lt;broke&gt;" in render(seen, "not counted", "fail", ["aborted"], [])
