"""When and by how much store time was moved ahead, so that an hour begun before still takes an hour. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

SHIFTS_MAX = 256
"""Shifts remembered. They are hours apart, if there are any."""


class Shift(NamedTuple):
    """Store time jumped from `at_ms` to `at_ms + by_ms`: no message has a store time between the two."""

    at_ms: int
    by_ms: int


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
        for at_ms, by_ms in reversed(self.all):
            if at_ms <= store_ms:
                break
            moved_ms += by_ms
        return moved_ms

    def before(self, now_ms: int, passed_ms: int) -> int:
        """Return the store time `passed_ms` before `now_ms`."""
        then_ms = now_ms - passed_ms
        for at_ms, by_ms in reversed(self.all):
            if at_ms + by_ms <= then_ms:
                break
            then_ms -= by_ms
        return then_ms
