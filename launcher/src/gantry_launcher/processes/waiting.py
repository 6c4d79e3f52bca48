"""Messages of a long start: which processes it waits for, and what to do. Repeats them rarely, and ends the start after its timeout."""

import os
from collections.abc import Iterable, Mapping

from gantry_launcher.errors import NotReadyInTime

FIRST_SECONDS = 5.0
AGAIN_SECONDS = 30.0
"""The same message is repeated after this time, then after twice this time, and so on."""
AGAIN_SECONDS_MAX = 600.0
MIB = 1024 * 1024
FREE_BYTES_MIN = 192 * MIB
"""Free space below which a store with the default limits refuses sends."""
ROOM_BYTES_MIN = 272 * MIB
"""Free space from which on a store accepts sends again: the minimum, the ballast and a margin."""


class Waiting:
    """Decides every few seconds of a start whether to print a message."""

    def __init__(self, stores: Iterable[str], began: float, timeout_seconds: float = 0) -> None:
        self._stores = tuple(stores)
        self._began, self._timeout_seconds = began, timeout_seconds
        self._next_look = began + FIRST_SECONDS
        self._last_said: tuple[list[str], bool] | None = None
        self._again_at = 0.0
        self._again_seconds = AGAIN_SECONDS

    def is_due(self, now: float) -> bool:
        """Return whether it is time to check which processes are missing."""
        return now > self._next_look or self._is_over(now)

    def _is_over(self, now: float) -> bool:
        return 0 < self._timeout_seconds <= now - self._began

    def message(self, missing: Mapping[str, str], now: float) -> str | None:
        """Return the message about missing processes (name: reason); None when it was printed recently.

        Raises NotReadyInTime after the timeout of the start.
        """
        self._next_look = now + FIRST_SECONDS
        remedies = self._full_disks()
        named = ", ".join(f"{name} ({said})" for name, said in missing.items())
        if self._is_over(now):
            message = "; ".join([f"not ready after {self._timeout_seconds} s: {named}", *remedies])
            raise NotReadyInTime(f"{message}. Everything that was started is stopped")
        what = (sorted(missing), bool(remedies))  # the reasons may differ at every check
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
                continue  # the store reports the fault of its directory itself
            free = found.f_bavail * found.f_frsize
            if free < ROOM_BYTES_MIN:
                remedies.append(
                    f"the disk of {store} has {free // MIB} MiB free; sends are refused below {FREE_BYTES_MIN // MIB} MiB "
                    f"and taken again from {ROOM_BYTES_MIN // MIB} MiB on: make room, and the start continues by itself, or give another directory with --data"
                )
        return remedies
