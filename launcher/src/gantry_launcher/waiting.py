"""What a start says while it takes long: who is waited for, and what to do about it. Says the same thing seldom, and ends in time."""

import os
from collections.abc import Iterable, Mapping

from gantry_launcher.errors import NotReadyInTime

FIRST_SECONDS = 5.0
AGAIN_SECONDS = 30.0
"""The same is said again after so long, then after twice as long, and so on."""
AGAIN_SECONDS_MAX = 600.0
MIB = 1024 * 1024
FREE_BYTES_MIN = 192 * MIB
"""Free space below which a store with the default limits refuses sends."""
ROOM_BYTES_MIN = 272 * MIB
"""Free space from which on it takes them again: that minimum, the ballast and some margin."""


class Waiting:
    """Decides every few seconds of a start whether there is something to say."""

    def __init__(self, stores: Iterable[str], began: float, timeout_seconds: float = 0) -> None:
        self._stores = tuple(stores)
        self._began, self._timeout_seconds = began, timeout_seconds
        self._next_look = began + FIRST_SECONDS
        self._last_said: tuple[list[str], bool] | None = None
        self._again_at = 0.0
        self._again_seconds = AGAIN_SECONDS

    def is_due(self, now: float) -> bool:
        """Whether it is time to look who is missing."""
        return now > self._next_look or self._is_over(now)

    def _is_over(self, now: float) -> bool:
        return 0 < self._timeout_seconds <= now - self._began

    def words(self, missing: Mapping[str, str], now: float) -> str | None:
        """Return what to say about those missing (name: what it says); None when it was said not long ago.

        Raises NotReadyInTime when the start may take no longer.
        """
        self._next_look = now + FIRST_SECONDS
        remedies = self._full_disks()
        named = ", ".join(f"{name} ({said})" for name, said in missing.items())
        if self._is_over(now):
            words = "; ".join([f"not ready after {self._timeout_seconds} s: {named}", *remedies])
            raise NotReadyInTime(f"{words}. What was started is stopped")
        what = (sorted(missing), bool(remedies))  # what each says may change with every look
        if what != self._last_said:
            self._again_seconds = AGAIN_SECONDS
        elif now < self._again_at:
            return None
        self._last_said, self._again_at = what, now + self._again_seconds
        self._again_seconds = min(2 * self._again_seconds, AGAIN_SECONDS_MAX)
        return "; ".join([f"still waiting for {named}", *remedies])

    def _full_disks(self) -> list[str]:
        """Return a remedy for each store whose disk has too little room for sends."""
        remedies: list[str] = []
        for store in self._stores:
            try:
                found = os.statvfs(store)
            except OSError:
                continue  # it says itself what is wrong with its directory
            free = found.f_bavail * found.f_frsize
            if free < ROOM_BYTES_MIN:
                remedies.append(
                    f"the disk of {store} has {free // MIB} MiB free; sends are refused below {FREE_BYTES_MIN // MIB} MiB "
                    f"and taken again from {ROOM_BYTES_MIN // MIB} MiB on: make room, and the start goes on by itself, or give another directory with --data"
                )
        return remedies
