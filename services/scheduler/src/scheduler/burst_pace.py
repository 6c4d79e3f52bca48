"""How fast a burst is sent: when more is due than one batch holds, the store is to serve others too. Pure: times are arguments.

The rule: full batches go one at a time, over all lanes. After each comes a pause as long as its answer took, so that others have half
the store, whatever a settle costs there. Where that would make the burst slower than `per_second` the pause is shorter, but never
under a quarter of the answer's time: between the slices of a long settle the store serves others by itself. Batches that are not
full keep out of this: few messages that are due never wait behind a burst.
"""

from __future__ import annotations

NEVER = float("inf")
PAUSE_SHARE_MIN = 0.25


class BurstPace:
    """The pace of one store's full batches. `lanes` are those whose last batch was full: there more is due than that."""

    def __init__(self, per_second: float) -> None:
        self.lanes: set[int] = set()
        self._per_second = per_second
        self._on_their_way = 0
        self._count = 0
        self._sent_at = self._free_at = 0.0

    def took(self, lane: int, *, is_full: bool) -> None:
        """Note what was taken of a lane."""
        if is_full:
            self.lanes.add(lane)
        else:
            self.lanes.discard(lane)

    def free_at(self) -> float:
        """Return when the next batch of `lanes` may be sent, in seconds; infinity while one is on its way."""
        return NEVER if self._on_their_way else self._free_at

    def sent(self, now: float, count: int) -> None:
        """Note a request of a full batch that leaves. One batch may be several requests, a queue each."""
        if not self._on_their_way:
            self._sent_at, self._count = now, 0
        self._on_their_way += 1
        self._count += count

    def answered(self, now: float) -> None:
        """Note its end, with or without an answer."""
        self._on_their_way -= 1
        if not self._on_their_way:
            took = now - self._sent_at
            in_time = self._count / self._per_second - took
            self._free_at = now + max(took * PAUSE_SHARE_MIN, min(took, in_time))
