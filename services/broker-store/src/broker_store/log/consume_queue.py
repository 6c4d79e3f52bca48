"""One ConsumeQueue: 20-byte units in files of fixed size, the newest ones in memory until they are flushed.

Unit n names the record of message n. Everything here is derived from the CommitLog and may be rebuilt from it.
Used by one thread; only what `take_unsynced` hands out is synced elsewhere.
"""

from collections.abc import Callable

from broker_store.log.errors import DamagedRecord
from broker_store.log.file_pool import FilePool
from broker_store.log.files import File
from broker_store.log.segment import file_name, parse_file_name
from broker_store.log.settings import QUEUE_UNIT_BYTES, LogSettings
from gantry_wire.units import CONSUME_QUEUE_BLANK, CONSUME_QUEUE_UNIT

HOLE_SIZE = 0x7FFFFFFF
"""Size field of a unit that names no record: its message is gone or was never there."""
TAIL_UNITS_KEPT = 32
"""Newest units that stay in memory after a flush: pulls at the end of the queue need no file."""
GAP_UNITS_MAX = 20_000_000
"""A record that claims to lie further ahead than this is damaged, not late."""
_STEP_UNITS = 4096
_pack = CONSUME_QUEUE_UNIT.pack
_unpack = CONSUME_QUEUE_UNIT.unpack

Proof = Callable[[int, int, int], bool]
"""Whether the log holds a record at this position, of this size, with this queue offset."""


