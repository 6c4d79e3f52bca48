"""Limits how fast a burst is sent, so that the store can serve other clients. Pure: times are arguments.

A burst is more due messages than one batch holds. Full batches go one at a time, across all due queues. After each
batch the scheduler pauses for as long as the answer took, which leaves other clients half of the store. The pause is
shorter where the burst would drop below `per_second`, but never under a quarter of the answer's time. Partial batches
are not paced: a few due messages never wait behind a burst.
"""

from __future__ import annotations

NEVER = float("inf")
PAUSE_SHARE_MIN = 0.25


class BurstPace:
    """The pace of one store's full batches.

    `due_queues` holds the due queues whose last batch was full: more is due in them.
    """

    def __init__(self, per_second: float) -> None:
        self.due_queues: set[int] = set()
        self._per_second = per_second
        self._on_their_way = 0
        self._count = 0
        self._sent_at = self._free_at = 0.0

    def took(self, due_queue: int, *, is_full: bool) -> None:
        """Record how much was taken from a due queue."""
        if is_full:
            self.due_queues.add(due_queue)
        else:
            self.due_queues.discard(due_queue)

    def free_at(self) -> float:
        """Return when the next batch of `due_queues` may be sent, in seconds; infinity while one is in flight."""
        return NEVER if self._on_their_way else self._free_at

    def sent(self, now: float, count: int) -> None:
        """Record a request of a full batch. A batch may take several requests, one per queue."""
        if not self._on_their_way:
            self._sent_at, self._count = now, 0
        self._on_their_way += 1
        self._count += count

    def answered(self, now: float) -> None:
        """Record that a request ended, with or without an answer."""
        self._on_their_way -= 1
        if not self._on_their_way:
            took = now - self._sent_at
            in_time = self._count / self._per_second - took
            self._free_at = now + max(took * PAUSE_SHARE_MIN, min(took, in_time))
