"""Reads a piece of a log into Arrow batches, one record after the other: the plain way, exact and slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from gantry_spark.decode.schema import PROPERTY_PREFIX, arrow_schema
from gantry_wire.errors import MalformedProperties, MalformedRecord
from gantry_wire.record import BLANK, MAGIC_BLANK, MAGIC_V1, RECORD_BYTES_MIN, Record, decode_record

_SAMPLE_BYTES = 128
_MAGIC_START = MAGIC_V1.to_bytes(4, "big")[:3]


@dataclass(frozen=True)
class LogRange:
    """A piece of one log that one task reads."""

    path: str
    base: int
    start: int
    stop: int
    broker: str


@dataclass(frozen=True)
class Wanted:
    """Which columns and rows. `store_ms` is [from, below)."""

    columns: tuple[str, ...]
    topics: frozenset[str] | None = None
    queues: frozenset[int] | None = None
    store_ms: tuple[int, int] | None = None
    check_crc: bool = False
    decompress: bool = False
    batch_rows: int = 65536


class Damaged(NamedTuple):
    """Bytes that are no record."""

    broker: str
    position: int
    size: int
    why: str
    sample: bytes


class LandedElsewhere(Exception):
    """A piece did not end at its stop: the plan is wrong, or the log was replaced since."""


def read(piece: LogRange, wanted: Wanted, damage: Callable[[Damaged], None]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece. Raises LandedElsewhere, OSError."""
    schema = arrow_schema(wanted.columns)
    rows: list[list[Any]] = []
    for record in _records(piece, wanted.check_crc, damage):
        if _is_wanted(record, wanted):
            rows.append(_row(record, piece.broker, wanted.columns))
        if len(rows) == wanted.batch_rows:
            yield _batch(rows, schema)
            rows = []
    if rows:
        yield _batch(rows, schema)


def next_record(path: str, base: int, at: int, end: int) -> int:
    """Return the first boundary at or above a position, `end` when there is none."""
    piece = LogRange(path, base, base, end, "")
    return next((r.position for r in _records(piece, False, lambda _: None) if r.position >= at), end)


def _records(piece: LogRange, check_crc: bool, damage: Callable[[Damaged], None]) -> Iterator[Record]:
    with Path(piece.path).open("rb") as file:
        file.seek(piece.start - piece.base)
        content = file.read(piece.stop - piece.start)
    at = 0
    while at + BLANK.size <= len(content):
        size, magic = BLANK.unpack_from(content, at)
        if magic == MAGIC_BLANK or (size == 0 and not content[at:].strip(b"\0")):
            return
        try:
            record = decode_record(content, at, check_crc=check_crc)
            if record.position != piece.start + at:
                raise MalformedRecord(f"it says it lies at {record.position}")
        except MalformedRecord as error:
            behind = _next_likely(content, at + 1, piece.start)
            damage(
                Damaged(
                    piece.broker, piece.start + at, behind - at, str(error), content[at : at + _SAMPLE_BYTES]
                )
            )
            at = behind
            continue
        yield record
        at += record.size
    if at != len(content):
        raise LandedElsewhere(f"{piece.path} from {piece.start}: {piece.start + at} instead of {piece.stop}")


def _next_likely(content: bytes, at: int, start: int) -> int:
    while (found := content.find(_MAGIC_START, at + 4)) >= 0:
        at = found - 4
        if (
            at + RECORD_BYTES_MIN <= len(content)
            and int.from_bytes(content[at + 28 : at + 36], "big") == start + at
        ):
            return at
        at = found
    return len(content)


def _is_wanted(record: Record, wanted: Wanted) -> bool:
    if wanted.topics is not None and record.topic.decode("utf-8", "replace") not in wanted.topics:
        return False
    if wanted.queues is not None and record.queue_id not in wanted.queues:
        return False
    return wanted.store_ms is None or wanted.store_ms[0] <= record.store_timestamp < wanted.store_ms[1]


def _row(record: Record, broker: str, columns: tuple[str, ...]) -> list[Any]:
    try:
        properties = record.property_map()
    except MalformedProperties:
        properties = {}
    fields: dict[str, Any] = {
        "topic": record.topic.decode("utf-8", "replace"), "brokername": broker, "queueid": record.queue_id,
        "queueoffset": record.queue_offset, "physicaloffset": record.position, "storetimestamp": record.store_timestamp * 1000,
        "borntimestamp": record.born_timestamp * 1000, "storesize": record.size, "bodysize": len(record.body),
        "reconsumetimes": record.reconsume_times, "tags": properties.get("TAGS"), "keys": properties.get("KEYS"),
        "uniquekey": properties.get("UNIQ_KEY"), "flag": record.flag, "sysflag": record.sys_flag, "bodycrc": record.body_crc,
        "bornhost": _host(*record.born_address), "storehost": _host(*record.store_address),
        "preparedtransactionoffset": record.prepared_position, "body": record.body, "properties": list(properties.items()),
        "propertiesraw": record.properties,
    }  # fmt: skip
    return [
        properties.get(name.removeprefix(PROPERTY_PREFIX))
        if name.startswith(PROPERTY_PREFIX)
        else fields[name.lower()]
        for name in columns
    ]


def _batch(rows: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def _host(address: str, port: int) -> str:
    return f"{address}:{port}"
