"""Parses the output of RocketMQ's benchmark programs. Part of rocketmq.py; starts nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

REPORTS_DROPPED = 2
"""The first reports of a program cover its warm-up: connections, routes, compilation."""

_RATE = re.compile(r"\b(Send MPS|Send TPS|Consume TPS): +(\d+)")
_LATENCY = re.compile(r"\b(?:Average RT|AVG\(B2C\) RT)\(ms\): +([\d.]+)")
_FAILED = re.compile(r"\b(?:Send Failed|Response Failed|Failed Count): +(\d+)")


class Report(NamedTuple):
    """A line of a program: messages per second, mean latency in ms, failures so far."""

    rate: float
    latency_ms: float
    failed: int


class Result(NamedTuple):
    """A run: means over its reports after the warm-up; rate 0 if the program reported nothing."""

    rate: float
    latency_ms: float
    failed: int
    reports: int


def read_report(line: str) -> Report | None:
    """Return the report of a line; None for any other line. A batch producer's rate is that of its messages."""
    rates = {name: float(value) for name, value in _RATE.findall(line)}
    if not rates:
        return None
    rate = next(rates[name] for name in ("Send MPS", "Send TPS", "Consume TPS") if name in rates)
    latency = _LATENCY.search(line)
    failed = sum(int(value) for value in _FAILED.findall(line))
    return Report(rate, float(latency[1]) if latency else 0.0, failed)


def summary(lines: Iterable[str]) -> Result:
    """Return the means of a program's reports, without those of its warm-up."""
    reports = [report for line in lines if (report := read_report(line)) is not None]
    counted = reports[REPORTS_DROPPED:]
    if not counted:
        return Result(0.0, 0.0, reports[-1].failed if reports else 0, 0)
    return Result(
        fmean(report.rate for report in counted),
        fmean(report.latency_ms for report in counted),
        counted[-1].failed,
        len(counted),
    )


class Side(NamedTuple):
    """A broker's part in a comparison: the run, and the broker's CPU seconds per second of it."""

    result: Result
    broker_cores: float

    @property
    def per_cpu_second(self) -> float:
        """Return messages per CPU second of the broker; 0 if it used too little to measure."""
        return self.result.rate / self.broker_cores if self.broker_cores else 0.0
