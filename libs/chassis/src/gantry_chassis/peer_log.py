"""Says why connections were refused or closed. A crowd of them must not fill the log: a few lines a second, and how many there were."""

import time
from collections.abc import Callable

from gantry_chassis.logs import get_logger

LINES_PER_SECOND = 5

_log = get_logger()


class PeerLog:
    """Writes `peer` and `reason`, by warnings."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._second = 0
        self._lines = 0
        self._unsaid = 0

    def __call__(self, peer: str, words: str) -> None:
        """Say it, unless this second has its lines; what was left out is counted in the next line."""
        second = int(self._now())
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= LINES_PER_SECOND:
            self._unsaid += 1
            return
        self._lines += 1
        others = {"others_before": self._unsaid} if self._unsaid else {}
        self._unsaid = 0
        _log.warning("connection closed", peer=peer, reason=words, **others)
