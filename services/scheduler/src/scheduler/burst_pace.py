"""How fast a burst is sent: when more is due than one batch holds, the store is to serve others too. Pure: times are arguments.

The rule: full batches go one at a time, over all lanes, and after each comes a pause as long as the answer took, times (1 - share) /
share. So they never have the store working for more than that share of the time, whatever a settle costs it, and the pause follows
by itself when that changes. Batches that are not full keep out of this: few messages that are due never wait behind a burst.
"""

from __future__ import annotations

NEVER = float("inf")


class BurstPace:
    """The pace of one store's full batches. `lanes` are those whose last batch was full: there more is due than that."""

    def __init__(self, share: float) -> None:
        self.lanes: set[int] = set()
        self._pause_per_answer = (1 - share) / share
        self._on_their_way = 0
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

    def sent(self, now: float) -> None:
        """Note a request of a full batch that leaves. One batch may be several requests, a queue each."""
        if not self._on_their_way:
            self._sent_at = now
        self._on_their_way += 1

    def answered(self, now: float) -> None:
        """Note its end, with or without an answer."""
        self._on_their_way -= 1
        if not self._on_their_way:
            self._free_at = now + (now - self._sent_at) * self._pause_per_answer
