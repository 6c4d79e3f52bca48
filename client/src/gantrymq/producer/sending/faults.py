"""Latency fault tolerance: avoids a broker that was slow or failed for a while. RocketMQ's `MQFaultStrategy`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gantrymq.message import MessageQueue

LATENCY_MS = (50, 100, 550, 1800, 3000, 5000, 15000)
"""An answer that took at least this long …"""
AVOID_SECONDS = (0, 0, 2, 5, 6, 10, 30)
"""… avoids its broker for this long (5.x)."""
FAILED_MS = 10_000
"""The latency that a failed send counts as."""

assert len(LATENCY_MS) == len(AVOID_SECONDS)
assert all(a < b for a, b in pairwise(LATENCY_MS))


def avoid_seconds(latency_ms: float) -> float:
    """Return how long a broker is avoided after an answer that took `latency_ms`."""
    for limit, seconds in zip(reversed(LATENCY_MS), reversed(AVOID_SECONDS), strict=True):
        if latency_ms >= limit:
            return seconds
    return 0


class LatencyFaults:
    """The known latencies of a producer's brokers. Times are seconds of one clock, given by the caller."""

    __slots__ = ("_latency_ms", "_until")

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._latency_ms: dict[str, float] = {}

    def answered(self, broker: str, seconds: float, now: float) -> None:
        """Record the latency of a broker."""
        self._note(broker, seconds * 1000, now)

    def failed(self, broker: str, now: float) -> None:
        """Record that a broker could not be reached, or failed."""
        self._note(broker, FAILED_MS, now)

    def is_available(self, broker: str, now: float) -> bool:
        """Whether messages may go to a broker."""
        return now >= self._until.get(broker, 0.0)

    def choose(self, queues: Sequence[MessageQueue], start: int, now: float, avoid: str | None = None) -> int:
        """Return the index of the next queue from `start` on whose broker is available and is not `avoid`.

        If there is none: a queue of the fastest broker other than `avoid`, else the next.
        """
        count = len(queues)
        for n in range(count):
            at = (start + n) % count
            if queues[at].broker != avoid and self.is_available(queues[at].broker, now):
                return at
        others = [at for at in range(count) if queues[at].broker != avoid]
        if not others:
            return start % count
        return min(
            others, key=lambda at: (self._latency_ms.get(queues[at].broker, 0.0), (at - start) % count)
        )

    def _note(self, broker: str, latency_ms: float, now: float) -> None:
        self._latency_ms[broker] = latency_ms
        avoided = avoid_seconds(latency_ms)
        if avoided:
            self._until[broker] = now + avoided
