"""Parsers of options and arguments: times, durations, queues, pairs. Pure; the ValueError says what to write instead."""

import re
from datetime import UTC, datetime, timedelta

UNIT_SECONDS: dict[str, float] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
TOPIC_CHARS_MAX, GROUP_CHARS_MAX = 127, 120


def seconds_of(text: str) -> float:
    """Read a duration: `1.5s`, `10m`, `1h30m`, `2d`; a number alone is seconds."""
    words = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", words):
        return float(words)
    if not words or not re.fullmatch(f"({_PART.pattern})+", words):
        raise ValueError(f"{text!r} is not a duration: write 500ms, 1.5s, 10m, 1h30m or 2d")
    return sum(float(number) * UNIT_SECONDS[unit] for number, unit in _PART.findall(words))


def milliseconds_of(text: str) -> int:
    """Read a duration as whole milliseconds."""
    return round(seconds_of(text) * 1000)


def instant_of(text: str, now: datetime | None = None) -> str:
    """Read an instant and return it in RFC 3339 (UTC): RFC 3339, a date, ms since 1970, `now`, `-10m` (ago), `+10m`."""
    try:
        return _instant(text, now or datetime.now(UTC))
    except (OverflowError, OSError):
        raise ValueError(f"{text!r} is out of range") from None


def _instant(text: str, now: datetime) -> str:
    words = text.strip()
    if words == "now":
        return _written(now)
    if words[:1] in {"-", "+"}:
        seconds = seconds_of(words[1:])
        return _written(now + timedelta(seconds=seconds if words[0] == "+" else -seconds))
    if words.isascii() and words.isdigit() and len(words) >= 11:
        return _written(datetime.fromtimestamp(int(words) / 1000, UTC))
    try:
        instant = datetime.fromisoformat(words)
    except ValueError:
        ways = "2026-01-31T12:00:00Z, 2026-01-31, now, -10m (ago), +10m (from now), or ms since 1970"
        raise ValueError(f"{text!r} is not a time: write it like {ways}") from None
    return _written(instant if instant.tzinfo else instant.astimezone())


def reset_target(text: str) -> str | int:
    """Read the target of a reset: `earliest`, `latest`, an offset, or a time."""
    words = text.strip()
    if words in {"earliest", "latest"}:
        return words
    if words.isascii() and words.isdigit():
        return int(words) if len(words) < 11 else instant_of(words)
    try:
        return instant_of(words)
    except ValueError as error:
        raise ValueError(f"{text!r}: write earliest, latest, an offset or a time; {error}") from None


def queue_of(text: str) -> tuple[str, int]:
    """Read a queue: BROKER:ID."""
    broker, colon, number = text.rpartition(":")
    if not colon or not broker or not (number.isascii() and number.isdigit()):
        raise ValueError(f"{text!r} is not a queue: write BROKER:ID, as broker-a:3")
    return broker, int(number)


def pairs_of(texts: list[str], kind: str) -> dict[str, str]:
    """Read NAME=VALUE, each name once."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"{text!r} is not a {kind}: write NAME=VALUE, neither empty")
        if name in pairs:
            raise ValueError(f"{kind} {name} is given twice: give each once")
        pairs[name] = value
    return pairs


def topic_name(text: str) -> str:
    """Read the name of a topic."""
    return _name(text, "topic", TOPIC_CHARS_MAX)


def group_name(text: str) -> str:
    """Read the name of a group."""
    return _name(text, "group", GROUP_CHARS_MAX)


def retry_policy(text: str) -> dict[str, object] | None:
    """Read a retry policy: `levels`, `1s,5s,1m` (the last repeats), or `1s*2<1m` (first, factor, maximum)."""
    words = text.replace(" ", "")
    if words == "levels":
        return None
    growing = re.fullmatch(r"([^*]+)\*(\d+(?:\.\d+)?)<(.+)", words)
    try:
        if growing:
            first, factor, most = growing.groups()
            ends = {"initialMs": milliseconds_of(first), "maxMs": milliseconds_of(most)}
            if float(factor) < 1:
                raise ValueError(f"the factor of {text!r} is under 1")
            return {"type": "exponential", **ends, "multiplier": float(factor)}
        return {"type": "list", "delaysMs": [milliseconds_of(part) for part in words.split(",")]}
    except ValueError as error:
        raise ValueError(f"{error}; a policy is levels, 1s,5s,1m or 1s*2<1m") from None


def _name(text: str, kind: str, chars_max: int) -> str:
    if not _NAME.fullmatch(text) or len(text) > chars_max:
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise ValueError(
            f"{shown!r} is not a valid name of a {kind}: 1 to {chars_max} letters, digits or % | - _"
        )
    return text


def _written(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
