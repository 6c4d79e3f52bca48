"""Finds the end of a directory's log without a broker: walks complete records, as a broker's recovery does.

A record counts if its sizes are consistent, it is at the position it names, its body passes its CRC, and all records written
together with it are there. Usually reads a few megabytes: the part since the last checkpoint.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from gantry_spark.store.files import QueueName, SegmentFile
from gantry_wire.errors import MalformedRecord
from gantry_wire.messages.properties import GANTRY_SETTLED
from gantry_wire.records.message_record import (
    BLANK,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    SYS_TRANSACTION_MASK,
    SYS_TRANSACTION_PREPARED,
    SYS_TRANSACTION_ROLLBACK,
    Record,
    decode_record,
)

_CHUNK_BYTES: Final = 1024 * 1024
_RECORD_BYTES_LIMIT: Final = 64 * 1024 * 1024
"""No record is longer, whatever damage claims."""
_TORN_BYTES: Final = 512
"""The smallest unit that a disk writes atomically."""
_MARK: Final = GANTRY_SETTLED.encode() + b"\x01"
_TOGETHER_MAX: Final = 64


class Tail(NamedTuple):
    """The result of a walk: the end of complete records, the last of them, and the next offset of each queue seen."""

    end: int
    last: int | None
    """Position of the last complete record, None if there was none."""
    next_offsets: dict[QueueName, int]


def walk(segments: Sequence[SegmentFile], start: int, stop: int | None = None) -> Tail:
    """Walk complete records from `start`, a boundary or the end of the log, up to `stop` or to the first incomplete one."""
    walk = _Walk()
    position = start
    while stop is None or position < stop:
        segment = segment_at(segments, position)
        if segment is None:
            break
        behind = _walk_chunk(segment, position, stop, walk)
        if behind == position:
            break
        position = behind
    return Tail(walk.held[0] if walk.held else position, walk.last, walk.next_offsets)


def segment_at(segments: Sequence[SegmentFile], position: int) -> SegmentFile | None:
    """Return the segment that contains a position, None if none does."""
    at = bisect_right(segments, position, key=lambda segment: segment.base) - 1
    found = segments[at] if at >= 0 else None
    return found if found is not None and position < found.base + found.size else None


class _Walk:
    """The records seen so far. Records that were written together count when all of them are there."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.next_offsets: dict[QueueName, int] = {}
        self.held: list[int] = []
        """Positions of records that wait for the rest of their group."""
        self._queues: list[tuple[QueueName, int]] = []
        self._missing = 0

    def take(self, record: Record) -> None:
        self._missing = max(self._missing - 1, _records_together(record.properties) - 1)
        self.held.append(record.position)
        if record.sys_flag & SYS_TRANSACTION_MASK not in (SYS_TRANSACTION_PREPARED, SYS_TRANSACTION_ROLLBACK):
            self._queues.append(
                ((record.topic.decode("utf-8", "replace"), record.queue_id), record.queue_offset + 1)
            )
        if self._missing > 0:
            return
        self.last = self.held[-1]
        for queue, following in self._queues:
            self.next_offsets[queue] = max(self.next_offsets.get(queue, 0), following)
        self.held.clear()
        self._queues.clear()


def _walk_chunk(segment: SegmentFile, position: int, stop: int | None, walk: _Walk) -> int:
    """Take the records of about a megabyte; return the start of the next, which is after the segment after a blank."""
    left = segment.base + segment.size - position
    chunk = _read(segment, position, min(_CHUNK_BYTES, left))
    at = 0
    while at + BLANK.size <= len(chunk) and (stop is None or position + at < stop):
        size, magic = BLANK.unpack_from(chunk, at)
        if magic == MAGIC_BLANK and size == left - at:
            return position + left
        if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_BYTES_MIN <= size <= min(
            _RECORD_BYTES_LIMIT, left - at
        ):
            break
        if at + size > len(chunk):
            if at:
                break  # the next chunk begins with it
            chunk = _read(segment, position, size)
        try:
            record = decode_record(memoryview(chunk)[at : at + size])
        except MalformedRecord:
            break
        if record.position != position + at or _is_torn(record):
            break
        walk.take(record)
        at += size
    return position + at


def _read(segment: SegmentFile, position: int, size: int) -> bytes:
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, size, position - segment.base)
    finally:
        os.close(descriptor)


def _is_torn(record: Record) -> bool:
    """Whether its end, which no CRC covers, was not written completely: nothing that a broker stores ends in a zero byte."""
    return (record.properties or record.topic)[-1:] == b"\0" or bytes(_TORN_BYTES) in record.properties


def _records_together(properties: bytes) -> int:
    """Return how many records, starting with this one, a broker wrote together: 1 unless it is the first outcome of an item with several."""
    at = properties.rfind(_MARK)
    if at < 0:
        return 1
    number, _, total = properties[at:].rstrip(b"\x02").rpartition(b":")[2].partition(b"/")
    return int(total) if number == b"1" and total.isdigit() and int(total) <= _TOGETHER_MAX else 1
