"""By how much store time was moved ahead, and when: an hour begun before still ends after an hour. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

SHIFTS_MAX = 256
"""As many are remembered. They are hours apart, where there are any at all."""


class Shift(NamedTuple):
    """Store time went from `at_ms` to `at_ms + by_ms` in no time: no message has a store time between the two."""

    at_ms: int
    by_ms: int


class Shifts:
    """All of them that are remembered, in order."""

    def __init__(self, shifts: Iterable[Shift] = ()) -> None:
        self.all = list(shifts)[-SHIFTS_MAX:]
        self.total_ms = sum(shift.by_ms for shift in self.all)

    def plus(self, shift: Shift) -> "Shifts":
        """Return these and a newer one."""
        return Shifts([*self.all, shift])

    def since(self, store_ms: int) -> int:
        """Return by how much in all store time was moved after it was `store_ms`."""
        moved_ms = 0
        for at_ms, by_ms in reversed(self.all):
            if at_ms <= store_ms:
                break
            moved_ms += by_ms
        return moved_ms

    def before(self, now_ms: int, passed_ms: int) -> int:
        """Return the store time of the moment that lies `passed_ms` before `now_ms`."""
        then_ms = now_ms - passed_ms
        for at_ms, by_ms in reversed(self.all):
            if at_ms + by_ms <= then_ms:
                break
            then_ms -= by_ms
        return then_ms
