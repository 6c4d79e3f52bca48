"""Runs: stretches of a queue's messages that share one state, one small object each. Pure. Never interprets the state.

A run names its messages by a bit mask from its first offset, so a batch of 32 that is leased and
acknowledged together costs one object and one step. Runs of a table never overlap, so a run can be found by
offset.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import IntEnum

RUN_MESSAGES_MAX = 256
"""Most messages per run: a receive delivers no more at once, and a mask of this size costs 60 bytes."""


class Kind(IntEnum):
    """State of the messages of a run."""

    LEASED = 0
    """A consumer has them until `time_ms`."""
    WAITING = 1
    """Given back with a delay, due at `time_ms`."""
    DUE = 2
    """To be delivered to the next receiver."""
    HELD = 3
    """Behind an earlier message of the same key."""
    DEAD = 4
    """Reached the delivery limit: on the way to the dead letters."""


class Run:
    """Messages `first + n` for each set bit n of `mask`.

    Those of `pending` are being settled and do not change until then.
    """

    __slots__ = ("attempt", "first", "key", "kind", "lease", "mask", "pending", "time_ms")

    def __init__(
        self,
        first: int,
        mask: int,
        kind: Kind,
        attempt: int = 0,
        lease: int = 0,
        time_ms: int = 0,
        key: str = "",
    ) -> None:
        self.first = first
        self.mask = mask
        self.pending = 0
        self.kind = kind
        self.attempt = attempt
        """Number of deliveries."""
        self.lease = lease
        """Number of the last lease, 0 when there was none since the start."""
        self.time_ms = time_ms
        self.key = key
        """The ordering key, or the topic in a retry topic. "" for neither."""

    @property
    def end(self) -> int:
        """One above the highest offset in it."""
        return self.first + self.mask.bit_length()

    @property
    def lowest(self) -> int:
        """The lowest offset in it."""
        return self.first + (self.mask & -self.mask).bit_length() - 1

    def has(self, offset: int) -> bool:
        """Whether it holds a message. `offset` must not be below `first`."""
        return bool(self.mask >> (offset - self.first) & 1)


class Runs:
    """All runs of one queue, in order of their offsets."""

    __slots__ = ("_by_first", "_firsts", "count")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._by_first: dict[int, Run] = {}
        self.count = 0
        """Messages in all runs."""

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[Run]:
        """Iterate in order. Nothing may be added or removed meanwhile."""
        by_first = self._by_first
        return (by_first[first] for first in self._firsts)

    @property
    def lowest(self) -> int | None:
        """The lowest offset in any run."""
        return self._by_first[self._firsts[0]].lowest if self._firsts else None

    def find(self, offset: int) -> Run | None:
        """Return the run that holds a message."""
        firsts = self._firsts
        at = bisect_right(firsts, offset)
        if not at:
            return None
        run = self._by_first[firsts[at - 1]]
        return run if run.has(offset) else None

    def at(self, first: int) -> Run | None:
        """Return the run that begins at an offset."""
        return self._by_first.get(first)

    def is_live(self, run: Run) -> bool:
        """Whether the run is still in the table."""
        return self._by_first.get(run.first) is run

    def between(self, start: int, end: int) -> list[Run]:
        """Return the runs with any message in [start, end)."""
        firsts = self._firsts
        at = max(bisect_right(firsts, start) - 1, 0)
        found: list[Run] = []
        while at < len(firsts) and firsts[at] < end:
            run = self._by_first[firsts[at]]
            if run.end > start:
                found.append(run)
            at += 1
        return found

    def add(self, run: Run) -> None:
        """Add a run that overlaps no other."""
        firsts, first = self._firsts, run.first
        assert run.mask & 1, "a run begins with a message"
        assert first not in self._by_first
        if not firsts or first > firsts[-1]:
            firsts.append(first)
        else:
            firsts.insert(bisect_left(firsts, first), first)
        self._by_first[first] = run
        self.count += run.mask.bit_count()

    def remove(self, run: Run) -> None:
        """Remove a run."""
        firsts = self._firsts
        del firsts[bisect_left(firsts, run.first)]
        del self._by_first[run.first]
        self.count -= run.mask.bit_count()

    def clear(self, run: Run, bits: int) -> None:
        """Remove messages from a run and from the table."""
        gone = run.mask & bits
        run.mask &= ~gone
        run.pending &= ~gone
        self.count -= gone.bit_count()
        if not run.mask:
            firsts = self._firsts
            del firsts[bisect_left(firsts, run.first)]
            del self._by_first[run.first]

    def carve(self, run: Run, bits: int) -> list[Run]:
        """Split a run so that some of its messages are in runs of their own. Returns those, in order.

        Unless all messages are wanted, the run itself leaves the table and its pieces replace it.
        """
        wanted = run.mask & bits
        if wanted == run.mask:
            return [run]
        if not wanted:
            return []
        self.remove(run)
        carved: list[Run] = []
        for first, mask, is_wanted in _pieces(run.mask, wanted):
            piece = Run(run.first + first, mask, run.kind, run.attempt, run.lease, run.time_ms, run.key)
            piece.pending = run.pending >> first & mask
            self.add(piece)
            if is_wanted:
                carved.append(piece)
        return carved


def _pieces(mask: int, wanted: int) -> Iterator[tuple[int, int, bool]]:
    """Split a mask where wanted and other bits meet: (place of the lowest bit, mask from there, whether wanted)."""
    at = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        wanted >>= skip
        at += skip
        is_wanted = bool(wanted & 1)
        other = mask & ~wanted if is_wanted else wanted
        size = (other & -other).bit_length() - 1 if other else mask.bit_length()
        part = mask & (1 << size) - 1
        yield at, part, is_wanted
        mask >>= size
        wanted >>= size
        at += size


def ranges_of(first: int, mask: int) -> list[int]:
    """Return a mask as one flat list: offset, count, offset, count, …."""
    if not mask & (mask + 1):
        return [first, mask.bit_length()]
    flat: list[int] = []
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        first += skip
        count = (~mask & (mask + 1)).bit_length() - 1
        flat += (first, count)
        mask >>= count
        first += count
    return flat


def stretches_of(first: int, mask: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches [start, end) of set bits."""
    flat = ranges_of(first, mask)
    for at in range(0, len(flat), 2):
        yield flat[at], flat[at] + flat[at + 1]


def lowest_bits(mask: int, count: int) -> int:
    """Return the lowest `count` set bits of a mask that has more."""
    if not mask & (mask + 1):
        return (1 << count) - 1
    kept = 0
    for _ in range(count):
        lowest = mask & -mask
        kept |= lowest
        mask ^= lowest
    return kept
