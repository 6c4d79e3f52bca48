"""Offsets by store time, and store times by offset. Reads queues in the loop and the log in a thread.

Boundary rules are RocketMQ 5.x's: LOWER is the first message at or after the time, UPPER the last at or
before it.
"""

from collections.abc import Sequence
from contextlib import suppress
from struct import Struct

from broker_store.log.consume_queues.consume_queue import HOLE_SIZE
from broker_store.log.errors import LogError
from broker_store.ports import InThread, LogReader, QueueReader
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.records.message_record import SYS_BORN_HOST_V6
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

_POSITION_AT = 28
_SYS_FLAG_AT = 36
_STORE_TIME_AT, _STORE_TIME_AT_V6 = 56, 68
_TIME_BYTES = _STORE_TIME_AT_V6 + 8
_INT, _LONG = Struct(">i"), Struct(">q")
_CHUNK_UNITS = 4096

UNKNOWN_MS = -1
"""Store time of a missing message."""


class Searching:
    """Answers queries about time."""

    def __init__(self, log: LogReader, in_thread: InThread) -> None:
        self._log = log
        self._in_thread = in_thread

    async def times(self, positions: Sequence[int | None]) -> list[int]:
        """Return the store times (ms) of the records at positions. UNKNOWN_MS for None and for unreadable records."""
        return await self._in_thread(_times, self._log, positions)

    async def time_of(self, queue: QueueReader | None, offset: int) -> int:
        """Return the store time (ms) of a message, UNKNOWN_MS if it does not exist."""
        return (await self.times([position_of(queue, offset)]))[0]

    async def first_time(self, queue: QueueReader | None) -> int:
        """Return the store time (ms) of a queue's oldest message, UNKNOWN_MS if it is empty."""
        while queue is not None:
            found = self._next_readable(queue, queue.min_offset, queue.max_offset)
            if found is None:
                break
            (time_ms,) = await self.times([found[1]])
            if time_ms != UNKNOWN_MS or found[1] >= self._log.min_position:
                return time_ms
            # retention removed the message during the read: another one is the oldest
        return UNKNOWN_MS

    async def offset_at(self, queue: QueueReader | None, time_ms: int, *, upper: bool) -> int:
        """Return the offset at a store time, by the requested boundary. 0 for an empty queue.

        Raises RefusedRequest if the disk fails to read a record: its time would decide which half of the queue is searched.
        """
        if queue is None or queue.max_offset == 0:
            return 0
        if not upper:
            return await self._first_at_or_after(queue, time_ms)
        after = await self._first_at_or_after(queue, time_ms + 1)
        return 0 if after <= queue.min_offset else after - 1

    async def _first_at_or_after(self, queue: QueueReader, time_ms: int) -> int:
        low, high = queue.min_offset, queue.max_offset
        while low < high:
            middle = (low + high) // 2
            found = self._next_readable(queue, middle, high)
            if found is None:  # only holes from here on
                high = middle
                continue
            offset, position = found
            if await self._time_that_decides(offset, position) < time_ms:
                low = offset + 1
            else:
                high = middle
            low = max(low, queue.min_offset)  # retention may have removed units during the read
        return low

    async def _time_that_decides(self, offset: int, position: int) -> int:
        try:
            return await self._in_thread(_read_time, self._log, position)
        except OSError as error:
            remark = f"the disk did not read the message at offset {offset}, try again: {error.strerror}"
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, remark) from error

    def _next_readable(self, queue: QueueReader, offset: int, end: int) -> tuple[int, int] | None:
        """Return (offset, position) of the first message at or after `offset` that has a record."""
        removed_below = self._log.min_position
        while offset < end:
            units = queue.read(offset, min(_CHUNK_UNITS, end - offset))
            if not units:
                return None
            for position, size, _code in CONSUME_QUEUE_UNIT.iter_unpack(units):
                if size != HOLE_SIZE and position >= removed_below:
                    return offset, position
                offset += 1
        return None


def position_of(queue: QueueReader | None, offset: int) -> int | None:
    """Return a message's position, None if it does not exist."""
    if queue is None or not queue.min_offset <= offset < queue.max_offset:
        return None
    units = queue.read(offset, 1)
    if not units:
        return None
    position, size, _code = CONSUME_QUEUE_UNIT.unpack(units)
    return None if size == HOLE_SIZE else position


def _times(log: LogReader, positions: Sequence[int | None]) -> list[int]:
    return [UNKNOWN_MS if position is None else store_ms_at(log, position) for position in positions]


def store_ms_at(log: LogReader, position: int) -> int:
    """Return the store time (ms) of the record at a position, UNKNOWN_MS where it cannot be read."""
    try:
        return _read_time(log, position)
    except OSError:
        return UNKNOWN_MS


def _read_time(log: LogReader, position: int) -> int:
    """As `store_ms_at`. Raises OSError if the disk does not read the record."""
    try:
        head = log.read_unchecked(position, _TIME_BYTES)
    except LogError:  # removed meanwhile: older than what is left
        return UNKNOWN_MS
    if len(head) < _TIME_BYTES:
        return UNKNOWN_MS
    if _LONG.unpack_from(head, _POSITION_AT)[0] != position:
        with suppress(LogError):
            log.read_record(position)  # meets the damage, so that a replica repairs it
    is_v6 = _INT.unpack_from(head, _SYS_FLAG_AT)[0] & SYS_BORN_HOST_V6
    return _LONG.unpack_from(head, _STORE_TIME_AT_V6 if is_v6 else _STORE_TIME_AT)[0]
