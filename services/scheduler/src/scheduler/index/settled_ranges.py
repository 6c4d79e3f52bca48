"""Tells which offsets above a queue's cursor are decided, asked in ascending order. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class SettledRanges:
    """Ranges [first, end), ascending and disjoint."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ranges = list(ranges)
        self._at = 0

    @property
    def is_over(self) -> bool:
        """Whether no offset from here on is decided."""
        return self._at >= len(self._ranges)

    def holds(self, offset: int) -> bool:
        """Whether an offset is decided. Ask offsets in ascending order."""
        ranges, at = self._ranges, self._at
        while at < len(ranges) and ranges[at][1] <= offset:
            at += 1
        self._at = at
        return at < len(ranges) and ranges[at][0] <= offset
