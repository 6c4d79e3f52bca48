"""The wall clock as retention believes it: a step counts only once it has lasted. Pure; both clocks come in.

One wrong reading (NTP, a resumed virtual machine) must not make minutes look like days: what is deleted does not come back.
"""

from collections.abc import Callable

STEP_SECONDS_MIN = 5.0
"""Smaller differences are drift, and followed at once."""
STEP_LASTS_SECONDS = 900.0
"""After so long at the same distance, a step is the truth."""


class SteadyWall:
    """Milliseconds since 1970 that move with the monotonic clock, and follow a step of the wall clock late."""

    def __init__(self, wall_s: Callable[[], float], monotonic_s: Callable[[], float]) -> None:
        self._wall_s = wall_s
        self._monotonic_s = monotonic_s
        self._offset_s = wall_s() - monotonic_s()
        self._stepped_offset_s: float | None = None
        self._stepped_at_s = 0.0
        self.steps = 0
        """Times the wall clock left its course."""

    @property
    def step_s(self) -> float:
        """By how much the wall clock is ahead of what is believed; 0 while it is on its course."""
        return 0.0 if self._stepped_offset_s is None else self._stepped_offset_s - self._offset_s

    def now_ms(self) -> int:
        """Look at both clocks, and return the time that is believed."""
        monotonic_s = self._monotonic_s()
        offset_s = self._wall_s() - monotonic_s
        if abs(offset_s - self._offset_s) < STEP_SECONDS_MIN:
            self._offset_s, self._stepped_offset_s = offset_s, None
        elif self._stepped_offset_s is None or abs(offset_s - self._stepped_offset_s) >= STEP_SECONDS_MIN:
            self._stepped_offset_s, self._stepped_at_s = offset_s, monotonic_s
            self.steps += 1
        elif monotonic_s - self._stepped_at_s >= STEP_LASTS_SECONDS:
            self._offset_s, self._stepped_offset_s = offset_s, None
        return int((self._offset_s + monotonic_s) * 1000)
