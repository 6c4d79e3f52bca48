"""Items of a request as the log has them: their units, their due times, and the records that outputs need, in few reads.

The log never changes, so this may run ahead, in a thread where it must wait for the disk. Never checks
whether an item is undecided.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from broker_store.clocks.shifts import Shifts
from broker_store.config.delay_levels import LevelList
from broker_store.log.consume_queues.unit_claims import check_record
from broker_store.log.errors import LogError, PositionRemoved
from broker_store.ports import ClaimingQueue
from broker_store.settling.decided.mark import Source
from gantry_wire.errors import MalformedRecord
from gantry_wire.messages.properties import TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_OUT_MS, find_property
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleItem, SettleOutput, SettleStatus
from gantry_wire.records.message_record import Record, decode_record
from gantry_wire.records.units import CONSUME_QUEUE_UNIT, CONSUME_QUEUE_UNIT_BYTES

SPAN_BYTES_MAX = 4 * 1024 * 1024
GAP_BYTES_MAX = 32 * 1024
"""Reading this much for nothing is cheaper than another read."""
OFFSETS_GAP_MAX = 256
_HOLE_SIZE = 0x7FFFFFFF
_OUT_MARK = TIMER_OUT_MS.encode()
_RELATIVE = (TIMER_DELAY_SEC.encode(), TIMER_DELAY_MS.encode())
_ANY_RELATIVE = b"TIMER_DELAY_"

ReadSpan = Callable[[int, int], bytes | None]
"""Returns the bytes of whole records at (position, size).

None when they are not in memory and need a thread. Raises LogError, OSError.
"""


class Units(ClaimingQueue, Protocol):
    """The queue of the items."""

    @property
    def min_offset(self) -> int:
        """Lowest readable offset."""
        ...

    @property
    def max_offset(self) -> int:
        """One above the highest readable offset."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` units."""
        ...


@dataclass(slots=True)
class Gathered:
    """An item with what the log says about it."""

    item: SettleItem
    size: int = 0
    due_ms: int = 0
    """Due time. 0 means at any time."""
    is_absolute: bool = False
    """Whether the wall clock must have reached it too: it was given as an instant, not as a delay."""
    record: Record | None = None
    status: str = ""
    """Why it cannot be decided, one of SettleStatus."""
    detail: str = ""
    is_unread: bool = False
    """It cannot be decided because its record could not be read."""

    @property
    def needs_record(self) -> bool:
        """Whether an output is made from the item's own record."""
        for output in self.item.outputs:  # noqa: SIM110 - once per item: a generator costs more than the question
            if output.body == "item" or output.properties == "item":
                return True
        return False

    def refuse(self, status: str, detail: str = "", *, is_unread: bool = False) -> None:
        """Set the reason why it cannot be decided."""
        self.status, self.detail, self.is_unread = status, detail, is_unread


def look_up(topic: str, queue: Units | None, items: Sequence[SettleItem]) -> list[Gathered]:
    """Return the items with their units, in the given order."""
    found = [Gathered(item) for item in items]
    if queue is None:
        for gathered in found:
            gathered.refuse(SettleStatus.BAD_ITEM, "there is no such queue")
        return found
    ordered = sorted(found, key=_offset_of)
    first = 0
    for end in range(1, len(ordered) + 1):
        if end == len(ordered) or ordered[end].item.offset - ordered[end - 1].item.offset > OFFSETS_GAP_MAX:
            _read_units(queue, ordered[first:end], is_level=topic == SCHEDULE_TOPIC)
            first = end
    return found


def read_again(
    topic: str, queue: Units | None, found: Sequence[Gathered], segment_bytes: int, read: ReadSpan
) -> bool:
    """As `read_records`, also those that could not be read before: they may be repaired."""
    for gathered in found:
        if gathered.is_unread:
            gathered.refuse("")
    return read_records(topic, queue, found, segment_bytes, read)


def read_records(
    topic: str,
    queue: Units | None,
    found: Sequence[Gathered],
    segment_bytes: int,
    read: ReadSpan,
    *,
    may_fail: bool = True,
) -> bool:
    """Read the records that outputs need. False when `read` would wait for the disk: then call again in a thread.

    Without `may_fail` also when it fails.
    """
    wanted = [
        gathered
        for gathered in found
        if not gathered.status and gathered.record is None and gathered.needs_record
    ]
    if not wanted or queue is None:
        return True
    wanted.sort(key=_position_of)
    is_timer = topic == TIMER_TOPIC
    for span in _spans(wanted, segment_bytes):
        start = span[0].item.position
        try:
            data = read(start, span[-1].item.position + span[-1].size - start)
        except (LogError, OSError):
            if not may_fail:
                return False
            _read_singly(queue, span, read, is_timer=is_timer)
            continue
        if data is None:
            return False
        for gathered in span:
            _decode(queue, gathered, data, gathered.item.position - start, is_timer=is_timer)
    return True


