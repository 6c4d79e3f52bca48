"""The wall clock as far as it is believed: a step counts only once it has lasted. Pure: readings come in.

One wrong reading (NTP, a resumed virtual machine) must not make minutes look like days: what is deleted does not come back, and
what is delivered early cannot be taken back.
"""

STEP_SECONDS_MIN = 1.0
"""Smaller differences are drift: believed at once, and followed by store time little by little."""
STEP_LASTS_SECONDS = 900.0
"""After so long at the same distance, a step is the truth."""
START_LASTS_SECONDS = 120.0
"""After a start of the machine nobody knows how long it was off: a clock that is ahead of the last time known is believed so soon."""


class SteadyWall:
    """How far the wall clock is ahead of the steady one. Offsets are seconds of the wall clock less seconds of the steady clock."""

    def __init__(self, offset_s: float, *, is_known: bool) -> None:
        """`is_known`: `offset_s` is of this run of the machine; else it is the least that it can be."""
        self.offset_s = offset_s
        """What is believed."""
        self.is_known = is_known
        self.is_stepping = False
        """The last reading was off what is believed."""
        self.steps = 0
        """Times the wall clock left its course while the machine ran."""
        self._stepped_offset_s = offset_s
        self._stepped_at_s = 0.0

    @property
    def step_s(self) -> float:
        """By how much the wall clock is ahead of what is believed; 0 while it is on its course."""
        return self._stepped_offset_s - self.offset_s if self.is_stepping else 0.0

    @property
    def lasts_s(self) -> float:
        """How long a step of this kind must last."""
        return STEP_LASTS_SECONDS if self.is_known or self.step_s < 0 else START_LASTS_SECONDS

    def look(self, offset_s: float, steady_s: float) -> None:
        """Take a reading of both clocks."""
        if abs(offset_s - self.offset_s) < STEP_SECONDS_MIN:
            self.offset_s, self.is_stepping, self.is_known = offset_s, False, True
        elif not self.is_stepping or abs(offset_s - self._stepped_offset_s) >= STEP_SECONDS_MIN:
            self._stepped_offset_s, self._stepped_at_s, self.is_stepping = offset_s, steady_s, True
            self.steps += self.is_known

    def has_lasted(self, steady_s: float) -> bool:
        """Whether the wall clock has stepped and stayed there."""
        return self.is_stepping and steady_s - self._stepped_at_s >= self.lasts_s

    def believe(self) -> None:
        """Follow the step."""
        self.offset_s, self.is_stepping, self.is_known = self._stepped_offset_s, False, True
