"""The property that makes a record the outcome of an item: `__GANTRY_SETTLED=topic:queue:offset:group:i/n`. Pure.

It is believed only as the last property of a record: the store puts its own behind whatever a client sent, so nobody else can
write it there. The records of one item lie back to back, so the first of them says how many belong together.
"""

from typing import NamedTuple

from gantry_wire.properties import GANTRY_SETTLED

MARK = GANTRY_SETTLED.encode() + b"\x01"
_MARK_SIZE = len(MARK)
_END = b"\x02"
_END_BYTE = 2
OUTPUTS_MAX = 64
"""More records of one item are not believed."""

Source = tuple[str, int, str]
"""Topic, queue id and group of items. The group is empty for system queues; for others each group decides for itself."""


class Mark(NamedTuple):
    """What the property says."""

    source: Source
    offset: int
    number: int
    """1 … total."""
    total: int


def mark_parts(source: Source) -> tuple[bytes, bytes]:
    """Return what stands before the offset of an item, and what behind it up to `i/n`: the same for all items of a source."""
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
    """Return what a record's properties say of an item; None when nothing that can be believed."""
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
    """Return how many records, this one first, belong together: 1 unless it is the first of an item with several."""
    if MARK not in properties:
        return 1
    mark = read_mark(properties)
    return mark.total if mark is not None and mark.number == 1 else 1
