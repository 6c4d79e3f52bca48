"""Delay levels for the report's SQL: number, duration, name. Pure, standard library only."""

from __future__ import annotations

import re
from typing import Final

DEFAULT: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""RocketMQ's `messageDelayLevel` and Gantry's default."""
_LEVEL: Final = re.compile(r"(\d{1,9})([smhd])")
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class IllegalLevels(ValueError):
    """An invalid list of delay levels; the text says what to write."""


def durations(levels: str) -> list[tuple[int, int, str]]:
    """Return level, ms, word of each level of a list such as `1s 5s 1m`. Raises IllegalLevels."""
    found: list[tuple[int, int, str]] = []
    for number, word in enumerate(levels.split(), 1):
        match = _LEVEL.fullmatch(word)
        if match is None:
            raise IllegalLevels(
                f"{word!r} is not a delay level: write numbers with s, m, h or d, as in '{DEFAULT[:15]}'"
            )
        found.append((number, int(match[1]) * _UNIT_MS[match[2]], word))
    return found
