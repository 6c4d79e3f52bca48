"""Walks adjacent records and checks each: the one loop that recovery and first reads depend on.

Takes about a microsecond per record, so a gigabyte of small messages takes seconds. Knows bytes only, no
file.
"""

from enum import Enum
from struct import Struct
from typing import TypeAlias
from zlib import crc32

from gantry_wire.errors import MalformedRecord
from gantry_wire.records.message_record import (
    BLANK,
    CRC_MASK,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    decode_record,
)

ScannedRecord: TypeAlias = tuple[int, int, int, int, int, int, int, bytes, bytes]
"""Position, size, queue id, queue offset, system flag, store time (ms), body CRC, topic, properties."""

_SIZE = Struct(">i")
_FIXED_V4 = Struct(">iIii4xqqi16xq20xi")
"""The fixed part of a V1 record with IPv4 hosts, without the fields not needed here; see `message_record`."""
_FIXED_BYTES = RECORD_BYTES_MIN - 3
assert _FIXED_V4.size == _FIXED_BYTES
_HOST_V6_BITS = 0x30
COPIED_BYTES = 512
"""A smaller body is copied for its check, which is cheaper than a view."""
RECORD_BYTES_LIMIT = 64 * 1024 * 1024
"""No record is longer, whatever its first four bytes claim. Bounds what damage can make a reader allocate."""


TORN_BYTES = 512
"""The smallest unit that a disk writes whole. What a crash kept from being written reads as zeros, in steps of this."""
ZERO_SECTOR = bytes(TORN_BYTES)
TORN_REASON = "its topic or properties were not written whole"


class Stop(Enum):
    """Why a walk ended."""

    MORE = "more"
    """The bytes end inside a record that is intact so far."""
    BLANK = "blank"
    """The rest of the segment is unused."""
    ZERO = "zero"
    """Nothing was ever written here."""
    BAD = "bad"
    """No record, or a damaged one."""


def scan_records(  # noqa: C901, PLR0911 - one loop without calls: it runs once per record of a rebuild
    buffer: bytes, base: int, at: int, found: list[ScannedRecord]
) -> tuple[int, Stop, str]:
    """Append the whole, undamaged records from `at` on. `base` is the position of the buffer's first byte.

    Returns where it stopped, why, and a message about the fault.
    """
    view = memoryview(buffer)
    available = len(buffer)
    unpack, checksum, append = _FIXED_V4.unpack_from, crc32, found.append
    last_fixed = available - RECORD_BYTES_MIN
    size: int
    body_size: int
    position: int
    while True:
        if at > last_fixed:
            return _stop_near_end(buffer, at)
        size, magic, crc, queue_id, queue_offset, position, sys_flag, store_ms, body_size = unpack(buffer, at)
        if magic != MAGIC_V1 or sys_flag & _HOST_V6_BITS:
            if magic not in (MAGIC_V1, MAGIC_V2):
                return at, *_no_record(size, magic)
            stop = _scan_uncommon(buffer, base, at, found)
            if stop is not None:
                return at, *stop
            at += size
            continue
        if position != base + at:
            return at, Stop.BAD, f"it claims position {position}"
        body_start = at + _FIXED_BYTES
        body_end = body_start + body_size
        end = at + size
        if body_size < 0 or not 0 < size <= RECORD_BYTES_LIMIT or body_end + 3 > end:
            return at, Stop.BAD, f"its size {size} and body size {body_size} contradict each other"
        if end > available:
            return at, Stop.MORE, ""
        topic_end: int = body_end + 1 + buffer[body_end]
        properties_start: int = topic_end + 2
        if (
            properties_start > end
            or properties_start + (buffer[topic_end] << 8 | buffer[topic_end + 1]) != end
        ):
            return at, Stop.BAD, f"its parts do not fill its size {size}"
        body = buffer[body_start:body_end] if body_size < COPIED_BYTES else view[body_start:body_end]
        if body_size and checksum(body) & CRC_MASK != crc:
            return at, Stop.BAD, "its body fails the CRC"
        topic, properties = buffer[body_end + 1 : topic_end], buffer[properties_start:end]
        if (not buffer[end - 1] and (properties or topic)[-1:] == b"\0") or (
            end - body_end > TORN_BYTES and ZERO_SECTOR in properties
        ):
            return at, Stop.BAD, TORN_REASON
        append((position, size, queue_id, queue_offset, sys_flag, store_ms, crc, topic, properties))
        at = end


def is_torn(topic: bytes, properties: bytes) -> bool:
    """Whether the end of a record, which no CRC covers, was not fully written before a power cut.

    Nothing ends in a zero byte, and no send may hold a sector of them, so zeros there were never written.
    """
    return (properties or topic)[-1:] == b"\0" or ZERO_SECTOR in properties


def record_size_at(head: bytes) -> int:
    """Return the size in a record's first eight bytes, 0 if they begin none."""
    size, magic = BLANK.unpack_from(head)
    return size if magic in (MAGIC_V1, MAGIC_V2) and RECORD_BYTES_MIN <= size <= RECORD_BYTES_LIMIT else 0


def _stop_near_end(buffer: bytes, at: int) -> tuple[int, Stop, str]:
    if at + BLANK.size > len(buffer):
        return at, Stop.MORE, ""
    size, magic = BLANK.unpack_from(buffer, at)
    if magic in (MAGIC_V1, MAGIC_V2):
        return at, Stop.MORE, ""
    return at, *_no_record(size, magic)


def _no_record(size: int, magic: int) -> tuple[Stop, str]:
    if magic == MAGIC_BLANK:
        return Stop.BLANK, ""
    if magic == 0 and size == 0:
        return Stop.ZERO, "nothing is written there"
    return Stop.BAD, f"its magic {magic:#010x} is no record's"


def _scan_uncommon(buffer: bytes, base: int, at: int, found: list[ScannedRecord]) -> tuple[Stop, str] | None:
    """Read a record with a long topic or an IPv6 host."""
    size = record_size_at(buffer[at : at + BLANK.size])
    if size == 0:
        return Stop.BAD, "its size is impossible"
    if at + size > len(buffer):
        return Stop.MORE, ""
    try:
        record = decode_record(memoryview(buffer)[at : at + size], check_crc=False)
    except MalformedRecord as error:
        return Stop.BAD, str(error)
    if record.position != base + at:
        return Stop.BAD, f"it claims position {record.position}"
    is_damaged = bool(record.body) and crc32(record.body) & CRC_MASK != record.body_crc
    if is_damaged or is_torn(record.topic, record.properties):
        return Stop.BAD, "its body fails the CRC" if is_damaged else TORN_REASON
    found.append((
        record.position, record.size, record.queue_id, record.queue_offset, record.sys_flag,
        record.store_timestamp, record.body_crc, record.topic, record.properties,
    ))  # fmt: skip
    return None
