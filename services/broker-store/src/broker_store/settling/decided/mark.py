"""The property that makes a record the outcome of an item: `__GANTRY_SETTLED=topic:queue:offset:group:i/n`. Pure.

It counts only as the last property of a record: the store appends its own after the client's, so nobody
else can write it there. The records of one item are adjacent, and the first one holds their number.
"""

from typing import NamedTuple

from gantry_wire.messages.properties import GANTRY_SETTLED

MARK = GANTRY_SETTLED.encode() + b"\x01"
_MARK_SIZE = len(MARK)
_END = b"\x02"
_END_BYTE = 2
OUTPUTS_MAX = 64
"""Most records per item. More are not accepted."""

Source = tuple[str, int, str]
"""Topic, queue id and group of items. System queues have no group. In others each group decides for itself."""


class Mark(NamedTuple):
    """Content of the property."""

    source: Source
    offset: int
    number: int
    """1 … total."""
    total: int


def mark_parts(source: Source) -> tuple[bytes, bytes]:
    """Return what precedes and what follows an item's offset, up to `i/n`. Equal for all items of a source."""
    topic, queue_id, group = source
    return f"{GANTRY_SETTLED}\x01{topic}:{queue_id}:".encode(), f":{group}:".encode()


MARK_SUFFIXES = tuple(
    tuple(b"%d/%d\x02" % (number, total) for number in range(total + 1)) for total in range(OUTPUTS_MAX + 1)
)
"""The end of the property, by total and number."""
MARK_SUFFIX_BYTES_MAX = len(MARK_SUFFIXES[-1][-1])


def whole_mark(source: Source, offset: int, number: int, total: int) -> bytes:
    """Return the property."""
    before, behind = mark_parts(source)
    return b"%b%d%b%b" % (before, offset, behind, MARK_SUFFIXES[total][number])


def read_mark(properties: bytes) -> Mark | None:
    """Return the mark of a record's properties, None when there is no valid one."""
    at = properties.rfind(MARK)
    if at < 0 or (at and properties[at - 1] != _END_BYTE):
        return None
    if properties.find(_END, at) != len(properties) - 1:
        return None
    try:
        topic, queue_id, offset, group, part = properties[at + _MARK_SIZE : -1].decode().split(":")
        number, total = part.split("/")
        mark = Mark((topic, int(queue_id), group), int(offset), int(number), int(total))
    except ValueError:
        return None
    return mark if 1 <= mark.number <= mark.total <= OUTPUTS_MAX and mark.offset >= 0 else None


def records_together(properties: bytes) -> int:
    """Return how many records, starting here, belong together. 1 unless this is the first of an item with several."""
    if MARK not in properties:
        return 1
    mark = read_mark(properties)
    return mark.total if mark is not None and mark.number == 1 else 1
