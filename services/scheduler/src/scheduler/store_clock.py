"""The time of one store, as far as its answers tell: the clock in which messages become due. Pure: times are arguments.

An answer's time was read before the answer came here, so every sample is a lower bound and the greatest one is the best. A
store's clock never goes back; a forward step of it is a greater sample like any other. That holds for a steady clock that is read
finely: one of whole milliseconds (a loop's own) makes samples too great by up to one, and what is sent then comes early.
"""

from __future__ import annotations


class StoreClock:
    """Store time in ms from our steady clock in seconds. Never ahead of the store, but for drift; see `was_early`."""

    def __init__(self) -> None:
        self.wall_lag_ms = 0.0
        """How far the store's wall clock is behind its store time: above 0 after it was set back."""
        self._offset_ms: float | None = None
        self._last_ms = 0.0

    @property
    def is_known(self) -> bool:
        """Whether the store has told its time yet."""
        return self._offset_ms is not None

    def heard(self, store_ms: int, steady_seconds: float, wall_ms: int | None = None) -> None:
        """Take the time of an answer that came at `steady_seconds`."""
        self._last_ms = store_ms - steady_seconds * 1000
        if self._offset_ms is None or self._last_ms > self._offset_ms:
            self._offset_ms = self._last_ms
        if wall_ms is not None:
            self.wall_lag_ms = max(float(store_ms - wall_ms), 0.0)

    def was_early(self) -> None:
        """Take back what drift has made too great: the store said that something was not due yet."""
        self._offset_ms = self._last_ms

    def now_ms(self, steady_seconds: float) -> float:
        """Return store time; 0 while it is unknown, so that nothing is due."""
        return 0.0 if self._offset_ms is None else steady_seconds * 1000 + self._offset_ms

    def wall_ms(self, steady_seconds: float) -> float:
        """Return the time that absolute instants wait for: the lower of store time and the store's wall clock."""
        return self.now_ms(steady_seconds) - self.wall_lag_ms
