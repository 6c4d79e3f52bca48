"""The options of the source, with the names and JSON of Spark's Kafka source and of RocketMQ's connector, validated once.

Uses no file and no store: `reach.py` decides what an option means for a log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from gantry_spark.bad_option import BadOption
from gantry_spark.decode.schema import COLUMNS, DEFAULT_COLUMNS, UnknownColumn, column
from gantry_spark.store.replicas import LEADER, SEPARATOR

EARLIEST, LATEST = -2, -1
"""In JSON, for an offset or a position."""
TTL_SECONDS_MAX: Final = 86_400


@dataclass(frozen=True, slots=True)
class Offsets:
    """The start or end: the same for all (`default`), a position for each broker, or an offset for each queue."""

    default: int
    positions: Mapping[str, int] = field(default_factory=dict[str, int])
    """broker: position."""
    queues: Mapping[str, Mapping[str, Mapping[int, int]]] = field(
        default_factory=dict[str, Mapping[str, Mapping[int, int]]]
    )
    """topic: broker: queue id: offset."""


@dataclass(frozen=True, slots=True)
class Options:
    """All options, validated. Times are milliseconds since 1970."""

    paths: tuple[str, ...]
    snapshot: str | None
    http: Mapping[str, str]
    snapshot_seconds: int
    columns: tuple[str, ...]
    topics: frozenset[str] | None
    starting: Offsets | None
    ending: Offsets | None
    starting_ms: int | None
    ending_ms: int | None
    min_partitions: int
    max_bytes_per_trigger: int | None
    fail_on_data_loss: bool
    check_crc: bool
    decompress: bool
    quarantine: str | None
    pushdown: bool
    replica: str
    """Of a broker with replicas: leader, follower or a name."""


_NAMES: Final = (
    "path", "snapshot", "http", "snapshotSeconds", "columns", "topic", "subscribe", "startingOffsets", "endingOffsets",
    "startingTimestamp", "endingTimestamp", "minPartitions", "maxBytesPerTrigger", "failOnDataLoss", "checkCrc", "decompress",
    "quarantine", "pushdown", "replica",
)  # fmt: skip
_KNOWN: Final = {name.lower() for name in _NAMES}


def parse(given: Mapping[str, str]) -> Options:
    """Return the options of a source. Raises BadOption."""
    options = {name.lower(): value for name, value in given.items()}
    if unknown := sorted(set(options) - _KNOWN):
        raise BadOption(f"the source has no option {', '.join(unknown)}; it has {', '.join(_NAMES)}")
    topics, starting = _topics(options), _offsets(options, "startingOffsets")
    ending = _offsets(options, "endingOffsets")
    starting_ms, ending_ms = _time(options, "startingTimestamp"), _time(options, "endingTimestamp")
    for offsets, time_ms, word in ((starting, starting_ms, "starting"), (ending, ending_ms, "ending")):
        if offsets is not None and time_ms is not None:
            raise BadOption(f"give {word}Offsets or {word}Timestamp, not both")
    if starting_ms is not None and ending_ms is not None and starting_ms > ending_ms:
        raise BadOption("startingTimestamp is after endingTimestamp: the range is empty")
    paths = tuple(path.strip() for path in options.get("path", "").split(",") if path.strip())
    if not paths and "snapshot" not in options:
        raise BadOption(
            "give path (a store's directory, or the data directory of a system) or snapshot (a manifest)"
        )
    return Options(
        paths=paths,
        snapshot=options.get("snapshot"),
        http=_addresses(options.get("http", "")),
        snapshot_seconds=_number(options, "snapshotSeconds", 3600, TTL_SECONDS_MAX),
        columns=columns(options.get("columns", "")),
        topics=_with_named(topics, starting, ending),
        starting=starting,
        ending=ending,
        starting_ms=starting_ms,
        ending_ms=ending_ms,
        min_partitions=_number(options, "minPartitions", 1),
        max_bytes_per_trigger=_number(options, "maxBytesPerTrigger", 1)
        if "maxbytespertrigger" in options
        else None,
        fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
        check_crc=_flag(options, "checkCrc", default=False),
        decompress=_flag(options, "decompress", default=False),
        quarantine=options.get("quarantine"),
        pushdown=_flag(options, "pushdown", default=False),
        replica=options.get("replica", LEADER).strip() or LEADER,
    )


def columns(text: str) -> tuple[str, ...]:
    """Return the columns of a list: empty = the default ones, `*` = all. Raises BadOption."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        return DEFAULT_COLUMNS
    if names == ("*",):
        return tuple(COLUMNS)
    for name in names:
        try:
            column(name)
        except UnknownColumn as error:
            raise BadOption(f"columns: {error}") from error
    if len({name.lower() for name in names}) < len(names):
        raise BadOption("columns: a column is named twice")
    return names


