"""Estimates the time of one store from its answers: the clock in which messages become due. Pure: times are arguments.

The store reads its clock before the answer arrives here, so every sample is a lower bound and the greatest is best. A
store's clock never goes back; a step forward is just a greater sample. This needs a fine steady clock. With one of
whole milliseconds, like a loop's own, samples are up to 1 ms too great and messages are sent early.
"""

from __future__ import annotations


class StoreClock:
    """Store time in ms, from our steady clock in seconds. Never ahead of the store, except for drift; see `was_early`."""

    def __init__(self) -> None:
        self.wall_lag_ms = 0.0
        """How far the store's wall clock is behind store time: above 0 after it was set back."""
        self._offset_ms: float | None = None
        self._last_ms = 0.0

    @property
    def is_known(self) -> bool:
        """Whether the store has reported its time."""
        return self._offset_ms is not None

    def heard(self, store_ms: int, steady_seconds: float, wall_ms: int | None = None) -> None:
        """Take the time of an answer that arrived at `steady_seconds`."""
        self._last_ms = store_ms - steady_seconds * 1000
        if self._offset_ms is None or self._last_ms > self._offset_ms:
            self._offset_ms = self._last_ms
        if wall_ms is not None:
            self.wall_lag_ms = max(float(store_ms - wall_ms), 0.0)

    def was_early(self) -> None:
        """Correct drift: the store refused a message as not due yet."""
        self._offset_ms = self._last_ms

    def now_ms(self, steady_seconds: float) -> float:
        """Return store time; 0 while unknown, so that nothing is due."""
        return 0.0 if self._offset_ms is None else steady_seconds * 1000 + self._offset_ms

    def wall_ms(self, steady_seconds: float) -> float:
        """Return the time absolute instants wait for: the lower of store time and the store's wall clock."""
        return self.now_ms(steady_seconds) - self.wall_lag_ms
