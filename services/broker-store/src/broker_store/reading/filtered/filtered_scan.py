"""The scan of a filtered pull: applies the filter to the property bytes of records, directly in stretches of the log.

Pure: it requests a stretch and receives its bytes. The caller decides how they are read and when other work
runs. No record is decoded: its lengths lead to its properties.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception
from typing import NamedTuple

from broker_store.log.consume_queues.consume_queue import HOLE_SIZE
from broker_store.log.consume_queues.unit_claims import check_record
from broker_store.log.errors import DamagedRecord
from broker_store.ports import LogReader, QueueReader
from broker_store.reading.pull import Ask, PullStatus, Selection, Span, at_gap
from gantry_wire.limits import PULL_MESSAGES_MAX
from gantry_wire.records.message_record import MAGIC_V2
from gantry_wire.records.units import CONSUME_QUEUE_UNIT
from gantry_wire.sql92.compiling import SqlFilter

SCAN_UNITS_MAX = 16_384
"""Records checked per pull. RocketMQ stops after 800; more saves round trips for a pull that drops nearly all."""
SLICE_UNITS = 512
"""Records checked at once with an ordinary filter: about half a millisecond, then others run."""
FIRST_UNITS = 64
"""Records checked within the requesting turn."""
RECORD_STEPS = 4
"""Cost of a record beside its filter, in steps of `SqlFilter.steps`: about a quarter of a microsecond each."""
STEPS_PER_UNIT = 16
"""A filter with up to this many steps per record, the record's own included, gets the full limits above.

A larger filter gets fewer records.
"""
STRETCH_BYTES_MAX = 256 * 1024
GAP_BYTES_MAX = 16 * 1024
"""Records further apart than this are read separately: copying the gap would cost more than a system call."""

_SIZE = Struct(">i")
_SYS_FLAG_LOW_AT = 39
_BODY_AT = (88, 100, 100, 112)
"""Start of the body, by which of the two hosts are IPv6 (two bits of the system flag)."""
_MAGIC_LOW_AT, _MAGIC_V2_LOW = 7, MAGIC_V2 & 0xFF
_TAKE = _SIZE.unpack_from

Unit = tuple[int, int, int]


class Stretch(NamedTuple):
    """Units whose records lie near each other, in `size` bytes of the log from `start` on.

    Without a size there are only holes.
    """

    start: int
    size: int
    units: list[Unit]


class Scan:
    """One pull in flight. `parts` are the found records, as stored."""

    __slots__ = ("_batch", "_count_max", "_is_removed", "_log", "_matches", "_old_end", "_queue", "_scan_end", "_steps", "ask", "damaged", "found", "parts")  # fmt: skip

    def __init__(self, queue: QueueReader, log: LogReader, ask: Ask, wanted: SqlFilter) -> None:
        self.ask = ask
        self.found = Selection(PullStatus.FOUND, ask.offset, queue.min_offset, queue.max_offset)
        self.parts: list[bytes] = []
        self.damaged = 0
        self._queue = queue
        self._old_end = queue.old_end
        self._log = log
        self._matches = wanted.matches
        self._count_max = min(max(ask.count_max, 1), PULL_MESSAGES_MAX)
        self._steps = RECORD_STEPS + wanted.steps
        self._scan_end = min(self.found.max_offset, ask.offset + self._units(SCAN_UNITS_MAX))
        self._batch = ask.limits.memory
        self._is_removed = False

    def next_stretch(self, count: int = SLICE_UNITS) -> Stretch | None:
        """Return what to check next, at most `count` records of an ordinary filter. None when the scan is over."""
        begin = self._queue.min_offset
        if self.found.next_offset < begin:  # retention has removed what lay ahead since the last stretch
            self._is_removed = True
            self.found.next_offset = begin
        offset = self.found.next_offset
        if offset >= self._scan_end:
            self._end()
            return None
        units = self._queue.read(offset, min(self._units(count), self._scan_end - offset))
        if not units:
            at_gap(self.found)
            return None
        return _near(list(CONSUME_QUEUE_UNIT.iter_unpack(units)), self._log.min_position)

    @property
    def is_begun(self) -> bool:
        """Whether the records of the requesting turn are used up."""
        return self.found.next_offset - self.ask.offset >= self._units(FIRST_UNITS)

    def look(self, stretch: Stretch, data: bytes) -> bool:
        """Check the records of a stretch. True when the reply is full."""
        start, matches, found = stretch.start, self._matches, self.found
        removed_below = self._log.min_position
        for position, size, _code in stretch.units:
            if size == HOLE_SIZE or size <= 0:
                found.next_offset += 1
                continue
            if position < removed_below:
                self._is_removed = True
                found.next_offset += 1
                continue
            at = position - start
            properties = properties_at(data, at, size)
            if properties is None or not self._is_named(position, size, data, at):
                self.damaged += 1
            elif matches(properties) and not self._take(position, size, data[at : at + size]):
                return True
            found.next_offset += 1
        return False

    def skip(self, stretch: Stretch, *, is_damaged: bool) -> None:
        """Skip a stretch: a hole, or a record that cannot be read."""
        self.found.next_offset += len(stretch.units)
        self.damaged += is_damaged

    def _is_named(self, position: int, size: int, data: bytes, at: int) -> bool:
        """Whether a record is the one that the unit of the next offset names."""
        offset = self.found.next_offset
        if offset < self._old_end:
            try:
                check_record(self._queue, offset, position, size, data, at)
            except DamagedRecord:
                return False
        return True

    def _take(self, position: int, size: int, record: bytes) -> bool:
        """Add a record, or report that the reply is full."""
        found, limits = self.found, self.ask.limits
        if not found.spans:
            near = self._log.visible_end - position <= limits.memory_bytes
            self._batch = limits.memory if near else limits.disk
        elif (
            len(self.parts) >= min(self._count_max, self._batch.count) or found.size + size > self._batch.size
        ):
            return False
        found.spans.append((position, size))
        self.parts.append(record)
        found.count += 1
        found.size += size
        return True

    def _units(self, count: int) -> int:
        """Return how many records take as long as `count` with an ordinary filter, at least one."""
        return min(count, max(count * STEPS_PER_UNIT // self._steps, 1))

    def _end(self) -> None:
        """Set the status of the reply. A scan that found nothing up to the queue's end ends like an empty pull."""
        found = self.found
        if found.spans:
            return
        found.max_offset = self._queue.max_offset
        if self._is_removed:
            found.status = PullStatus.MESSAGE_WAS_REMOVING
        elif found.next_offset >= found.max_offset:
            found.status = PullStatus.OFFSET_OVERFLOW_ONE
        else:
            found.status = PullStatus.NO_MATCHED_MESSAGE


