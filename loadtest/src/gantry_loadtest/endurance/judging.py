"""Decides which lines of an endurance run are flat, by stated rules. Pure: points over seconds in, judgements out.

The first third of a run is warm-up and is not judged. Memory and disk: the robust slope of the rest, times its
length, is small beside the median. Handles and threads: at the same phase (just before each kill, after the longest
calm) the last third equals the middle third. Lateness and recovery depend on other load of the machine: they are
reported, not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

Point = tuple[float, float]
Points = Sequence[Point]

MIB = 1024 * 1024
BUCKETS_MAX = 90
POINTS_MIN = 6
LIFE_SECONDS_MIN = 60.0
"""Time after its start in which a process is not judged: it fills its caches."""


@dataclass(frozen=True)
class Judgement:
    """One line: by how much it changed, and by how much it may."""

    line: str
    rule: str
    change: float
    limit: float
    level: float
    unit: str
    is_judged: bool = True

    @property
    def is_flat(self) -> bool:
        """Whether it changed by no more than allowed. A fall is always allowed."""
        return self.change <= self.limit

    def to_dict(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "line": self.line, "rule": self.rule, "change": round(self.change, 3), "limit": round(self.limit, 3),
            "level": round(self.level, 3), "unit": self.unit, "judged": self.is_judged, "flat": self.is_flat,
        }  # fmt: skip


def after_first_third(points: Points, length: float) -> list[Point]:
    """Return the points that are judged."""
    return [point for point in points if point[0] >= length / 3]


def slope(points: Points) -> float:
    """Return the median slope between all pairs of points (Theil and Sen), in units a second."""
    slopes = [
        (late[1] - soon[1]) / (late[0] - soon[0])
        for soon, late in combinations(points, 2)
        if late[0] > soon[0]
    ]
    return median(slopes) if slopes else 0.0


def buckets(points: Points, count: int = BUCKETS_MAX) -> list[Point]:
    """Return medians over equal stretches of time, at most `count`."""
    if not points:
        return []
    first, last = points[0][0], points[-1][0]
    width = max((last - first) / count, 1e-9)
    found: dict[int, list[Point]] = {}
    for point in points:
        found.setdefault(min(count - 1, int((point[0] - first) / width)), []).append(point)
    return [(median(x for x, _ in some), median(y for _, y in some)) for some in found.values()]


def judge_slope(
    line: str, points: Points, length: float, *, share: float, least: float, unit: str
) -> Judgement | None:
    """Judge a line by its slope after the first third; None with too few points."""
    late = buckets(after_first_third(points, length))
    if len(late) < POINTS_MIN:
        return None
    level = median(y for _, y in late)
    change = slope(late) * (late[-1][0] - late[0][0])
    rule = f"after the first third, slope times length at most {share:.0%} of the median or {least:g}"
    return Judgement(line, rule, change, max(share * level, least), level, unit)


def judge_phases(
    line: str, points: Points, length: float, *, share: float, least: float, unit: str
) -> Judgement | None:
    """Judge a line at equal phases: the median of the last third against that of the middle third."""
    middle = [y for x, y in points if length / 3 <= x < 2 * length / 3]
    last = [y for x, y in points if x >= 2 * length / 3]
    if not middle or not last:
        return None
    level = median(middle)
    rule = f"before each kill, median of the last third over that of the middle third: at most {share:.0%} or {least:g} more"
    return Judgement(line, rule, median(last) - level, max(share * level, least), level, unit)


def judge_times(line: str, points: Points, length: float, *, least: float, unit: str) -> Judgement | None:
    """Report whether the last third is much slower than the middle third; this is not judged."""
    found = judge_phases(line, points, length, share=1.0, least=least, unit=unit)
    if found is None:
        return None
    rule = f"median of the last third over that of the middle third: at most as much again, or {least:g}; reported, not judged"
    return Judgement(line, rule, found.change, found.limit, found.level, unit, is_judged=False)
