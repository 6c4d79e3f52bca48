"""What of a queue needs not be read when a term begins: what is decided there, and what the index on disk has kept. Pure.

The index says of itself by its rows how far it is, nothing else does: whatever undecided offset has no row is read again, so that
it makes no difference why the row is missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gantry_wire.limits import INT64_MAX, PULL_MESSAGES_MAX
from scheduler.settled_ranges import SettledRanges

SKIP_MIN = 64
"""A run of known offsets that is shorter is read once more with what lies around it: a pull of its own costs as much."""


class QueueState(NamedTuple):
    """What the store says of a queue when a term begins."""

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
    """The rows of a queue beside what the store says of it."""

    known: list[tuple[int, int]]
    """Offsets that are decided or have a row, as ranges [first, end), ascending and apart from each other."""
    dead: list[int]
    """Rows whose items are decided."""
    first: int
    last: int
    """The rows left; -1 when there is none."""


def compare(offsets: Iterable[int], state: QueueState) -> Compared | None:
    """Compare rows, in ascending order, with a queue; None when they cannot be of this queue, or one is there twice."""
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
    """Ranges that are known: which records to leave out, and which not to ask for at all."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        super().__init__(ranges)
        self._long = [one for one in ranges if one[1] - one[0] >= SKIP_MIN]
        self._ends = [end for _, end in self._long]

    def piece(self, offset: int) -> tuple[int, int]:
        """Return where reading goes on from an offset, and how many messages to ask for."""
        ranges, at = self._long, bisect_right(self._ends, offset)
        if at < len(ranges) and ranges[at][0] <= offset:
            offset = ranges[at][1]
            at += 1
        until = ranges[at][0] if at < len(ranges) else offset + PULL_MESSAGES_MAX
        return offset, min(until - offset, PULL_MESSAGES_MAX)
