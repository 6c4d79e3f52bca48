"""The schedule of an open-loop user: fixed instants, whether the previous answer arrived or not. Pure.

A latency counts from the intended instant, so that waiting behind a slow answer is not hidden.
"""

from collections.abc import Iterator
from math import floor

GOLDEN = 0.6180339887498949
"""Multiples of it, cut to their fraction, spread users evenly over a period however many they are."""


class Pace:
    """The instants of one user: `per_second`, from `began` on. Each user of a run is shifted by its own fraction."""

    __slots__ = ("_began", "_period", "_taken")

    def __init__(self, began: float, per_second: float, user: int) -> None:
        assert per_second > 0
        self._period = 1 / per_second
        self._began = began + self._period * ((user * GOLDEN) % 1)
        self._taken = 0

    def take(self) -> float:
        """Return the next instant; it may have passed."""
        instant = self._began + self._taken * self._period
        self._taken += 1
        return instant

    def skip_until(self, instant: float) -> int:
        """Skip the instants before a time; return how many were skipped."""
        wanted = max(0, floor((instant - self._began) / self._period) + 1)
        skipped = max(0, wanted - self._taken)
        self._taken += skipped
        return skipped

    def overdue(self, now: float) -> Iterator[float]:
        """Take and yield every instant up to now: a stopping user reports how long these have waited."""
        while self._began + self._taken * self._period <= now:
            yield self.take()
