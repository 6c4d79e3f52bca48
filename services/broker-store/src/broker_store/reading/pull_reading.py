"""Reads the records that a pull selected: the log's own bytes, in as few reads as possible. Decodes no message.

Never returns a damaged record, nor another one than its unit names: a stretch with one is read again record by record.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

from broker_store.log.consume_queues.unit_claims import Claims
from broker_store.log.errors import DamagedRecord, PositionNotVisible, PositionRemoved
from broker_store.ports import InThread, LogReader, QueueReader
from broker_store.reading.pull import Ask, PullStatus, Selection, Span, select, select_singly

ONE_READ_BYTES_MAX = 256 * 1024
"""Up to this distance everything between first and last record is read at once."""
GAP_BYTES_MAX = 16 * 1024
"""Beyond that, records further apart than this are read separately: copying the gap would cost more than a system call."""
READ_BYTES_MAX = 1024 * 1024
"""A single log read does not span gaps beyond this size."""
AFTER_ALL: Span = (sys.maxsize, 0)
"""A position beyond every record."""
RETRIES_MAX = 2
"""How often a pull is selected again after retention removed what it selected."""

ReadLog = Callable[[int, int], bytes | None]


def read_spans(spans: list[Span], read: ReadLog, claims: Claims | None = None) -> list[bytes] | None:
    """Return the bytes of the spans. None when `read` cannot return some of them now.

    Nearby spans are read at once and then separated. Raises DamagedRecord for a record that is not as claimed.
    """
    start = spans[0][0]
    size = sum(spans[-1]) - start
    if size > ONE_READ_BYTES_MAX and len(spans) > 1:
        return _read_groups(spans, read, claims)
    data = read(start, size)
    if data is None:
        return None
    parts = [data]
    if len(spans) > 1:
        parts = [data[position - start : position - start + size] for position, size in spans]
        data = b"".join(parts)
    if claims is not None:
        claims.check(parts)
    return [data]


def _read_groups(spans: list[Span], read: ReadLog, claims: Claims | None) -> list[bytes] | None:
    reads = _reads(spans)
    found: list[bytes] = []
    for start, size in reads:
        data = read(start, size)
        if data is None:
            return None
        found.append(data)
    # As many reads as records: each lies by itself, as in a pull from one of very many queues.
    parts = found if len(found) == len(spans) else _records_in(found, reads, spans)
    if claims is not None:
        claims.check(parts)
    return parts


def _records_in(found: list[bytes], reads: list[Span], spans: list[Span]) -> list[bytes]:
    parts: list[bytes] = []
    records = iter(spans)
    position, size = next(records)
    for (start, _), data in zip(reads, found, strict=True):
        while position < start + len(data):
            parts.append(data[position - start : position - start + size])
            position, size = next(records, AFTER_ALL)
    return parts


def _reads(spans: list[Span]) -> list[Span]:
    """Return what to read at once: nearby records together."""
    reads: list[Span] = []
    start, size = spans[0]
    end = start + size
    for position, size in spans[1:]:
        if position - end > GAP_BYTES_MAX or position + size - start > READ_BYTES_MAX:
            reads.append((start, end - start))
            start = position
        end = position + size
    reads.append((start, end - start))
    return reads


class Bytes(NamedTuple):
    """The bytes of a pull's answer. `parts` is empty for every status but FOUND."""

    selection: Selection
    parts: list[bytes]
    damaged: int = 0
    """Records left out because their check failed."""


async def read_slowly(
    queue: QueueReader, log: LogReader, ask: Ask, selection: Selection, in_thread: InThread
) -> Bytes:
    """Read what was selected, waiting for the disk if needed.

    Leaves damaged records out. Selects again what retention removed meanwhile.
    """
    for _ in range(RETRIES_MAX):
        try:
            return Bytes(selection, await in_thread(_read_all, selection, log))
        except (DamagedRecord, PositionNotVisible):  # a unit that points to no record is damaged too
            return await in_thread(_read_around_damage, select_singly(queue, log, ask), log.read)
        except PositionRemoved:
            selection = select(queue, log, ask)
            if not selection.spans:
                return Bytes(selection, [])
    return Bytes(
        Selection(PullStatus.MESSAGE_WAS_REMOVING, ask.offset, queue.min_offset, queue.max_offset), []
    )


def _read_all(selection: Selection, log: LogReader) -> list[bytes]:
    parts = read_spans(selection.spans, log.read, selection.claims)
    assert parts is not None
    return parts


def _read_around_damage(selection: Selection, read: Callable[[int, int], bytes]) -> Bytes:
    """Read record by record and keep the intact ones."""
    parts: list[bytes] = []
    damaged = 0
    claims = selection.claims
    for number, (position, size) in enumerate(selection.spans):
        try:
            data = read(position, size)
            if claims is not None:
                claims.check_record(number, data)
            parts.append(data)
        except (DamagedRecord, PositionNotVisible):
            damaged += 1
        except PositionRemoved:
            pass
    selection.count = len(parts)
    selection.size = sum(map(len, parts))
    if not parts:
        selection.status = PullStatus.NO_MATCHED_MESSAGE
    return Bytes(selection, parts, damaged)
