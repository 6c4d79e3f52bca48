"""Formats values: counts, bytes, durations, shares, times in UTC; and escapes text for HTML. Pure."""

from __future__ import annotations

import html
from datetime import UTC, datetime
from typing import Any, Final

_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_NOTHING: Final = "-"


def safe(text: object) -> str:
    """Return text for HTML. The colon of an address is escaped as a number, so that the file contains no address whatever users send."""
    return html.escape(str(text)).replace("://", "&#58;//")


def count(value: float | None) -> str:
    """Return a whole number with separators, others with one decimal."""
    if value is None:
        return _NOTHING
    return f"{value:,.1f}" if value % 1 else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Return bytes in the unit that keeps them below 1024."""
    if value is None:
        return _NOTHING
    unit, left = 0, float(value)
    while abs(left) >= 1024 and unit < len(_BYTE_UNITS) - 1:
        left, unit = left / 1024, unit + 1
    return (
        f"{left:,.0f} B"
        if unit == 0
        else f"{left:.3g} {_BYTE_UNITS[unit]}"
        if left < 100
        else f"{left:.0f} {_BYTE_UNITS[unit]}"
    )


def millis(value: float | None) -> str:
    """Return milliseconds as text: `3 ms`, `1.25 s`, `4 min`, `3.1 h`, `2.5 d`."""
    if value is None:
        return _NOTHING
    for limit, unit, factor in ((1e3, "ms", 1), (6e4, "s", 1e3), (3.6e6, "min", 6e4), (8.64e7, "h", 3.6e6)):
        if abs(value) < limit:
            return f"{_short(value / factor)} {unit}"
    return f"{_short(value / 8.64e7)} d"


def share(value: float | None) -> str:
    """Return a fraction in percent."""
    return _NOTHING if value is None else f"{100 * value:.1f} %"


def moment(value: object) -> str:
    """Return a time in UTC to the second."""
    at = as_time(value)
    return _NOTHING if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def plain(value: object) -> str:
    """Return text unchanged."""
    return _NOTHING if value is None or value == "" else str(value)


def as_time(value: object) -> datetime | None:
    """Return a time from a time, its ISO text or milliseconds since 1970; None for None."""
    match value:
        case None:
            return None
        case datetime():
            return value.astimezone(UTC)
        case int() | float():
            return datetime.fromtimestamp(value / 1000, UTC)
        case _:
            return datetime.fromisoformat(str(value)).astimezone(UTC)


def raw(value: Any) -> str:
    """Return the sort value of a cell: a number unchanged, a time as seconds, text as text."""
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, datetime):
        return repr(value.timestamp())
    return repr(value) if isinstance(value, int | float) else str(value)


def _short(value: float) -> str:
    return f"{value:.0f}" if value % 1 == 0 or abs(value) >= 100 else f"{value:.3g}"
