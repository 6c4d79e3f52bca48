"""What a start says while it takes long: who is waited for, and what to do about it. Says the same thing seldom."""

import os
from collections.abc import Iterable, Sequence

FIRST_SECONDS = 5.0
AGAIN_SECONDS = 30.0
MIB = 1024 * 1024
FREE_BYTES_MIN = 192 * MIB
"""Free space below which a store with the default limits refuses sends."""
ROOM_BYTES_MIN = 272 * MIB
"""Free space from which on it takes them again: that minimum, the ballast and some margin."""


class Waiting:
    """Decides every few seconds of a start whether there is something to say."""

    def __init__(self, stores: Iterable[str], began: float) -> None:
        self._stores = tuple(stores)
        self._next_look = began + FIRST_SECONDS
        self._last_words = ""
        self._last_said = 0.0

    def is_due(self, now: float) -> bool:
        """Whether it is time to look who is missing."""
        return now > self._next_look

    def words(self, missing: Sequence[str], now: float) -> str | None:
        """Return what to say about those missing; None when it was said a moment ago."""
        self._next_look = now + FIRST_SECONDS
        words = f"still waiting for {', '.join(missing)}"
        if words == self._last_words and now - self._last_said < AGAIN_SECONDS:
            return None
        self._last_words, self._last_said = words, now
        return "; ".join([words, *self._full_disks()])

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
