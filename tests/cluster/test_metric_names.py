"""The metrics of every service follow Prometheus' naming conventions: those that promtool checks and those of its naming guide."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SERVICES = ("nameserver", "broker-store", "scheduler", "txn-checker", "gateway")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
LABEL = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
TYPES = frozenset({"counter", "gauge", "histogram", "summary"})
BASE = frozenset({"seconds", "bytes", "ratio"})
OTHERWISE = frozenset(
    [
        "ns",
        "us",
        "ms",
        "sec",
        "secs",
        "s",
        "nanoseconds",
        "microseconds",
        "milliseconds",
        "minute",
        "minutes",
        "hour",
        "hours",
        "day",
        "days",
        "week",
        "weeks",
        "kb",
        "mb",
        "gb",
        "kib",
        "mib",
        "gib",
        "kilobytes",
        "megabytes",
        "gigabytes",
        "bits",
        "percent",
        "percents",
        "percentage",
    ]
)
"""Units other than seconds, bytes and ratios."""
RESERVED = ("_total", "_count", "_sum", "_bucket", "_created")


def faults(text: str) -> Iterator[str]:
    """Return the violations of the conventions by metrics in Prometheus' text format."""
    helps: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, *words = line.split(" ", 3)
            helps[name] = words[0] if words else ""
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name in kinds:
                yield f"{name}: stands twice"
            kinds[name] = kind
        elif line:
            yield from _of_sample(line, kinds)
    for name, kind in kinds.items():
        yield from (f"{name}: {fault}" for fault in _of_family(name, kind, helps.get(name, "")))


def _of_family(name: str, kind: str, words: str) -> Iterator[str]:
    parts = name.removesuffix("_total").split("_")
    if not NAME.fullmatch(name):
        yield "is no name in small letters with a prefix"
    if kind not in TYPES:
        yield f"has the type {kind}"
    if (kind == "counter") != name.endswith("_total"):
        yield "counters end in _total, and only they"
    if kind != "counter" and name.endswith(RESERVED):
        yield "ends as a part of another type does"
    if OTHERWISE.intersection(parts):
        yield "has another unit than seconds, bytes and ratios"
    if BASE.intersection(parts[:-1]):
        yield "has its unit in the middle"
    if TYPES.intersection(parts):
        yield "names its type"
    if not re.fullmatch(r"\S.*\.", words):
        yield f"has no sentence of help: {words!r}"
    if kind == "gauge" and "since the start" in words:
        yield "only grows, and is no counter"


def _of_sample(line: str, kinds: dict[str, str]) -> Iterator[str]:
    name, _, labels = line.rpartition(" ")[0].partition("{")
    family = name if name in kinds else re.sub(r"_(bucket|sum|count)$", "", name)
    if family not in kinds:
        yield f"{name}: has no type"
    for label in re.findall(r'([^,{}"=]+)="(?:[^"\\]|\\.)*"', labels):
        if not LABEL.fullmatch(label):
            yield f"{name}: the label {label} is not in small letters"
        if label in {"le", "quantile"} and kinds.get(family) not in {"histogram", "summary"}:
            yield f"{name}: the label {label} is reserved"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("# HELP x_waits Waits.\n# TYPE x_waits counter\nx_waits 1", "counters end in _total"),
        (
            "# HELP x_waits_total Waits.\n# TYPE x_waits_total gauge\nx_waits_total 1",
            "counters end in _total",
        ),
        ("# HELP x_wait_ms Wait.\n# TYPE x_wait_ms gauge\nx_wait_ms 1", "another unit"),
        ("# HELP x_bytes_held Held.\n# TYPE x_bytes_held gauge\nx_bytes_held 1", "unit in the middle"),
        ("# HELP x_wait_count Wait.\n# TYPE x_wait_count gauge\nx_wait_count 1", "another type does"),
        ("# HELP x_wait_gauge Wait.\n# TYPE x_wait_gauge gauge\nx_wait_gauge 1", "names its type"),
        ("# HELP x_waitMax Wait.\n# TYPE x_waitMax gauge\nx_waitMax 1", "small letters"),
        ("# HELP x_wait \n# TYPE x_wait gauge\nx_wait 1", "no sentence"),
        ("# HELP x_wait Waits since the start.\n# TYPE x_wait gauge\nx_wait 1", "no counter"),
        ('# HELP x_wait Wait.\n# TYPE x_wait gauge\nx_wait{queueId="1"} 1', "label queueId"),
        ('# HELP x_wait Wait.\n# TYPE x_wait gauge\nx_wait{le="1"} 1', "reserved"),
        ("x_wait 1", "has no type"),
    ],
)
def test_the_check_reports_each_fault(line: str, fault: str) -> None:
    assert [one for one in faults(line) if fault in one]


def test_the_check_accepts_correct_metrics() -> None:
    assert not list(
        faults(
            "# HELP x_wait_seconds Wait.\n# TYPE x_wait_seconds histogram\n"
            'x_wait_seconds_bucket{le="0.1",topic="a,b="c""} 1.0\nx_wait_seconds_sum 1.0\nx_wait_seconds_count 1.0\n'
            '# HELP x_put_bytes_total Bytes.\n# TYPE x_put_bytes_total counter\nx_put_bytes_total{topic="queueId"} 1.0\n'
        )
    )


@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_all_metrics_of_all_services_follow_the_naming_conventions(system: dict[str, Any]) -> None:
    url = f"{system['http']}/v1/topics/metric-names"
    for method, path, body in (
        ("PUT", "", b""),
        ("POST", "/messages", b'{"messages":[{"body":"x"},{"body":"y","delayMs":1}]}'),
        ("POST", "/groups/g/messages:receive", b'{"waitSeconds":2}'),
    ):
        request = urllib.request.Request(
            f"{url}{path}", body, {"content-type": "application/json"}, method=method
        )
        urllib.request.urlopen(request, timeout=60).close()
    log = Path(system["data"], "logs", "gantry.log").read_text()
    ports = {found.rstrip("/") for found in re.findall(r"\bready .*?http=(http://\S+)", log)}
    ports |= {broker["http"] for broker in system["brokers"]}
    assert len(ports) == len(SERVICES), ports
    found: list[str] = []
    prefixes: set[str] = set()
    for port in sorted(ports):
        with urllib.request.urlopen(f"{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        prefixes |= {name.split("_")[0] for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)}
        found += faults(text)
    assert found == []
    assert prefixes == {"nameserver", "gantry", "scheduler", "txn", "gateway"}
