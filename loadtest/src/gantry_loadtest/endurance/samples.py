"""Turns the JSON lines of an endurance run into points over time. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from gantry_loadtest.endurance.judging import (
    LIFE_SECONDS_MIN,
    MIB,
    Judgement,
    Point,
    after_first_third,
    judge_phases,
    judge_slope,
    judge_times,
    slope,
)

Sample = dict[str, Any]
DISTURBED_SECONDS = 30.0
"""Samples this soon after a kill are ignored for memory: survivors wait for the killed process."""


@dataclass
class Seen:
    """All samples of a run, in order. Times are seconds of the run."""

    about: dict[str, Any] = field(default_factory=dict[str, Any])
    samples: list[Sample] = field(default_factory=list[Sample])
    kills: list[Sample] = field(default_factory=list[Sample])
    minutes: list[Sample] = field(default_factory=list[Sample])
    faults: list[Sample] = field(default_factory=list[Sample])

    def take(self, kind: str, fields: dict[str, Any]) -> None:
        """Add one line."""
        if kind == "about":
            self.about.update(fields)
        else:
            {"sample": self.samples, "kill": self.kills, "minute": self.minutes, "fault": self.faults}[
                kind
            ].append(fields)

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> Seen:
        """Read the lines of a run, skipping a torn last one."""
        seen = cls()
        for line in lines:
            if line.endswith("\n"):
                fields = json.loads(line)
                seen.take(fields.pop("kind"), fields)
        return seen

    @property
    def length(self) -> float:
        """Seconds from the start of the load to the last sample."""
        return max((sample["at"] for sample in self.samples), default=0.0)

    @property
    def names(self) -> list[str]:
        """Process names, in order of appearance."""
        return list(dict.fromkeys(name for sample in self.samples for name in sample["processes"]))

    @property
    def marks(self) -> list[tuple[float, str]]:
        """When something was killed or restarted, and what."""
        return [(kill["at"], f"{kill['how']} {kill['name']}") for kill in self.kills]

    def of_process(self, name: str, figure: str) -> list[Point]:
        """Return a metric of a process over time."""
        return [
            (sample["at"], sample["processes"][name][figure])
            for sample in self.samples
            if figure in sample["processes"].get(name, {})
        ]

    def grown(self, name: str, figure: str) -> list[Point]:
        """Return it without the first minute of each life of the process."""
        return [
            (sample["at"], process[figure])
            for sample in self.samples
            if (process := sample["processes"].get(name, {})).get("age", 0.0) >= LIFE_SECONDS_MIN
            and not any(0 <= sample["at"] - kill["at"] < DISTURBED_SECONDS for kill in self.kills)
        ]

    def calm(self, name: str, figure: str) -> list[Point]:
        """Return it at one phase: the last sample before each kill of a process that had lived for a minute."""
        found: list[Point] = []
        for kill in self.kills:
            before = [
                (sample["at"], process[figure])
                for sample in self.samples
                if sample["at"] < kill["at"]
                and (process := sample["processes"].get(name, {})).get("age", 0.0) >= LIFE_SECONDS_MIN
            ]
            found += before[-1:]
        return list(dict.fromkeys(found))

    def of_all(self, figure: str) -> list[Point]:
        """Return a metric of the whole system over time."""
        return [(sample["at"], sample[figure]) for sample in self.samples if sample.get(figure) is not None]

    def rate(self, figure: str) -> list[Point]:
        """Return the growth of a counter a second."""
        points = self.of_all(figure)
        return [
            (late[0], max(0.0, late[1] - soon[1]) / (late[0] - soon[0]))
            for soon, late in pairwise(points)
            if late[0] > soon[0]
        ]

    def scaled(self, points: list[Point], by: float) -> list[Point]:
        """Return points in another unit."""
        return [(x, y / by) for x, y in points]


def within_lives(seen: Seen, name: str, figure: str) -> float | None:
    """Return the median slope an hour within the lives of a process: kills would hide such a leak."""
    lives: dict[int, list[Point]] = {}
    for sample in seen.samples:
        process = sample["processes"].get(name, {})
        if process.get("age", 0.0) >= LIFE_SECONDS_MIN:
            lives.setdefault(process["pid"], []).append((sample["at"], process[figure]))
    late = [after_first_third(points, seen.length) for points in lives.values()]
    slopes = [slope(points[:: max(1, len(points) // 60)]) for points in late if len(points) >= 12]
    return median(slopes) * 3600 if slopes else None


def judgements(seen: Seen) -> list[Judgement]:
    """Judge every line of a run, except those with too few points."""
    length, found = seen.length, list[Judgement | None]()
    for name in seen.names:
        memory = seen.scaled(seen.grown(name, "pss"), MIB)
        found.append(judge_slope(f"memory of {name}", memory, length, share=0.15, least=12, unit="MiB"))
        for figure, least in (("handles", 8), ("threads", 2)):
            points = seen.calm(name, figure)
            found.append(
                judge_phases(f"{figure} of {name}", points, length, share=0.05, least=least, unit=figure)
            )
    for figure, words in (("diskBytes", "disk of the system"), ("logBytes", "log of the store")):
        points = seen.scaled(seen.of_all(figure), MIB)
        found.append(judge_slope(words, points, length, share=0.25, least=96, unit="MiB"))
    for share, least in (("p50", 20.0), ("p99", 500.0)):
        points = [(minute["at"], minute[share]) for minute in seen.minutes if minute["count"]]
        found.append(judge_times(f"lateness {share}", points, length, least=least, unit="ms"))
    for name in dict.fromkeys(kill["name"] for kill in seen.kills):
        points = [(kill["at"], kill["seconds"]) for kill in seen.kills if kill["name"] == name]
        found.append(judge_times(f"recovery of {name}", points, length, least=5.0, unit="s"))
    return [judgement for judgement in found if judgement is not None]


def percentile(ordered: list[float], share: float) -> float:
    """Return the value at a share of the sorted values; 0.0 for none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
