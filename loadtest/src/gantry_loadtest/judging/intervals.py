"""A set of integers stored as ranges: millions of consecutive ones cost as much as one. Pure."""

from bisect import bisect_right


class Intervals:
    """The numbers added. Adding in nearly ascending order is cheap."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        """Range i holds the numbers from _starts[i] up to, not including, _ends[i]; no two touch."""

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number < self._ends[at]

    def __len__(self) -> int:
        return sum(end - start for start, end in zip(self._starts, self._ends, strict=True))

    def add(self, number: int) -> bool:
        """Add a number; False when it is already there."""
        at = bisect_right(self._starts, number) - 1
        if at >= 0 and number < self._ends[at]:
            return False
        touches_left = at >= 0 and self._ends[at] == number
        touches_right = at + 1 < len(self._starts) and self._starts[at + 1] == number + 1
        if touches_left and touches_right:
            self._ends[at] = self._ends.pop(at + 1)
            del self._starts[at + 1]
        elif touches_left:
            self._ends[at] = number + 1
        elif touches_right:
            self._starts[at + 1] = number
        else:
            self._starts.insert(at + 1, number)
            self._ends.insert(at + 1, number + 1)
        return True

    @property
    def ranges(self) -> int:
        """The number of ranges."""
        return len(self._starts)
