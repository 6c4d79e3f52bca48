"""Stretches of a log by position. Pure."""

from collections.abc import Iterable
from typing import NamedTuple


class LogRange(NamedTuple):
    """The positions start ≤ p < end."""

    start: int
    end: int


def joined(ranges: Iterable[LogRange]) -> tuple[LogRange, ...]:
    """Return the ranges in order. Those that overlap or touch are one, and empty ones are left out."""
    made: list[LogRange] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if made and start <= made[-1].end:
            made[-1] = LogRange(made[-1].start, max(made[-1].end, end))
        else:
            made.append(LogRange(start, end))
    return tuple(made)
