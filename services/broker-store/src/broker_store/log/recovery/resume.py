"""Finds where to continue after damage: the next record with a proof.

Proofs, strongest first: the damaged record's own size, if a record starts right after it; a queue's unit,
even one on disk above the last checkpoint; a chain of linked records. A record forged inside a body passes
neither of the first two.
"""

from collections.abc import Iterable, Sequence
from struct import Struct

from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.commit_log.scan import ScannedRecord, Stop, record_size_at, scan_records
from broker_store.log.commit_log.segment import Segment
from broker_store.log.consume_queues.consume_queue import ConsumeQueue
from broker_store.log.consume_queues.queue_units import HOLE_SIZE
from gantry_wire.errors import MalformedRecord
from gantry_wire.records.message_record import BLANK, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, decode_record
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

LINKS_MIN = 8
"""Records that must follow each other before a chain without other proof is trusted."""
_SEARCH_BYTES = 1024 * 1024
_MAGIC_AT = 4
_MAGICS = tuple(Struct(">I").pack(magic) for magic in (MAGIC_V1, MAGIC_V2))


class Leftovers:
    """Units on disk above the starting point of a recovery: invalid, but proof of records they match."""

    def __init__(self) -> None:
        self._units: list[tuple[ConsumeQueue, int, bytes]] = []

    def add(self, queue: ConsumeQueue, first_offset: int, units: bytes) -> None:
        """Keep the units of one queue."""
        if units:
            self._units.append((queue, first_offset, units))

    def sizes_at(self, position: int) -> list[int]:
        """Return the sizes that units give for the record at this position."""
        return [
            size
            for _, _, units in self._units
            for at, size, _ in CONSUME_QUEUE_UNIT.iter_unpack(units)
            if at == position
        ]

    def position_after(self, position: int) -> int | None:
        """Return the lowest position above this one that a unit points to."""
        return min(
            (
                at
                for _, _, units in self._units
                for at, size, _ in CONSUME_QUEUE_UNIT.iter_unpack(units)
                if at > position and size != HOLE_SIZE
            ),
            default=None,
        )

    def offsets_used(self, start: int, end: int) -> dict[ConsumeQueue, int]:
        """Return, by queue, one above the highest offset of a record in [start, end), which must not be used again."""
        used: dict[ConsumeQueue, int] = {}
        for queue, first, units in self._units:
            for place, (at, size, _) in enumerate(CONSUME_QUEUE_UNIT.iter_unpack(units)):
                if start <= at < end and size != HOLE_SIZE:
                    used[queue] = first + place + 1
        return used


class Resume:
    """Finds the next proven record below the confirm offset."""

    def __init__(
        self, log: CommitLog, confirm: int, queues: Sequence[ConsumeQueue], leftovers: Leftovers
    ) -> None:
        self._log = log
        self._confirm = confirm
        self._queues = queues
        self._leftovers = leftovers

    def after(self, bad: int) -> int:
        """Return where to continue after the bad record at this position: at most the confirm offset."""
        sizes = [*([suspect[1]] if (suspect := self.suspect(bad)) else []), *self._leftovers.sizes_at(bad)]
        for size in sizes:
            if size > 0 and bad + size <= self._confirm and self._starts_something(bad + size):
                return bad + size
        limit = min((at for at in self._proven_after(bad) if self._is_record(at)), default=self._confirm)
        return self._find_chain(bad + 1, min(limit, self._confirm))

    def suspect(self, bad: int) -> ScannedRecord | None:
        """Return the bad record's own fields, if all but its body is intact."""
        segment = self._log.segment_at(bad)
        if segment is None:
            return None
        try:
            size = record_size_at(_read(segment, bad, BLANK.size).ljust(BLANK.size, b"\0"))
            record = decode_record(_read(segment, bad, size), check_crc=False)
        except MalformedRecord:
            return None
        if record.position != bad:
            return None
        return (
            bad, size, record.queue_id, record.queue_offset, record.sys_flag, record.store_timestamp,
            record.body_crc, record.topic, record.properties,
        )  # fmt: skip

    def _proven_after(self, bad: int) -> Iterable[int]:
        for source in (*self._queues, self._leftovers):
            position = source.position_after(bad)
            if position is not None and position < self._confirm:
                yield position

    def _find_chain(self, start: int, limit: int) -> int:
        """Return the first position in [start, limit) where a chain of records begins, else limit."""
        position = start
        while position < limit:
            segment = self._log.segment_at(position)
            if segment is None:
                position = next(
                    (other.start for other in self._log.segments if other.start > position), limit
                )
            elif position == segment.start and self._is_record(position):
                return position
            else:
                end = min(segment.end, limit)
                found = self._find_in(segment, position, end, limit)
                if found is not None:
                    return found
                position = end
        return limit

    def _find_in(self, segment: Segment, start: int, end: int, limit: int) -> int | None:
        while start < end:
            data = _read(segment, start, min(_SEARCH_BYTES, segment.end - start))
            for at in _magic_places(data):
                if start + at < end and self._links(segment, start + at, limit):
                    return start + at
            start += max(len(data) - BLANK.size, BLANK.size)
        return None

    def _links(self, segment: Segment, position: int, limit: int) -> bool:
        links = 0
        while links < LINKS_MIN:
            if position == limit:
                return links > 0
            found = scan_one(segment, position)
            if found is None:
                return links > 0 and self._is_blank(position)
            links += 1
            position += found[1]
        return True

    def _starts_something(self, position: int) -> bool:
        return position == self._confirm or self._is_record(position) or self._is_blank(position)

    def _is_record(self, position: int) -> bool:
        segment = self._log.segment_at(position)
        return segment is not None and scan_one(segment, position) is not None

    def _is_blank(self, position: int) -> bool:
        segment = self._log.segment_at(position)
        if segment is None or position == segment.start:
            return any(position in (other.start, other.end) for other in self._log.segments)
        return _read(segment, position, BLANK.size) == BLANK.pack(segment.end - position, MAGIC_BLANK)


def scan_one(segment: Segment, position: int) -> ScannedRecord | None:
    """Return the whole, undamaged record at this position, None if there is none."""
    head = _read(segment, position, BLANK.size)
    size = record_size_at(head) if len(head) == BLANK.size else 0
    if size == 0 or position + size > segment.end:
        return None
    found: list[ScannedRecord] = []
    _, stop, _ = scan_records(_read(segment, position, size), position, 0, found)
    return found[0] if found and stop is Stop.MORE else None


def _magic_places(data: bytes) -> list[int]:
    places: list[int] = []
    for magic in _MAGICS:
        at = data.find(magic, _MAGIC_AT)
        while at >= 0:
            places.append(at - _MAGIC_AT)
            at = data.find(magic, at + 1)
    return sorted(places)


def _read(segment: Segment, position: int, size: int) -> bytes:
    """Read bytes of a damaged stretch. What the device cannot read counts as nothing."""
    try:
        return segment.file.pread(max(min(size, segment.end - position), 0), position - segment.start)
    except OSError:
        return b""
