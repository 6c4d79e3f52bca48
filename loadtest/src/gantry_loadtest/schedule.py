"""When a user of an open loop means to act: at instants fixed beforehand, whether the answer before came or not. Pure.

A latency counts from the intended instant, so that waiting behind a slow answer is not hidden.
"""

from collections.abc import Iterator
from math import floor

GOLDEN = 0.6180339887498949
"""Multiples of it, cut to their fraction, spread users evenly over a period however many they are."""


class Pace:
    """The instants of one user: `per_second` of them, from `began` on; the n-th user of a run is shifted by its own fraction."""

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
        """Leave out what is intended before an instant; return how many that were."""
        wanted = max(0, floor((instant - self._began) / self._period) + 1)
        skipped = max(0, wanted - self._taken)
        self._taken += skipped
        return skipped

    def overdue(self, now: float) -> Iterator[float]:
        """Yield, and take, every instant up to now: a user that ends says how long these have waited."""
        while self._began + self._taken * self._period <= now:
            yield self.take()
