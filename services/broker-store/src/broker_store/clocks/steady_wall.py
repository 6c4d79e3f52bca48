"""The trusted wall clock: a step counts only once it has lasted. Pure: callers pass readings.

One wrong reading (NTP, a resumed virtual machine) must not make minutes look like days: deletion and early
delivery cannot be undone.
"""

STEP_SECONDS_MIN = 1.0
"""Smaller differences are drift: trusted at once, and followed by store time little by little."""
STEP_LASTS_SECONDS = 900.0
"""A step that lasts this long is trusted."""
START_LASTS_SECONDS = 120.0
"""After a start of the machine the time it was off is unknown, so a clock ahead of the last known time is trusted this soon."""


class SteadyWall:
    """Offset of the wall clock from the monotonic clock, in seconds."""

    def __init__(self, offset_s: float, *, is_known: bool) -> None:
        """With `is_known`, `offset_s` is of this run of the machine; else it is a lower bound."""
        self.offset_s = offset_s
        """The trusted offset."""
        self.is_known = is_known
        self.is_stepping = False
        """The last reading differed from the trusted offset."""
        self.steps = 0
        """Number of wall clock steps while the machine ran."""
        self._stepped_offset_s = offset_s
        self._stepped_at_s = 0.0

    @property
    def step_s(self) -> float:
        """How far the wall clock is ahead of the trusted time, 0 while it is on course."""
        return self._stepped_offset_s - self.offset_s if self.is_stepping else 0.0

    @property
    def lasts_s(self) -> float:
        """How long a step of this kind must last."""
        return STEP_LASTS_SECONDS if self.is_known or self.step_s < 0 else START_LASTS_SECONDS

    def look(self, offset_s: float, steady_s: float) -> None:
        """Process a reading of both clocks."""
        if abs(offset_s - self.offset_s) < STEP_SECONDS_MIN:
            self.offset_s, self.is_stepping, self.is_known = offset_s, False, True
        elif not self.is_stepping or abs(offset_s - self._stepped_offset_s) >= STEP_SECONDS_MIN:
            self._stepped_offset_s, self._stepped_at_s, self.is_stepping = offset_s, steady_s, True
            self.steps += self.is_known

    def has_lasted(self, steady_s: float) -> bool:
        """Whether the wall clock has stepped and stayed there."""
        return self.is_stepping and steady_s - self._stepped_at_s >= self.lasts_s

    def trust(self) -> None:
        """Trust the step."""
        self.offset_s, self.is_stepping, self.is_known = self._stepped_offset_s, False, True
