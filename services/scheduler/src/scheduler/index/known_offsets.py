"""Computes which offsets of a queue a new term can skip: those decided, and those with a row on disk. Pure.

Only the rows say how far the index is. An undecided offset without a row is read again, whatever the reason.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gantry_wire.limits import INT64_MAX, PULL_MESSAGES_MAX
from scheduler.index.settled_ranges import SettledRanges

SKIP_MIN = 64
"""Shorter runs of known offsets are read again with their neighbours: a separate pull costs as much."""


class QueueState(NamedTuple):
    """The store's state of a queue when a term begins."""

    cursor: int
    """Lowest undecided offset."""
    end: int
    settled: list[tuple[int, int]]
    """Decided offsets above the cursor, as ranges [first, end), ascending."""

    def is_settled(self, offset: int) -> bool:
        """Whether an item is decided."""
        at = bisect_right(self.settled, (offset, INT64_MAX)) - 1
        return offset < self.cursor or (at >= 0 and offset < self.settled[at][1])


class Compared(NamedTuple):
    """The rows of a queue compared with the store."""

    known: list[tuple[int, int]]
    """Offsets that are decided or have a row, as ranges [first, end), ascending and disjoint."""
    dead: list[int]
    """Rows whose items are decided."""
    first: int
    last: int
    """The last remaining row; -1 when there is none."""


def compare(offsets: Iterable[int], state: QueueState) -> Compared | None:
    """Compare rows, in ascending order, with a queue. Returns None for a duplicate row or rows of another queue."""
    known, dead = list[tuple[int, int]](), list[int]()
    settled, at = state.settled, 0
    begin = end = max(state.cursor, 0)
    first = last = -1
    for offset in offsets:
        if offset >= state.end or offset == last:
            return None
        while at < len(settled) and settled[at][0] <= offset:
            if settled[at][0] > end:
                known.append((begin, end))
                begin = settled[at][0]
            end = max(end, settled[at][1])
            at += 1
        if offset < end:
            dead.append(offset)
            continue
        if offset > end:
            known.append((begin, end))
            begin = offset
        end = offset + 1
        last = offset
        if first < 0:
            first = offset
    for one in settled[at:]:
        if one[0] > end:
            known.append((begin, end))
            begin = one[0]
        end = max(end, one[1])
    known.append((begin, end))
    return Compared([one for one in known if one[0] < one[1]], dead, first, last)


class KnownOffsets(SettledRanges):
    """Ranges of known offsets: which records to drop, and which not to request."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        super().__init__(ranges)
        self._long = [one for one in ranges if one[1] - one[0] >= SKIP_MIN]
        self._ends = [end for _, end in self._long]

    def next_range(self, offset: int) -> tuple[int, int]:
        """Return where to read on from an offset, and how many messages to request."""
        ranges, at = self._long, bisect_right(self._ends, offset)
        if at < len(ranges) and ranges[at][0] <= offset:
            offset = ranges[at][1]
            at += 1
        until = ranges[at][0] if at < len(ranges) else offset + PULL_MESSAGES_MAX
        return offset, min(until - offset, PULL_MESSAGES_MAX)