class ConsumeQueue:
    """Units [min_offset, max_offset). `append` is hot: it touches memory only."""

    __slots__ = (
        "_file_bytes", "_file_units", "_first_file", "_flushed", "_new_file", "_pool", "_tail", "_tail_first",
        "_unsynced", "directory", "max_offset", "min_offset",
    )  # fmt: skip

    def __init__(self, pool: FilePool, directory: str, settings: LogSettings) -> None:
        self.directory = directory
        self.min_offset = 0
        self.max_offset = 0
        self._pool = pool
        self._file_units = settings.queue_file_units
        self._file_bytes = settings.queue_file_bytes
        self._first_file = 0
        self._tail = bytearray()
        self._tail_first = 0
        self._flushed = 0
        self._unsynced: set[str] = set()
        self._new_file = False

    # --- appending -----------------------------------------------------------------------------------------

    def append(self, offset: int, position: int, size: int, tags_code: int) -> int:
        """Add the unit of message `offset`. One that is there already is left alone, so dispatch may be repeated.

        Returns how many holes had to be left in front of it (0 in any healthy log). Raises DamagedRecord for an
        offset that no gap explains.
        """
        holes = 0
        if offset != self.max_offset:
            if offset < self.max_offset:
                return 0
            holes = self._leap_to(offset, position)
        self._tail += _pack(position, size, tags_code)
        self.max_offset = offset + 1
        return holes

    def start_at(self, offset: int) -> None:
        """Let an empty queue begin at this offset: the units before it in its file say that they name nothing."""
        assert self.max_offset == self.min_offset
        if offset == self.max_offset:
            return
        first = offset - offset % self._file_units
        self._first_file = first
        self._tail = bytearray(CONSUME_QUEUE_BLANK * (offset - first))
        self._tail_first = self._flushed = first
        self.min_offset = self.max_offset = offset

    def _leap_to(self, offset: int, position: int) -> int:
        if self.max_offset == self.min_offset and not self._tail:
            self.start_at(offset)
            return 0
        holes = offset - self.max_offset
        if holes > GAP_UNITS_MAX:
            raise DamagedRecord(position, f"its queue offset {offset} leaps from {self.max_offset}")
        while self.max_offset < offset:
            count = min(offset - self.max_offset, _STEP_UNITS)
            self._tail += CONSUME_QUEUE_BLANK * count
            self.max_offset += count
            self.flush()
        return holes

    # --- reading -------------------------------------------------------------------------------------------

    def read(self, offset: int, count: int) -> bytes:
        """Return up to count units from this offset on, never beyond the end; none for an offset outside."""
        units = self._read(offset, count, nowait=False)
        assert units is not None
        return units

    def read_nowait(self, offset: int, count: int) -> bytes | None:
        """Like read, but None when they are not in the page cache."""
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
        """Return the first offset whose record lies at or above this position; max_offset if none does.

        Units that are holes take no part: they belong to the next real one.
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

    def position_after(self, position: int) -> int | None:
        """Return the lowest position above this one that a unit names, None if none does."""
        real, found = self._next_real(self.offset_at(position + 1), self.max_offset)
        return found if real < self.max_offset else None

    def _next_real(self, offset: int, end: int) -> tuple[int, int]:
        step = 1
        while offset < end:
            units = self.read(offset, min(step, end - offset))
            for place, (position, size, _) in enumerate(CONSUME_QUEUE_UNIT.iter_unpack(units)):
                if size != HOLE_SIZE:
                    return offset + place, position
            offset += len(units) // QUEUE_UNIT_BYTES
            step = _STEP_UNITS
        return end, -1

    # --- flushing ------------------------------------------------------------------------------------------

    @property
    def is_flushed(self) -> bool:
        """Whether all units are written to their files."""
        return self._flushed == self.max_offset

    def flush(self) -> None:
        """Write what is only in memory to the files; nothing is synced. OSError leaves it all in memory."""
        while self._flushed < self.max_offset:
            first = self._flushed
            file_first = first - first % self._file_units
            end = min(self.max_offset, file_first + self._file_units)
            start_byte = (first - self._tail_first) * QUEUE_UNIT_BYTES
            end_byte = (end - self._tail_first) * QUEUE_UNIT_BYTES
            path = self._path(file_first)
            if first == file_first:
                self._make_file(path)
            self._pool.get(path).pwrite(
                self._tail[start_byte:end_byte], (first - file_first) * QUEUE_UNIT_BYTES
            )
            self._unsynced.add(path)
            self._flushed = end
        surplus = self._flushed - self._tail_first - TAIL_UNITS_KEPT
        if surplus > 0:
            del self._tail[: surplus * QUEUE_UNIT_BYTES]
            self._tail_first += surplus

    def take_unsynced(self) -> tuple[list[File], list[str]]:
        """Hand over the files, and the directories, that must be synced for all flushed units to be durable."""
        files = [self._pool.get(path) for path in sorted(self._unsynced)]
        self._unsynced.clear()
        names, self._new_file = self._new_file, False
        topic_directory = self.directory.rpartition("/")[0]
        return files, [self.directory, topic_directory, topic_directory.rpartition("/")[0]] if names else []

    def sync(self) -> None:
        """Flush, and return once all units are durable."""
        self.flush()
        files, directories = self.take_unsynced()
        for file in files:
            file.sync()
        for directory in directories:
            self._pool.files.sync_dir(directory)

    def _make_file(self, path: str) -> None:
        if not self._pool.files.exists(path):
            self._pool.files.make_dirs(self.directory)
            self._new_file = True
        self._pool.get(path, create_bytes=self._file_bytes)

    # --- opening and shrinking -----------------------------------------------------------------------------

    def load(self, log_min: int, limit: int, proof: Proof | None = None) -> None:
        """Find the units on disk that name records below `limit`.

        `proof` is given after a crash: it must confirm the last unit, so that torn ones are stepped over, and
        what lies behind it is zeroed. After a clean stop nothing lies there.
        """
        starts = [
            start
            for name in self._pool.files.listdir(self.directory)
            if (start := parse_file_name(name)) is not None
        ]
        self._first_file = starts[0] // QUEUE_UNIT_BYTES if starts else 0
        self.min_offset = self._first_file
        self.max_offset = self._tail_first = self._flushed = self._first_file
        end = self._first_file
        for start in starts:
            if start // QUEUE_UNIT_BYTES != end:
                break  # a file is missing: what lies behind the gap is rebuilt
            end += self._file_units
        low, high = self._first_file, end
        while low < high:
            middle = (low + high) // 2
            position, size, _ = self._unit_on_disk(middle)
            if size > 0 and 0 <= position < limit:
                low = middle + 1
            else:
                high = middle
        while proof is not None and low > self._first_file and not self._is_proven(low - 1, proof):
            low -= 1
        self.max_offset = self._tail_first = self._flushed = low
        if proof is not None:
            self._end_at(low)
        self.delete_before(log_min)

    def truncate_to_position(self, position: int) -> None:
        """Drop the units of records at or above this position."""
        self.flush()
        self._end_at(self.offset_at(position))

    def punch(self, start: int, end: int) -> int:
        """Turn the units of records in [start, end) into holes; returns how many."""
        self.flush()
        first, last = self.offset_at(start), self.offset_at(end)
        for offset in range(first, last):
            within = offset % self._file_units
            path = self._path(offset - within)
            self._pool.get(path).pwrite(CONSUME_QUEUE_BLANK, within * QUEUE_UNIT_BYTES)
            self._unsynced.add(path)
        self._forget_tail()
        return last - first

    def delete_before(self, position: int) -> None:
        """Raise min_offset past the records below this position and remove files that hold no others."""
        real, _ = self._next_real(self.offset_at(position), self.max_offset)
        self.min_offset = max(self.min_offset, real)
        keep = min(self.min_offset, max(self.max_offset - 1, 0))
        while self._first_file + self._file_units <= min(keep, self._flushed):
            self._remove(self._first_file)
            self._first_file += self._file_units

    def destroy(self) -> None:
        """Remove all files of the queue."""
        for name in self._pool.files.listdir(self.directory):
            self._pool.drop(f"{self.directory}/{name}")
        self._pool.files.remove_dir(self.directory)
        self._unsynced.clear()
        self._tail.clear()

    def _end_at(self, offset: int) -> None:
        self.max_offset = self._flushed = offset
        self._forget_tail()
        self.min_offset = min(self.min_offset, offset)
        within = offset % self._file_units
        file_first = offset - within
        for name in self._pool.files.listdir(self.directory):
            start = parse_file_name(name)
            if start is not None and start // QUEUE_UNIT_BYTES > file_first:
                self._remove(start // QUEUE_UNIT_BYTES)
        path = self._path(file_first)
        if self._pool.files.exists(path):
            file = self._pool.get(path)
            file.truncate(within * QUEUE_UNIT_BYTES)
            file.truncate(self._file_bytes)
            self._unsynced.add(path)

    def _forget_tail(self) -> None:
        self._tail.clear()
        self._tail_first = self._flushed

    def _is_proven(self, offset: int, proof: Proof) -> bool:
        position, size, _ = self._unit_on_disk(offset)
        return size == HOLE_SIZE or proof(position, size, offset)

    def _unit_on_disk(self, offset: int) -> tuple[int, int, int]:
        within = offset % self._file_units
        unit = self._pool.get(self._path(offset - within)).pread(QUEUE_UNIT_BYTES, within * QUEUE_UNIT_BYTES)
        return _unpack(unit) if len(unit) == QUEUE_UNIT_BYTES else (0, 0, 0)

    def _remove(self, first: int) -> None:
        path = self._path(first)
        self._pool.files.remove(path)
        self._pool.drop(path)
        self._unsynced.discard(path)

    def _path(self, first: int) -> str:
        return f"{self.directory}/{file_name(first * QUEUE_UNIT_BYTES)}"
