"""Computes how long the end of a queue may stay unread, so that one pull reads many messages. Pure.

At a thousand delayed messages a second, one pull per message cost more than the messages. A pause of 1/25 of the
delay makes no message late.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.index.entries import Entry

DELAY_PER_PAUSE = 25
PAUSE_SECONDS_MAX = 0.04
PAUSE_SECONDS_MIN = 0.001
"""Shorter pauses are dropped: timers are no finer."""
RECOVERY = 2.0
"""Growth of the shortest expected delay after each read."""


class ReadingPause:
    """The pause of one queue: fixed by its level's delay, or by the shortest recent delay in the timer queue."""

    def __init__(self, level_ms: int | None) -> None:
        """Take the level's delay; None when delays vary and `read` reports them."""
        self._shortest_ms = 0.0 if level_ms is None else float(level_ms)

    def read(self, entries: Iterable[Entry], now_ms: float) -> None:
        """Record messages of the timer queue. After a short delay the pauses grow again step by step."""
        due_ms = min([entry.due_ms for entry in entries], default=None)
        if due_ms is None:
            return
        ahead_ms = due_ms - now_ms
        expected_ms = max(self._shortest_ms * RECOVERY, DELAY_PER_PAUSE * PAUSE_SECONDS_MIN * 1000)
        self._shortest_ms = max(min(ahead_ms, expected_ms), 0.0)

    @property
    def seconds(self) -> float:
        """The current pause."""
        seconds = self._shortest_ms / 1000 / DELAY_PER_PAUSE
        return 0.0 if seconds < PAUSE_SECONDS_MIN else min(seconds, PAUSE_SECONDS_MAX)
