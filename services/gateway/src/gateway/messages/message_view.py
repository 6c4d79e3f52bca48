"""Converts log records to the HTTP form of messages. Pure.

Compressed bodies are decompressed if the standard library can: zlib, and gzip, which gRPC clients send. LZ4 and ZSTD are returned
as stored, with their name.
"""

import zlib
from datetime import UTC, datetime
from functools import lru_cache

from gantry_wire.errors import MalformedProperties, MalformedRecord
from gantry_wire.messages.properties import (
    GANTRY_KEY,
    GANTRY_SETTLED,
    KEYS,
    SHARDING_KEY,
    TAGS,
    UNIQ_KEY,
    parse_properties,
)
from gantry_wire.names import REDRIVE_GROUP
from gantry_wire.records.message_record import (
    SYS_COMPRESSED,
    SYS_COMPRESSION_LZ4,
    SYS_COMPRESSION_MASK,
    SYS_COMPRESSION_ZSTD,
    Record,
    scan_records,
)
from gateway.messages.property_names import AS_FIELDS, HIDDEN, RESERVED, RESERVED_PREFIX
from gateway.messages.schemas import MessageOut

UNPACKED_BYTES_MAX = 16 * 1024 * 1024
"""A compressed body that would decompress to more is returned as stored."""

_ZLIB_OR_GZIP = zlib.MAX_WBITS | 32
"""Reads either head: RocketMQ marks both with the same flags."""
_NAMES = {SYS_COMPRESSION_LZ4: "lz4", SYS_COMPRESSION_ZSTD: "zstd"}


def messages(
    records: bytes | memoryview, broker: str, *, as_base64: bool = False, with_system: bool = False
) -> list[MessageOut]:
    """Return the messages in the bytes of a pull or query response.

    Raises MalformedRecord for incomplete or damaged records; a damaged one is never shown.
    """
    return [
        message(record, broker, as_base64=as_base64, with_system=with_system)
        for record in scan_records(records)
    ]


def message(record: Record, broker: str, *, as_base64: bool = False, with_system: bool = False) -> MessageOut:
    """Return the HTTP form of one record."""
    try:
        properties = parse_properties(record.properties)
    except MalformedProperties as error:
        raise MalformedRecord(f"record at position {record.position}: {error}") from error
    body, compression = unpacked(record)
    text = None if as_base64 or compression else _text(body)
    offset_message_id = record.message_id
    keys = properties.get(KEYS)
    return MessageOut(
        properties.get(UNIQ_KEY, offset_message_id),
        record.topic.decode(),
        broker,
        record.queue_id,
        record.queue_offset,
        keys.split() if keys else [],
        {name: value for name, value in properties.items() if not _is_system(name)},
        rfc3339(record.born_timestamp),
        rfc3339(record.store_timestamp),
        record.reconsume_times,
        offset_message_id,
        properties.get(TAGS),
        text,
        body if text is None else None,
        compression,
        properties.get(SHARDING_KEY),
        _senders_key(properties),
        _system(properties) if with_system else None,
    )


def rfc3339(timestamp_ms: int) -> str:
    """Return milliseconds since 1970 as RFC 3339 in UTC; times outside the calendar are clamped."""
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return f"{_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    seconds = min(max(seconds, -62_135_596_800), 253_402_300_799)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S").zfill(19)


def _senders_key(properties: dict[str, str]) -> str | None:
    """Return the idempotency key; None for a redriven dead letter, whose key comes from the task."""
    settled = properties.get(GANTRY_SETTLED, "")
    return None if f":{REDRIVE_GROUP}:" in settled else properties.get(GANTRY_KEY)


def _is_system(name: str) -> bool:
    return name in RESERVED or name.startswith(RESERVED_PREFIX)


def _system(properties: dict[str, str]) -> dict[str, str]:
    """Return the properties that the broker and RocketMQ's clients set, except those shown as fields."""
    return {
        name: value
        for name, value in properties.items()
        if _is_system(name) and name not in AS_FIELDS and name not in HIDDEN
    }


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def unpacked(record: Record) -> tuple[bytes, str | None]:
    """Return the body, and the name of its compression if it stays compressed."""
    if not record.sys_flag & SYS_COMPRESSED:
        return record.body, None
    kind = record.sys_flag & SYS_COMPRESSION_MASK
    if kind in _NAMES:
        return record.body, _NAMES[kind]
    inflater = zlib.decompressobj(_ZLIB_OR_GZIP)
    try:
        body = inflater.decompress(record.body, UNPACKED_BYTES_MAX)
    except zlib.error:
        return record.body, "zlib"
    is_whole = inflater.eof and not inflater.unused_data
    return (body, None) if is_whole else (record.body, "zlib")