def _topics(options: Mapping[str, str]) -> frozenset[str] | None:
    if "topic" in options and "subscribe" in options:
        raise BadOption("topic and subscribe mean the same; give one of them")
    text = options.get("topic", options.get("subscribe"))
    if text is None:
        return None
    topics = frozenset(topic.strip() for topic in text.split(",") if topic.strip())
    if not topics:
        raise BadOption("topic names none; leave it out for all topics")
    return topics


def _with_named(
    topics: frozenset[str] | None, starting: Offsets | None, ending: Offsets | None
) -> frozenset[str] | None:
    """Return the topics to read: offsets of queues name theirs."""
    named = frozenset(topic for offsets in (starting, ending) if offsets for topic in offsets.queues)
    if named and topics is not None and not named <= topics:
        raise BadOption(
            f"offsets are given for {', '.join(sorted(named - topics))}, which the option topic leaves out"
        )
    return topics if topics is not None or not named else named


def _offsets(options: Mapping[str, str], name: str) -> Offsets | None:
    text = options.get(name.lower())
    if text is None:
        return None
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.strip().lower() in words:
        return Offsets(words[text.strip().lower()])
    try:
        found = json.loads(text)
        return _offsets_of_json(found, LATEST if name == "endingOffsets" else EARLIEST)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadOption(
            f'{name} is earliest, latest, {{"broker": position}} or {{"topic": {{"broker": {{"queue": offset}}}}}} '
            f"(-2 earliest, -1 latest), not {text}"
        ) from error


def _offsets_of_json(found: dict[str, Any], default: int) -> Offsets:
    if not found:
        raise ValueError("empty")
    if all(isinstance(value, int) for value in found.values()):
        return Offsets(default, positions={broker: _offset(value) for broker, value in found.items()})
    queues = {
        topic: {
            broker: {int(queue): _offset(offset) for queue, offset in by_queue.items()}
            for broker, by_queue in by_broker.items()
        }
        for topic, by_broker in found.items()
    }
    return Offsets(default, queues=queues)


def _offset(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < EARLIEST:
        raise ValueError(value)
    return value


def _time(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if text.strip().lstrip("-").isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise BadOption(
            f"{name} is milliseconds since 1970 or like 2026-11-22T08:00:00 (UTC), not {text}"
        ) from error
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _addresses(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        broker, is_named, address = part.strip().partition("=")
        if not part.strip():
            continue
        if not is_named or not address.startswith(("http://", "https://")):
            raise BadOption(f"http is like broker-a=http://127.0.0.1:10913,broker-b=…, not {text}")
        found[broker] = SEPARATOR.join([*([found[broker]] if broker in found else []), address])
    return found


def _number(options: Mapping[str, str], name: str, default: int, most: int = 1 << 62) -> int:
    text = options.get(name.lower())
    if text is None:
        return default
    text = text.strip().lower()
    unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(text[-1:], 1) if name.startswith("maxBytes") else 1
    digits = text[:-1] if unit > 1 else text
    if not digits.isdecimal() or not 1 <= int(digits) * unit <= most:
        raise BadOption(
            f"{name} is a number{f' from 1 to {most}' if most < 1 << 62 else ' of at least 1'}, not {text}"
        )
    return int(digits) * unit


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise BadOption(f"{name} is true or false, not {text}")
    return text == "true"
