"""Axes: the place of values, and which of them are labelled. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

_STEPS_SECONDS: Final = (
    1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_419_200,
)  # fmt: skip


_BYTES: Final = 1024


class Tick(NamedTuple):
    """A place on an axis, 0 … 1, and the value there."""

    place: float
    value: float


class Linear(NamedTuple):
    """From 0 to a round number."""

    top: float
    step: float
    """The distance between labelled values."""

    def place(self, value: float) -> float:
        """Return the place of a value, 0 … 1."""
        return value / self.top if self.top else 0.0

    def ticks(self) -> list[Tick]:
        """Return the labelled values."""
        count = round(self.top / self.step) if self.step else 0
        return [Tick(self.place(self.step * n), self.step * n) for n in range(count + 1)]


class Logarithmic(NamedTuple):
    """From `low`, a power of ten, to `top`."""

    low: float
    top: float

    def place(self, value: float) -> float:
        """Return the place of a value, 0 … 1; a value below the axis is at 0."""
        if value <= self.low:
            return 0.0
        return math.log(value / self.low) / math.log(self.top / self.low)

    def ticks(self) -> list[Tick]:
        """Return the powers of ten."""
        decades = round(math.log10(self.top / self.low))
        return [Tick(self.place(self.low * 10**n), self.low * 10**n) for n in range(decades + 1)]


def linear(values: Sequence[float], base: int = 10) -> Linear:
    """Return an axis for these values; with `base` 1024 bytes end at round numbers of their unit."""
    most = max(values, default=0.0)
    unit = float(base) ** math.floor(math.log(most, base)) if base == _BYTES and most >= 1 else 1.0
    step = _round_up(most / unit / 4) * unit
    return Linear(step * 4 if most > 0 else 1.0, step)


def logarithmic(values: Sequence[float], low: float = 1.0) -> Logarithmic:
    """Return an axis from `low` for these values, at least one decade."""
    most = max([*values, low * 10])
    return Logarithmic(low, 10 ** math.ceil(math.log10(most) - 1e-9))


def time_ticks(first: datetime, last: datetime, ticks_max: int = 7) -> list[tuple[float, str]]:
    """Return places and labels of round times between two times."""
    span = (last - first).total_seconds()
    if span <= 0:
        return [(0.5, f"{first:%H:%M:%S}")]
    step = next((s for s in _STEPS_SECONDS if span / s <= ticks_max), _STEPS_SECONDS[-1])
    words = "%b %d" if step >= 86_400 else "%H:%M:%S" if step < 60 else "%H:%M"
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    start = math.ceil((first - epoch).total_seconds() / step) * step
    ticks: list[tuple[float, str]] = []
    for seconds in range(start, int((last - epoch).total_seconds()) + 1, step):
        at = epoch + timedelta(seconds=seconds)
        is_midnight = step < 86_400 and seconds % 86_400 == 0
        ticks.append(((at - first).total_seconds() / span, f"{at:%b %d}" if is_midnight else f"{at:{words}}"))
    return ticks


def _round_up(value: float) -> float:
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(n * power for n in (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10) if n * power >= value * 0.9999)
