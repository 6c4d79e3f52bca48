"""Logs why connections were refused or closed: a few lines a second, and how many more there were."""

from collections.abc import Callable

from gantry_chassis.logs.structured import get_logger

LINES_PER_SECOND = 5

_log = get_logger()


class PeerLog:
    """Logs `peer` and `reason` as warnings."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._second = 0
        self._lines = 0
        self._unsaid = 0

    def __call__(self, peer: str, message: str) -> None:
        """Log a refusal, or count it for the next line when this second has its lines."""
        second = int(self._now())
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= LINES_PER_SECOND:
            self._unsaid += 1
            return
        self._lines += 1
        others = {"others_before": self._unsaid} if self._unsaid else {}
        self._unsaid = 0
        _log.warning("connection closed", peer=peer, reason=message, **others)
