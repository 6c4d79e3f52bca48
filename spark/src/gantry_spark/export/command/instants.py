"""Parses points in time: RFC 3339, a date (its midnight), milliseconds since 1970, `now`, `-10m`. All UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

FORMS: Final = "a time like 2026-01-31T12:00:00Z, a date, milliseconds since 1970, now, or -10m (-2h, -7d)"
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_ms(words: str, now: datetime) -> int:
    """Return milliseconds since 1970. Raises ValueError with the valid forms."""
    if words.isdigit() and len(words) > 8:
        return int(words)
    if words == "now":
        return _ms(now)
    if ago := re.fullmatch(r"-(\d{1,6})([smhd])", words):
        return _ms(now - timedelta(**{_UNITS[ago.group(2)]: int(ago.group(1))}))
    try:
        instant = datetime.fromisoformat(words)
    except ValueError:
        raise ValueError(f"{words!r} is not {FORMS}") from None
    return _ms(instant if instant.tzinfo else instant.replace(tzinfo=UTC))


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
