"""The list of delay levels in RocketMQ's syntax (`messageDelayLevel`), with the duration of each. Pure."""

import re
from typing import NamedTuple

from gantry_wire.messages.properties import DELAY, GANTRY_DELAY_MS, find_property

DEFAULT_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
LEVELS_MAX = 1024
"""RocketMQ sets no bound; each level is a queue."""
DURATION_MS_MAX = 10 * 365 * 86_400_000

LEVEL_DIGITS_MAX = 10
WAIT_DIGITS_MAX = 15
_DELAY, _DELAY_MS = DELAY.encode(), GANTRY_DELAY_MS.encode()
_NUMBER = re.compile(rf"[+-]?[0-9]{{1,{LEVEL_DIGITS_MAX}}}")
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"([0-9]{1,10})([smhd])")


class IllegalLevels(ValueError):
    """A list of levels cannot be parsed. The message says which part, and what to write."""


class LevelList(NamedTuple):
    """Durations in ms; level 1 is the first of them."""

    durations_ms: tuple[int, ...]

    def number(self, level: int) -> int:
        """Return the effective level: one above the last is the last."""
        return min(max(level, 1), len(self.durations_ms))

    def duration_ms(self, level: int) -> int:
        """Return how long a message of a level waits."""
        return self.durations_ms[self.number(level) - 1]

    def deliver_ms(self, properties: bytes, store_ms: int) -> int:
        """Return when a stored message is due, which its unit holds instead of a tags code.

        A message carries its own duration, so a changed list of levels does not affect it. Messages of
        another broker carry only the level.
        """
        wait = find_property(properties, _DELAY_MS)
        if wait is not None and wait.isdigit() and len(wait) <= WAIT_DIGITS_MAX:
            return store_ms + int(wait)
        level = find_property(properties, _DELAY)
        number = None if level is None else parse_level(level.decode("latin-1"))
        return store_ms + self.duration_ms(1 if number is None else number)


def parse_level(text: str) -> int | None:
    """Parse a DELAY property, None if it is not a number. The one rule for sends, commits and recovery."""
    return int(text) if _NUMBER.fullmatch(text) else None


def parse_levels(text: str) -> LevelList:
    """Parse a list: numbers with a unit, `s`, `m`, `h` or `d`, separated by spaces. Raises IllegalLevels."""
    parts = text.strip().split(" ")
    if len(parts) > LEVELS_MAX:
        raise IllegalLevels(f"the list of delay levels has {len(parts)} levels, the limit is {LEVELS_MAX}")
    return LevelList(tuple(_duration_ms(number, part) for number, part in enumerate(parts, 1)))


def _duration_ms(number: int, part: str) -> int:
    match = _LEVEL.fullmatch(part)
    if match is None:
        raise IllegalLevels(
            f"delay level {number} is {part[:32]!r}: write a whole number and s, m, h or d, with one space "
            f"between two levels, as in '{DEFAULT_LEVELS[:15]}'"
        )
    duration_ms = int(match[1]) * _UNIT_MS[match[2]]
    if duration_ms > DURATION_MS_MAX:
        raise IllegalLevels(f"delay level {number} is {part!r}: the longest delay is ten years")
    return duration_ms


DEFAULT = parse_levels(DEFAULT_LEVELS)