def properties_at(data: bytes, at: int, size: int) -> bytes | None:
    """Return the property bytes of the record at `at`. None when no record of that size begins there."""
    try:
        if _TAKE(data, at)[0] != size:
            return None
        body_at = at + _BODY_AT[data[at + _SYS_FLAG_LOW_AT] >> 4 & 3]
        body_size: int = _TAKE(data, body_at - 4)[0]
        topic_at = body_at + body_size
        if body_size < 0:
            return None
        if data[at + _MAGIC_LOW_AT] == _MAGIC_V2_LOW:
            topic_end = topic_at + 2 + (data[topic_at] << 8 | data[topic_at + 1])
        else:
            topic_end = topic_at + 1 + data[topic_at]
    except (IndexError, StructError):
        return None
    end = at + size
    return data[topic_end + 2 : end] if topic_end + 2 <= end <= len(data) else None


def _near(units: list[Unit], removed_below: int) -> Stretch:
    """Return as many of the first units as one read may cover."""
    start = end = -1
    for number, (position, size, _code) in enumerate(units):
        if size == HOLE_SIZE or size <= 0 or position < removed_below:
            continue
        if start < 0:
            start = end = position
        if (
            not start <= position
            or position - end > GAP_BYTES_MAX
            or (end > start and position + size - start > STRETCH_BYTES_MAX)
        ):
            return Stretch(start, end - start, units[:number])
        end = max(end, position + size)
    return Stretch(max(start, 0), max(end - start, 0), units)


def stretch_of(units: list[Unit], removed_below: int) -> Stretch:
    """Return the stretch of units that lie near each other; of size 0 if none of their records can be read."""
    spans: list[Span] = [
        (position, size)
        for position, size, _code in units
        if 0 < size != HOLE_SIZE and position >= removed_below
    ]
    start = min((position for position, _size in spans), default=0)
    return Stretch(start, max((position + size for position, size in spans), default=start) - start, units)
