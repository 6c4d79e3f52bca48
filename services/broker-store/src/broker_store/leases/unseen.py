"""What of a queue was not looked at since the start: the rest above `next`, and gaps below it that a restart left. Pure.

A gap holds messages of which the log does not say that they are done. Gaps are looked at before anything above `next`, so after
a restart all that was not acknowledged is due at once, in order, and knows how often it was given before.
"""

from collections.abc import Iterator

from broker_store.leases.stretches import Stretches

ATTEMPTS_MAX = 100_000
"""Messages whose past deliveries are remembered; beyond it some begin to count anew."""


class Unseen:
    """The stretches to be looked at, in order, and the attempts of messages in them."""

    __slots__ = ("attempts", "gaps", "next")

    def __init__(self, start: int) -> None:
        self.next = start
        """The first offset never looked at."""
        self.gaps = Stretches()
        """Stretches below `next`."""
        self.attempts: dict[int, int] = {}
        """How often messages had been given, as the log knows."""

    @property
    def low(self) -> int:
        """The lowest offset in it."""
        return self.gaps.first[0] if self.gaps else self.next

    @property
    def first(self) -> tuple[int, int | None]:
        """The stretch to look at next; its end is None where the queue's own end is."""
        if self.gaps:
            return self.gaps.first
        return self.next, None

    def has(self, offset: int) -> bool:
        """Whether a message was not looked at."""
        return offset >= self.next or self.gaps.has(offset)

    def saw(self, start: int, end: int) -> None:
        """Take the beginning of the first stretch out."""
        if not self.gaps:
            assert start == self.next <= end
            self.next = end
            return
        first, last = self.gaps.first
        assert first == start <= end <= last
        self.gaps.cut(start, end)

    def cut(self, start: int, end: int) -> None:
        """Take [start, end) out, wherever it lies; what it leaves behind below the new `next` becomes a gap."""
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
        """Remember how often messages were given; of those that are seen or done nothing is kept."""
        for offset in range(first, first + count):
            if len(self.attempts) >= ATTEMPTS_MAX:
                return
            if self.has(offset):
                self.attempts[offset] = max(attempt, self.attempts.get(offset, 0))

    def skip_to(self, offset: int) -> None:
        """Leave out everything below an offset."""
        self.gaps.cut(0, offset)
        self.next = max(self.next, offset)
        self.forget_attempts(0, offset)

    def end_at(self, offset: int) -> None:
        """Believe nothing of messages at or above an offset: a crash took them, and others will have their offsets."""
        if self.next > offset:
            self.gaps.cut(offset, self.next)
            self.next = offset
            self.attempts = {at: attempt for at, attempt in self.attempts.items() if at < offset}

    def merged(self, others: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the gaps and other stretches, which overlap none, in order; those that touch as one."""
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
