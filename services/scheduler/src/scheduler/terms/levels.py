"""Parses the list of delay levels of a store (`messageDelayLevel`): durations with a unit, separated by a space. Pure."""

from __future__ import annotations

DEFAULT_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def level_durations_ms(text: str) -> tuple[int, ...]:
    """Return the durations in ms, level 1 first. Raises ValueError for a list no store would start with."""
    parts = text.split()
    if not parts or any(part[-1] not in _UNIT_MS or not part[:-1].isdecimal() for part in parts):
        raise ValueError(f"{text[:200]!r} is not a list of delay levels")
    return tuple(int(part[:-1]) * _UNIT_MS[part[-1]] for part in parts)
