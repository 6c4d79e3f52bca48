"""A set of offsets as stretches [start, end), in order: few when many offsets are adjacent. Pure.

Every query and change finds its place by bisection. Removal moves what follows up in one piece, as in any
list: 8 bytes per stretch.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class Stretches:
    """Stretches that do not overlap."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, stretches: Iterable[tuple[int, int]] = ()) -> None:
        """Start with stretches in order."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in stretches:
            self._starts.append(start)
            self._ends.append(end)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over a copy, in order."""
        return iter(list(zip(self._starts, self._ends, strict=True)))

    @property
    def first(self) -> tuple[int, int]:
        """Return the first stretch. There must be one."""
        return self._starts[0], self._ends[0]

    def has(self, offset: int) -> bool:
        """Whether an offset is in a stretch."""
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def count(self, start: int, end: int) -> int:
        """Return how many offsets of [start, end) are in stretches."""
        first, behind = bisect_right(self._ends, start), bisect_left(self._starts, end)
        return sum(min(self._ends[at], end) - max(self._starts[at], start) for at in range(first, behind))

    def append(self, start: int, end: int) -> None:
        """Add a stretch after all others."""
        assert start < end
        assert not self._ends or self._ends[-1] <= start
        self._starts.append(start)
        self._ends.append(end)

    def cut(self, start: int, end: int) -> None:
        """Remove the offsets of [start, end)."""
        starts, ends = self._starts, self._ends
        first, behind = bisect_right(ends, start), bisect_left(starts, end)
        if first >= behind:
            return
        left, right = starts[first], ends[behind - 1]
        kept = [(left, start)] if left < start else []
        if right > end:
            kept.append((end, right))
        starts[first:behind] = [stretch[0] for stretch in kept]
        ends[first:behind] = [stretch[1] for stretch in kept]
