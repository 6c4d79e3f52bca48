"""One pull: from queue, offset and filter to a status and the log spans of the answer.

Reads only ConsumeQueue units. Statuses, next offsets and limits are those of RocketMQ's
DefaultMessageStore.getMessage. Knows no connection and no group.
"""

from dataclasses import dataclass, replace
from enum import Enum
from struct import Struct
from typing import NamedTuple

from broker_store.log.consume_queues.consume_queue import HOLE_SIZE
from broker_store.log.consume_queues.unit_claims import Claims
from broker_store.ports import LogReader, QueueReader
from gantry_wire.codes import ResponseCode
from gantry_wire.limits import PULL_MESSAGES_MAX
from gantry_wire.records.units import (
    CONSUME_QUEUE_UNIT,
    CONSUME_QUEUE_UNIT_BYTES,
    CONSUME_QUEUE_UNITS_PER_FILE,
)
from gantry_wire.subscription import EVERYTHING, TagFilter

SCAN_UNITS_MAX = 800
"""Units checked per filtered pull (RocketMQ: 16,000 bytes of queue), or the number of messages requested if higher."""

Span = tuple[int, int]
"""Position and size of adjacent records."""


class PullStatus(Enum):
    """RocketMQ's GetMessageStatus. The name is the remark of the reply."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    MESSAGE_WAS_REMOVING = 2
    OFFSET_FOUND_NULL = 3
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_TOO_SMALL = 6
    NO_MESSAGE_IN_QUEUE = 7
    OFFSET_RESET = 8


REPLY_CODES: dict[PullStatus, ResponseCode] = {
    PullStatus.FOUND: ResponseCode.SUCCESS,
    PullStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    PullStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    PullStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    PullStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    PullStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    PullStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    PullStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_NOT_FOUND,
    PullStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}


def reply_code(status: PullStatus, asked_offset: int) -> ResponseCode:
    """Return the code of a pull reply. For an empty queue it is "moved" when the requested offset is above 0."""
    if status is PullStatus.NO_MESSAGE_IN_QUEUE and asked_offset != 0:
        return ResponseCode.PULL_OFFSET_MOVED
    return REPLY_CODES[status]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Bounds of one reply. One message is always allowed."""

    count: int
    size: int


@dataclass(frozen=True, slots=True)
class PullLimits:
    """Limits by where the messages lie: recent ones are in memory and cheap."""

    memory: BatchLimits = BatchLimits(32, 256 * 1024)
    disk: BatchLimits = BatchLimits(8, 64 * 1024)
    memory_bytes: int = 1 << 30
    """Records this near to the end of the log count as in memory (RocketMQ: 40 % of the machine's)."""

    def with_count(self, count: int, size: int) -> "PullLimits":
        """Return wider limits, for readers that ask for more than RocketMQ's clients."""
        return replace(self, memory=BatchLimits(count, size), disk=BatchLimits(count, size))


class Selection:
    """Result of a pull. `spans` has one span per record, in order, or a single span where all records touch.

    `claims` are those of the units, where some are of an earlier run: what is read is compared with them.
    """

    __slots__ = ("claims", "count", "max_offset", "min_offset", "next_offset", "size", "spans", "status")

    def __init__(self, status: PullStatus, next_offset: int, min_offset: int, max_offset: int) -> None:
        self.status = status
        self.next_offset = next_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.spans: list[Span] = []
        self.claims: Claims | None = None
        self.count = 0
        self.size = 0


class Ask(NamedTuple):
    """What a pull requests from a queue."""

    offset: int
    count_max: int
    wanted: TagFilter = EVERYTHING
    limits: PullLimits = PullLimits()


