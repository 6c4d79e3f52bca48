"""The messages of a queue not yet read since the start: everything from `next` on, and gaps below it left by a restart. Pure.

A gap holds messages that the log does not record as done. Gaps are read before anything above `next`, so
after a restart everything that was not acknowledged is due at once, in order, with its delivery count.
"""

from collections.abc import Iterator

from broker_store.leases.lease_table.stretches import Stretches

ATTEMPTS_MAX = 100_000
"""Messages whose past deliveries are remembered. Beyond it some start counting from zero."""


class Unseen:
    """The unread stretches, in order, and the delivery counts of their messages."""

    __slots__ = ("attempts", "gaps", "next")

    def __init__(self, start: int) -> None:
        self.next = start
        """The first offset never read."""
        self.gaps = Stretches()
        """Stretches below `next`."""
        self.attempts: dict[int, int] = {}
        """Delivery counts, as the log holds them."""

    @property
    def low(self) -> int:
        """The lowest offset in it."""
        return self.gaps.first[0] if self.gaps else self.next

    @property
    def first(self) -> tuple[int, int | None]:
        """The next stretch to read. Its end is None when it ends with the queue."""
        if self.gaps:
            return self.gaps.first
        return self.next, None

    def has(self, offset: int) -> bool:
        """Whether a message is unread."""
        return offset >= self.next or self.gaps.has(offset)

    def saw(self, start: int, end: int) -> None:
        """Remove the beginning of the first stretch."""
        if not self.gaps:
            assert start == self.next <= end
            self.next = end
            return
        first, last = self.gaps.first
        assert first == start <= end <= last
        self.gaps.cut(start, end)

    def cut(self, start: int, end: int) -> None:
        """Remove [start, end) anywhere. What remains below the new `next` becomes a gap."""
        if end > self.next:
            if start > self.next:
                self.gaps.append(self.next, start)
            self.next = end
        self.gaps.cut(start, end)

    def forget_attempts(self, start: int, end: int) -> None:
        """Forget the past deliveries of [start, end)."""
        attempts = self.attempts
        if end - start < len(attempts):
            for offset in range(start, end):
                attempts.pop(offset, None)
        elif attempts:
            for offset in [offset for offset in attempts if start <= offset < end]:
                del attempts[offset]

    def note_attempts(self, first: int, count: int, attempt: int) -> None:
        """Remember delivery counts. Nothing is kept for messages that are read or done."""
        for offset in range(first, first + count):
            if len(self.attempts) >= ATTEMPTS_MAX:
                return
            if self.has(offset):
                self.attempts[offset] = max(attempt, self.attempts.get(offset, 0))

    def skip_to(self, offset: int) -> None:
        """Drop everything below an offset."""
        self.gaps.cut(0, offset)
        self.next = max(self.next, offset)
        self.forget_attempts(0, offset)

    def end_at(self, offset: int) -> None:
        """Drop everything at or above an offset: a crash lost these messages, and others will get their offsets."""
        if self.next > offset:
            self.gaps.cut(offset, self.next)
            self.next = offset
            self.attempts = {at: attempt for at, attempt in self.attempts.items() if at < offset}

    def merged(self, others: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the gaps and other stretches, which do not overlap, in order. Adjacent ones are joined."""
        gaps = iter(self.gaps)
        gap, other = next(gaps, None), next(others, None)
        start = end = -1
        while gap is not None or other is not None:
            if other is None or (gap is not None and gap[0] < other[0]):
                assert gap is not None
                one, gap = gap, next(gaps, None)
            else:
                one, other = other, next(others, None)
            if one[0] == end:
                end = one[1]
                continue
            if start >= 0:
                yield start, end
            start, end = one
        if start >= 0:
            yield start, end
