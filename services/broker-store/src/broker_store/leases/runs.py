"""Runs: stretches of a queue's messages that share one fate, in one small object each. Pure, and ignorant of what a fate means.

A run names its messages by a bit mask from its first offset on, so that a batch of 32 that is leased together and acknowledged
together costs one object and one step. Runs of a table never overlap, which is what makes one findable by offset.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import IntEnum

RUN_MESSAGES_MAX = 256
"""No run covers more: a receive gives no more at once, and a mask of this size costs 60 bytes."""


class Kind(IntEnum):
    """What is true of the messages of a run."""

    LEASED = 0
    """Somebody has them, until `time_ms`."""
    WAITING = 1
    """Given back with a delay, due at `time_ms`."""
    DUE = 2
    """To be given to whoever asks next."""
    HELD = 3
    """Behind an earlier message of the same key."""
    DEAD = 4
    """Given too often: on the way to the dead letters."""


class Run:
    """Messages `first + n` for each set bit n of `mask`; those of `pending` are being settled and change no more until then."""

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
        """How often they were given out."""
        self.lease = lease
        """Number of the last lease, 0 when there was none since the start."""
        self.time_ms = time_ms
        self.key = key
        """What orders them, or the topic they belong to in a retry topic; "" for neither."""

    @property
    def end(self) -> int:
        """One past the highest offset still in it."""
        return self.first + self.mask.bit_length()

    @property
    def lowest(self) -> int:
        """The lowest offset still in it."""
        return self.first + (self.mask & -self.mask).bit_length() - 1

    def has(self, offset: int) -> bool:
        """Whether a message is in it; `offset` must not lie below `first`."""
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
        """Go through them in order; nothing may be added or removed meanwhile."""
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
        """Whether the run is still one of these."""
        return self._by_first.get(run.first) is run

    def between(self, start: int, end: int) -> list[Run]:
        """Return the runs that hold anything in [start, end)."""
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
        """Add a run; it overlaps none."""
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
        """Forget a run."""
        firsts = self._firsts
        del firsts[bisect_left(firsts, run.first)]
        del self._by_first[run.first]
        self.count -= run.mask.bit_count()

    def clear(self, run: Run, bits: int) -> None:
        """Take messages out of a run, and out of the queue's care."""
        gone = run.mask & bits
        run.mask &= ~gone
        run.pending &= ~gone
        self.count -= gone.bit_count()
        if not run.mask:
            firsts = self._firsts
            del firsts[bisect_left(firsts, run.first)]
            del self._by_first[run.first]

    def carve(self, run: Run, bits: int) -> list[Run]:
        """Divide a run so that some of its messages are in runs by themselves; return those, in order.

        Unless it is wanted whole, the run itself is no longer one of these: its pieces took its place.
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
    """Cut a mask where wanted and other bits meet: (place of the lowest bit, mask from there, whether wanted)."""
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
    """Return a mask as one flat list of offset, count, offset, count and so on."""
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
