"""The units of a ConsumeQueue as readers see them: in files of fixed size, the newest in memory."""

from broker_store.log.errors import LogUnreadable
from broker_store.log.files.file_pool import FilePool
from broker_store.log.files.names import file_name
from broker_store.log.settings import QUEUE_UNIT_BYTES, LogSettings
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

HOLE_SIZE = 0x7FFFFFFF
"""Size field of a unit that points to no record: its message is gone or never existed."""
STEP_UNITS = 4096
"""Units read at once when many are walked."""


class QueueUnits:
    """Units [min_offset, max_offset), for reading and searching."""

    __slots__ = (
        "_file_bytes", "_file_units", "_first_file", "_flushed", "_new_file", "_owed", "_owed_names", "_pool", "_tail", "_tail_first",
        "_unsynced", "covered_end", "directory", "max_offset", "min_offset", "old_end",
    )  # fmt: skip

    def __init__(self, pool: FilePool, directory: str, settings: LogSettings) -> None:
        self.directory = directory
        self.min_offset = 0
        self.max_offset = 0
        self.covered_end = 0
        """The last checkpoint covers units below this offset, in the files or in the unit journal."""
        self.old_end = 0
        """Units below this offset were in the files when they were opened, and may be damaged."""
        self._pool = pool
        self._file_units = settings.queue_file_units
        self._file_bytes = settings.queue_file_bytes
        self._first_file = 0
        self._tail = bytearray()
        self._tail_first = 0
        self._flushed = 0
        self._unsynced: set[str] = set()
        self._new_file = False
        self._owed: tuple[str, ...] = ()
        self._owed_names = False

    def read(self, offset: int, count: int) -> bytes:
        """Return up to count units from this offset on, never beyond the end. None for an offset outside."""
        units = self._read(offset, count, nowait=False)
        assert units is not None
        return units

    def read_nowait(self, offset: int, count: int) -> bytes | None:
        """As `read`, but None when they are not in the page cache."""
        return self._read(offset, count, nowait=True)

    def _read(self, offset: int, count: int, *, nowait: bool) -> bytes | None:
        end = min(offset + count, self.max_offset)
        if offset < self.min_offset or offset >= end:
            return b""
        if offset >= self._tail_first:
            start = (offset - self._tail_first) * QUEUE_UNIT_BYTES
            return bytes(self._tail[start : start + (end - offset) * QUEUE_UNIT_BYTES])
        parts: list[bytes] = []
        while offset < min(end, self._tail_first):
            part_end = min(end, self._tail_first, offset - offset % self._file_units + self._file_units)
            part = self._read_file(offset, part_end - offset, nowait=nowait)
            if part is None:
                return None
            parts.append(part)
            offset = part_end
        if offset < end:
            parts.append(bytes(self._tail[: (end - offset) * QUEUE_UNIT_BYTES]))
        return b"".join(parts)

    def _read_file(self, offset: int, count: int, *, nowait: bool) -> bytes | None:
        within = offset % self._file_units
        file = self._pool.get(self._path(offset - within))
        size, at = count * QUEUE_UNIT_BYTES, within * QUEUE_UNIT_BYTES
        return file.pread_nowait(size, at) if nowait else file.pread(size, at)

    def offset_at(self, position: int) -> int:
        """Return the first offset whose record is at or above this position, max_offset if there is none.

        Holes do not count: they belong to the next real unit.
        """
        low, high = self.min_offset, self.max_offset
        while low < high:
            middle = (low + high) // 2
            real, real_position = self._next_real(middle, high)
            if real < high and real_position < position:
                low = real + 1
            else:
                high = middle
        return low

    def end_below(self, position: int) -> int:
        """Return one above the last offset whose record is below this position, max_offset where all are."""
        last = self.max_offset - 1
        if last < self.min_offset:
            return self.max_offset
        at, size, _ = CONSUME_QUEUE_UNIT.unpack(self.read(last, 1))
        return self.max_offset if size != HOLE_SIZE and at < position else self.offset_at(position)

    def position_after(self, position: int) -> int | None:
        """Return the lowest position above this one that a unit points to, None if there is none."""
        real, found = self._next_real(self.offset_at(position + 1), self.max_offset)
        return found if real < self.max_offset else None

    def _next_real(self, offset: int, end: int) -> tuple[int, int]:
        step = 1
        while offset < end:
            units = self.read(offset, min(step, end - offset))
            if len(units) < QUEUE_UNIT_BYTES:  # otherwise the walk would never end
                raise LogUnreadable(
                    f"{self.directory} has no unit {offset}, though its queue reaches to {self.max_offset}: "
                    "a queue file was cut or removed by another program; restart the store to rebuild it"
                )
            for place, (position, size, _) in enumerate(CONSUME_QUEUE_UNIT.iter_unpack(units)):
                if size != HOLE_SIZE:
                    return offset + place, position
            offset += len(units) // QUEUE_UNIT_BYTES
            step = STEP_UNITS
        return end, -1

    def _unit_on_disk(self, offset: int) -> tuple[int, int, int]:
        within = offset % self._file_units
        unit = self._pool.get(self._path(offset - within)).pread(QUEUE_UNIT_BYTES, within * QUEUE_UNIT_BYTES)
        return CONSUME_QUEUE_UNIT.unpack(unit) if len(unit) == QUEUE_UNIT_BYTES else (0, 0, 0)

    def _path(self, first: int) -> str:
        return f"{self.directory}/{file_name(first * QUEUE_UNIT_BYTES)}"
