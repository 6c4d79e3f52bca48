"""When and by how much store time was moved ahead, so that an hour begun before still takes an hour. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

SHIFTS_MAX = 256
"""Shifts remembered. They are hours apart, if there are any."""


class Shift(NamedTuple):
    """Store time jumped from `at_ms` to `at_ms + by_ms`: no message has a store time between the two."""

    at_ms: int
    by_ms: int
    from_ms: int = 0
    """It moves what began at or after this store time. The machine was off for `by_ms` just before it, so for older
    messages that time has passed."""


class Shifts:
    """All remembered shifts, in order."""

    def __init__(self, shifts: Iterable[Shift] = ()) -> None:
        self.all = list(shifts)[-SHIFTS_MAX:]
        self.total_ms = sum(shift.by_ms for shift in self.all)

    def plus(self, shift: Shift) -> "Shifts":
        """Return these and a newer one."""
        return Shifts([*self.all, shift])

    def since(self, store_ms: int) -> int:
        """Return how far store time was moved in total after it was `store_ms`."""
        moved_ms = 0
        for shift in reversed(self.all):
            if shift.at_ms <= store_ms:
                break
            if store_ms >= shift.from_ms:
                moved_ms += shift.by_ms
        return moved_ms

    def before(self, now_ms: int, passed_ms: int) -> int:
        """Return the store time `passed_ms` before `now_ms`. While the machine was off, that of its next start."""
        then_ms = now_ms - passed_ms
        for shift in reversed(self.all):
            if shift.at_ms + shift.by_ms <= then_ms:
                break
            if then_ms >= shift.from_ms:  # else that long ago was before the machine was off
                then_ms = max(then_ms - shift.by_ms, shift.from_ms)
        return then_ms
