"""A run fails exactly when it exceeds a limit; the page and the JSON line report the measurements."""

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gantry_loadtest.catalog import PROFILES
from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.judging.verdict import Limits, Outcome, Totals, judge
from gantry_loadtest.options import Plan, parse
from gantry_loadtest.pages.charts import bars, lines, nice_top
from gantry_loadtest.pages.report import write_report
from gantry_loadtest.running.run_summary import summary_lines, warnings


def plan_of(*words: str) -> Plan:
    plan = parse(list(words))
    assert isinstance(plan, Plan)
    return plan


def seen() -> Findings:
    findings = Findings.over(60, 48)
    for number in range(100):
        findings.took("send", number / 10, 10.0 + number)
        findings.count("acknowledged", number / 10)
    return findings


def judged(limits: Limits, *, requests: int = 480, failures: int = 0, **counts: int) -> Outcome:
    findings = seen()
    findings.counts.update(counts)
    return judge(Outcome("send", "send", Totals(requests, failures, 48), findings, limits))


def test_a_run_within_its_limits_passes_and_the_line_is_complete() -> None:
    line = judged(Limits(max_p99_ms=200, min_rate=10), notSeen=4, refused=7).to_dict()
    assert json.loads(json.dumps(line)) == line
    assert list(line)[:4] == ["profile", "requests", "failures", "requestsPerSecond"]
    wanted = {"requests": 480, "failures": 0, "requestsPerSecond": 10, "lost": 0, "duplicates": 0, "early": 0}
    assert {**line, **wanted, "notSeen": 4, "refused": 7, "verdict": "pass", "shortfalls": []} == line
    assert line["p50Ms"] == pytest.approx(59, rel=0.02)
    assert line["p99Ms"] == pytest.approx(108, rel=0.02)


@pytest.mark.parametrize(
    ("limits", "counts", "told_of"),
    [
        (Limits(), {"lost": 1, "failures": 1}, "lost: 1, none is allowed"),
        (Limits(max_lost=2), {"lost": 3, "failures": 3}, "lost: 3, at most 2 allowed"),
        (Limits(), {"duplicates": 1, "failures": 1}, "duplicates: 1"),
        (Limits(), {"early": 1, "failures": 1}, "early: 1"),
        (Limits(), {"disordered": 1, "failures": 1}, "disordered: 1"),
        (Limits(), {"forbidden": 1, "failures": 1}, "forbidden: 1"),
        (Limits(), {"damaged": 1, "failures": 1}, "damaged: 1"),
        (Limits(), {"failures": 5}, "failed requests: 5"),
        (Limits(max_refused=0), {"refused": 1}, "refused: 1"),
        (Limits(max_p50_ms=50), {}, "p50 of send"),
        (Limits(max_p99_ms=100), {}, "p99 of send"),
        (Limits(min_rate=11), {}, "rate: 10.0 requests/s, at least 11/s"),
        (Limits(), {"requests": 0}, "nothing was answered"),
    ],
)
def test_each_exceeded_limit_is_reported(limits: Limits, counts: dict[str, int], told_of: str) -> None:
    outcome = judged(limits, **counts)
    assert outcome.verdict == "fail"
    (shortfall,) = outcome.shortfalls
    assert shortfall.startswith(told_of)


def test_allowed_and_unseen_faults_are_no_shortfall() -> None:
    assert judged(Limits(max_lost=1), lost=1, failures=1).verdict == "pass"
    assert judged(Limits(), notSeen=50, refused=50).verdict == "pass"


def unmeasured(limits: Limits, **counts: int) -> Outcome:
    """Sends that succeeded, but no message at the consumer."""
    findings = seen()
    findings.counts.update(counts)
    return judge(Outcome("end-to-end", "delivery", Totals(480, 0, 48), findings, limits))


def test_a_latency_that_was_never_measured_misses_its_limit() -> None:
    outcome = unmeasured(Limits(max_p50_ms=50, max_p99_ms=100))
    assert outcome.verdict == "fail"
    assert outcome.shortfalls == [
        "p50 of delivery: none was seen, at most 50 ms is allowed",
        "p99 of delivery: none was seen, at most 100 ms is allowed",
    ]


def test_a_run_without_a_measurement_does_not_pass() -> None:
    outcome = unmeasured(Limits(), notSeen=480)
    line = outcome.to_dict()
    assert (line["verdict"], line["p50Ms"], line["p99Ms"], line["shortfalls"]) == ("notSeen", None, None, [])
    plan = plan_of("end-to-end")
    (warning, _) = warnings(plan, outcome)
    assert warning.startswith("No delivery was measured")
    assert list(summary_lines(plan, outcome, []))[-1] == "verdict: notSeen"


def test_other_limits_are_judged_without_a_measured_latency() -> None:
    assert unmeasured(Limits(min_rate=11)).shortfalls == ["rate: 10.0 requests/s, at least 11/s is asked for"]
    assert unmeasured(Limits(min_rate=9)).verdict == "notSeen"


class Page(HTMLParser):
    """Counts elements, and checks that they nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in {"meta", "!doctype"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", PROFILES)
def test_the_page_is_self_contained_and_shows_charts(name: str, tmp_path: Path) -> None:
    plan = plan_of(name)
    outcome = judged(Limits(max_lost=0), lost=1, failures=1)
    outcome.findings.example("send: <b>no answer</b> from https://example.com/x")
    page = write_report(
        tmp_path / "a" / "b", plan, outcome, ["An answer, at http://127.0.0.1:1"], "http://127.0.0.1:8080"
    )
    text = page.read_text()
    assert re.search(r"https?:|src=|<script|@import|url\(", text) is None
    assert "prefers-color-scheme:dark" in text
    assert "<b>no answer" not in text
    parsed = Page(text)
    assert parsed.open == []
    assert parsed.seen.count("svg") >= 2
    kept = json.loads((tmp_path / "a" / "b" / "report.json").read_text())
    assert kept["verdict"] == "fail"
    assert kept["latencies"]["send"]["count"] == 100


def test_empty_charts_say_so_and_axes_end_at_round_numbers() -> None:
    assert "Nothing was seen" in lines("x", {"a": []}, "ms")
    assert "Nothing was seen" in bars("x", [("a", 0)], "ms")
    assert "<circle" in lines("x", {"a": [(0.0, 5.0)]}, "ms")
    assert [nice_top(value) for value in (0, 0.7, 1, 2.4, 11, 26, 99.9, 501)] == [
        1,
        1,
        1,
        2.5,
        20,
        50,
        100,
        1000,
    ]


def test_the_summary_names_the_verdict_and_its_doubts() -> None:
    plan = plan_of("send")
    outcome = judged(Limits(), unsent=3, refused=2, heldBack=1, notSeen=9, unknown=4, clientCpuPercent=97)
    found = list(warnings(plan, dataclasses.replace(outcome, interrupted=True)))
    assert len(found) == 6
    assert "97 % of a core" in found[1]
    assert list(summary_lines(plan, outcome, found))[-1] == "verdict: pass"
    assert (
        list(summary_lines(plan, judged(Limits(), lost=1, failures=1), []))[-1]
        == "verdict: fail: lost: 1, none is allowed"
    )
