"""Where queues begin and end: neither goes back, unless a store loses what was not durable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

Queue = tuple[str, str, int]
"""Store, topic and queue id."""
Bounds = tuple[int, int]
"""Least offset, and the next one."""


class QueueBounds:
    """The largest bounds that were read, by queue. `violate` is called with each contradiction."""

    def __init__(self, violate: Callable[[str], None]) -> None:
        self._violate = violate
        self._known: defaultdict[Queue, Bounds] = defaultdict(lambda: (0, 0))

    def known(self, queue: Queue) -> Bounds:
        """Return what was read of a queue so far."""
        return self._known[queue]

    def read(self, queue: Queue, known: Bounds, least: int, end: int) -> None:
        """Record bounds of a queue, read after `known` was known."""
        if least < known[0] or end < known[1] or least > end:
            self._violate(f"{queue} has the offsets {least} to {end}, after {known[0]} to {known[1]}")
        before = self._known[queue]
        self._known[queue] = max(before[0], least), max(before[1], end)

    def deleted(self, store: str, topic: str) -> None:
        """Forget the queues of a topic: they begin and end at 0 until somebody sends to it again."""
        for queue in [queue for queue in self._known if queue[:2] == (store, topic)]:
            del self._known[queue]

    def lost(self, store: str) -> None:
        """Forget what a store showed: a power cut may bring back a deleted segment, and take what was not durable."""
        for queue in [queue for queue in self._known if queue[0] == store]:
            del self._known[queue]
