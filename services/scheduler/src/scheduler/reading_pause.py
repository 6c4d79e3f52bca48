"""How long the end of a queue may be left unread after something was read: what comes meanwhile is read together. Pure.

At a thousand delayed messages a second a pull for each cost more than the messages. A message is read so long before it is due that
a pause of a twenty-fifth of its delay makes none late.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.entries import Entry

DELAY_PER_PAUSE = 25
PAUSE_SECONDS_MAX = 0.04
PAUSE_SECONDS_MIN = 0.001
"""A shorter one is none: timers are no finer."""
RECOVERY = 2.0
"""How much longer, after each reading, the shortest delay may be that is expected next."""


class ReadingPause:
    """The pause of one queue: fixed by the delay of its level, or by the shortest delay seen lately in the timer queue."""

    def __init__(self, level_ms: int | None) -> None:
        """None: the delays differ, and are told by `read`."""
        self._shortest_ms = 0.0 if level_ms is None else float(level_ms)

    def read(self, entries: Iterable[Entry], now_ms: float) -> None:
        """Note messages of the timer queue. After a short delay the pauses grow again step by step."""
        due_ms = min([entry.due_ms for entry in entries], default=None)
        if due_ms is None:
            return
        ahead_ms = due_ms - now_ms
        expected_ms = max(self._shortest_ms * RECOVERY, DELAY_PER_PAUSE * PAUSE_SECONDS_MIN * 1000)
        self._shortest_ms = max(min(ahead_ms, expected_ms), 0.0)

    @property
    def seconds(self) -> float:
        """The pause now."""
        seconds = self._shortest_ms / 1000 / DELAY_PER_PAUSE
        return 0.0 if seconds < PAUSE_SECONDS_MIN else min(seconds, PAUSE_SECONDS_MAX)
