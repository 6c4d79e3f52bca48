"""Compares records with the units that name them. Every reader that goes from a unit to the log uses this.

Units of earlier runs were at rest, and may be damaged. A flipped position may lead into the middle of a record, even of
one that this run wrote, or to another whole record: no check of the log alone finds that. Units of this run came
from memory and are trusted.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception
from typing import NamedTuple

from broker_store.log.errors import DamagedRecord
from broker_store.ports import ClaimingQueue
from gantry_wire.records.message_record import SYS_BORN_HOST_V6, SYS_STORE_HOST_V6

_FIXED = Struct(">iI4xi4xqqi44xi")
"""Of a record with IPv4 hosts: size, magic, queue id, queue offset, position, system flag, body size."""
_SIZE = Struct(">i")
_V6_HOSTS = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6
_V6_EXTRA_BYTES = 12
_take, _take_size = _FIXED.unpack_from, _SIZE.unpack_from


class Claims(NamedTuple):
    """What units say about the records to be read: of which messages they are, and where they lie."""

    queue: ClaimingQueue
    offsets: Sequence[int]
    """Ascending."""
    positions: Sequence[int]
    sizes: Sequence[int]

    def check(self, parts: list[bytes]) -> None:
        """Raise DamagedRecord for the first record that is not the one its unit names.

        `parts` has one part per record, or one that holds them all, where their sizes fill the distance.
        """
        if len(parts) == 1:
            self._check_run(parts[0])
            return
        queue, offsets, positions, sizes = self
        if len(parts) != len(sizes):  # the spans overlap
            raise _mismatch(positions[0])
        for offset, position, size, part in zip(offsets, positions, sizes, parts, strict=True):
            check_record(queue, offset, position, size, part)

    def check_record(self, number: int, data: bytes) -> None:
        """As `check`, for a single record."""
        check_record(self.queue, self.offsets[number], self.positions[number], self.sizes[number], data)

    def _check_run(self, data: bytes) -> None:
        """Check records that fill the data, with less work per record.

        A queue's records lie in the order of its offsets, so those of all units lie between the first and the last
        one, which are compared in full. Their number is that of the records in the data, as the walk from one to the
        next shows. So the data has no other record, whatever the units between say.
        """
        queue, offsets, positions, sizes = self
        check_record(queue, offsets[0], positions[0], sizes[0], data)
        at, take_size = 0, _take_size
        try:
            for _ in sizes:
                at += take_size(data, at)[0]
        except StructError:
            raise _mismatch(positions[0]) from None
        if at != len(data):
            raise _mismatch(positions[0])
        if len(sizes) > 1:
            check_record(queue, offsets[-1], positions[-1], sizes[-1], data, at - sizes[-1])


def check_record(
    queue: ClaimingQueue, offset: int, position: int, size: int, data: bytes, at: int = 0
) -> None:
    """Raise DamagedRecord unless the record `at` this place of the data is the one that a unit names.

    Its size, magic, position, queue, queue offset and topic must be those of the unit. The data may have more records.
    """
    try:
        found_size, magic, queue_id, queue_offset, own_position, sys_flag, body_size = _take(data, at)
        body_at = at + _FIXED.size
        if sys_flag & _V6_HOSTS:
            body_at += _V6_EXTRA_BYTES * (sys_flag & _V6_HOSTS).bit_count()
            (body_size,) = _take_size(data, body_at - _SIZE.size)
    except StructError:
        raise _mismatch(position) from None
    if (
        queue_offset != offset
        or found_size != size
        or own_position != position
        or queue_id != queue.queue_id
        or magic != queue.magic
        or body_size < 0
        or not data.startswith(queue.behind_body, body_at + body_size)
    ):
        raise _mismatch(position)


def _mismatch(position: int) -> DamagedRecord:
    return DamagedRecord(position, "it is not the record that its unit names")