def _read_units(queue: Units, run: list[Gathered], *, is_level: bool) -> None:
    first, last = max(run[0].item.offset, queue.min_offset), run[-1].item.offset
    units = b""
    while first + len(units) // CONSUME_QUEUE_UNIT_BYTES <= last:  # a read ends at the end of a queue file
        at = first + len(units) // CONSUME_QUEUE_UNIT_BYTES
        part = queue.read(at, last + 1 - at)
        if not part:
            break
        units += part
    unpack, size = CONSUME_QUEUE_UNIT.unpack_from, len(units)
    for gathered in run:
        item = gathered.item
        at = (item.offset - first) * CONSUME_QUEUE_UNIT_BYTES
        if at < 0:
            gathered.refuse(SettleStatus.REMOVED)
        elif at >= size:
            gathered.refuse(SettleStatus.BAD_ITEM, "there is no message at that offset")
        else:
            position, gathered.size, code = unpack(units, at)
            if position != item.position or gathered.size == _HOLE_SIZE:
                gathered.refuse(
                    SettleStatus.BAD_ITEM, f"the message at that offset is not at position {item.position}"
                )
            elif is_level:
                gathered.due_ms = code


def _spans(wanted: list[Gathered], segment_bytes: int) -> list[list[Gathered]]:
    """Group items that are read together: in one segment, with small gaps."""
    spans: list[list[Gathered]] = []
    for gathered in wanted:
        position = gathered.item.position
        if spans:
            head, last = spans[-1][0].item.position, spans[-1][-1]
            if (
                position - last.item.position - last.size <= GAP_BYTES_MAX
                and position + gathered.size - head <= SPAN_BYTES_MAX
                and position // segment_bytes == head // segment_bytes
            ):
                spans[-1].append(gathered)
                continue
        spans.append([gathered])
    return spans


def _read_singly(queue: Units, span: list[Gathered], read: ReadSpan, *, is_timer: bool) -> None:
    """Read the records of a span one by one, to find the unreadable one."""
    for gathered in span:
        try:
            data = read(gathered.item.position, gathered.size)
        except PositionRemoved:
            gathered.refuse(SettleStatus.REMOVED)
            continue
        except (LogError, OSError) as error:
            gathered.refuse(SettleStatus.BAD_ITEM, str(error), is_unread=True)
            continue
        if data is not None:
            _decode(queue, gathered, data, 0, is_timer=is_timer)
        else:
            gathered.refuse(SettleStatus.BAD_ITEM, "its record cannot be read now")


def _decode(queue: Units, gathered: Gathered, data: bytes, at: int, *, is_timer: bool) -> None:
    item = gathered.item
    try:
        if item.offset < queue.old_end:
            check_record(queue, item.offset, item.position, gathered.size, data, at)
        record = gathered.record = decode_record(data, at, check_crc=False)
    except (LogError, MalformedRecord) as error:
        gathered.refuse(SettleStatus.BAD_ITEM, str(error))
        return
    if is_timer:
        due = find_property(record.properties, _OUT_MARK)
        if due is not None and due.isdigit():
            gathered.due_ms = int(due)
            gathered.is_absolute = _ANY_RELATIVE not in record.properties or all(
                find_property(record.properties, name) is None for name in _RELATIVE
            )


def _offset_of(gathered: Gathered) -> int:
    return gathered.item.offset


def _position_of(gathered: Gathered) -> int:
    return gathered.item.position


def put_off(source: Source, items: Sequence[Gathered], shifts: Shifts, levels: LevelList) -> None:
    """Delay the due times of items that wait out a delay. Instants stay."""
    topic, queue_id, _ = source
    for gathered in items:
        if not gathered.due_ms or gathered.is_absolute:
            continue
        if gathered.record is not None:
            began_ms = gathered.record.store_timestamp
        elif topic == SCHEDULE_TOPIC:
            began_ms = gathered.due_ms - levels.duration_ms(queue_id + 1)
        else:
            continue
        moved_ms = shifts.since(began_ms)
        if moved_ms:
            _put_off(gathered, moved_ms)


def _put_off(gathered: Gathered, moved_ms: int) -> None:
    was_ms, gathered.due_ms = gathered.due_ms, gathered.due_ms + moved_ms
    item = gathered.item
    if any(output.set.get(TIMER_OUT_MS) == str(was_ms) for output in item.outputs):
        # It must wait at the log's end for the same time. From there on that is the moved time.
        outputs = [_waiting_for(output, was_ms, gathered.due_ms) for output in item.outputs]
        gathered.item = msgspec.structs.replace(item, outputs=outputs)


def _waiting_for(output: SettleOutput, was_ms: int, due_ms: int) -> SettleOutput:
    if output.set.get(TIMER_OUT_MS) != str(was_ms):
        return output
    return msgspec.structs.replace(output, set={**output.set, TIMER_OUT_MS: str(due_ms)})