def select(queue: QueueReader | None, log: LogReader, ask: Ask) -> Selection:
    """Find the records that answer a pull, without reading the log."""
    offset, count_max, wanted, limits = ask
    max_offset = 0 if queue is None else queue.max_offset
    if queue is None or max_offset == 0:
        return Selection(PullStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    min_offset = queue.min_offset
    if offset < min_offset:
        return Selection(PullStatus.OFFSET_TOO_SMALL, min_offset, min_offset, max_offset)
    if offset >= max_offset:
        status = PullStatus.OFFSET_OVERFLOW_ONE if offset == max_offset else PullStatus.OFFSET_OVERFLOW_BADLY
        return Selection(status, max_offset, min_offset, max_offset)
    found = Selection(PullStatus.FOUND, offset, min_offset, max_offset)
    if wanted.codes is None:
        units = queue.read(offset, min(max(count_max, 1), limits.memory.count, max_offset - offset))
        if _take_all(found, queue, units, log, limits):
            return found
    return _scan(found, queue, log, ask)


def select_singly(queue: QueueReader, log: LogReader, ask: Ask) -> Selection:
    """As `select` within the queue's bounds, with one span per record: for a stretch with damage."""
    found = Selection(PullStatus.FOUND, ask.offset, queue.min_offset, queue.max_offset)
    return _scan(found, queue, log, ask)


def _take_all(found: Selection, queue: QueueReader, units: bytes, log: LogReader, limits: PullLimits) -> bool:
    """Take all units when they fit the limits and contain no hole. The usual case, without a step per message."""
    count = len(units) // CONSUME_QUEUE_UNIT_BYTES
    if count == 0:
        return False
    values = _units_struct(count).unpack(units)
    position = values[0]
    sizes = values[1::3]
    size = sum(sizes)
    if position < log.min_position:
        return False
    batch = limits.memory if log.visible_end - position <= limits.memory_bytes else limits.disk
    if size > batch.size or count > batch.count:  # a hole's size exceeds every limit
        return False
    # Records never overlap and lie in order, so they touch exactly when their sizes fill the distance.
    is_run = values[-3] + values[-2] - position == size
    found.spans = [(position, size)] if is_run else list(zip(values[0::3], sizes, strict=True))
    if found.next_offset < queue.old_end:
        offsets = range(found.next_offset, found.next_offset + count)
        found.claims = Claims(queue, offsets, values[0::3], sizes)
    found.count = count
    found.size = size
    found.next_offset += count
    return True


def _scan(found: Selection, queue: QueueReader, log: LogReader, ask: Ask) -> Selection:
    """Check units one by one: filters, holes, limits."""
    offsets: list[int] = []
    _scan_units(found, queue, log, ask, offsets)
    if found.spans and ask.offset < queue.old_end:
        positions, sizes = zip(*found.spans, strict=True)
        found.claims = Claims(queue, offsets, positions, sizes)
    return found


def _scan_units(found: Selection, queue: QueueReader, log: LogReader, ask: Ask, offsets: list[int]) -> None:
    """Select what matches, and note the offset of each."""
    count = min(max(ask.count_max, 1), PULL_MESSAGES_MAX)
    scan_end = min(found.max_offset, ask.offset + max(SCAN_UNITS_MAX, count))
    removed_below = log.min_position
    is_removed = False
    batch: BatchLimits | None = None
    chunk = 2 * count
    matches = ask.wanted.matches
    spans = found.spans
    while found.next_offset < scan_end:
        units = queue.read(found.next_offset, min(chunk, scan_end - found.next_offset))
        if not units:
            at_gap(found)
            return
        chunk = SCAN_UNITS_MAX
        for position, size, code in CONSUME_QUEUE_UNIT.iter_unpack(units):
            if size == HOLE_SIZE or size <= 0:
                pass
            elif position < removed_below:
                is_removed = True
            elif matches(code):
                if batch is None:
                    near = log.visible_end - position <= ask.limits.memory_bytes
                    batch = ask.limits.memory if near else ask.limits.disk
                elif len(spans) >= min(count, batch.count) or found.size + size > batch.size:
                    return
                spans.append((position, size))
                offsets.append(found.next_offset)
                found.count += 1
                found.size += size
            found.next_offset += 1
    if not spans:
        found.status = PullStatus.MESSAGE_WAS_REMOVING if is_removed else PullStatus.NO_MATCHED_MESSAGE


def at_gap(found: Selection) -> None:
    """Skip a gap in the queue: continue in its next file, unless something was found before."""
    if not found.spans:
        found.status = PullStatus.OFFSET_FOUND_NULL
        per_file = CONSUME_QUEUE_UNITS_PER_FILE
        found.next_offset = min((found.next_offset // per_file + 1) * per_file, found.max_offset)


_structs: dict[int, Struct] = {}


def _units_struct(count: int) -> Struct:
    """Return the layout of `count` adjacent units."""
    layout = _structs.get(count)
    if layout is None:
        assert 0 < count <= PULL_MESSAGES_MAX
        layout = _structs[count] = Struct(">" + CONSUME_QUEUE_UNIT.format[1:] * count)
    return layout
