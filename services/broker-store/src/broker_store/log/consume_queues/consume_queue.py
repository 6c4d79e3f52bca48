"""One ConsumeQueue: 20-byte units in files of fixed size. The newest stay in memory until they are flushed.

Unit n points to the record of message n. Everything here derives from the CommitLog and can be rebuilt from
it. For one thread.
"""

from collections.abc import Callable, Sequence

from broker_store.log.consume_queues.queue_files import TAIL_UNITS_KEPT, QueueFiles
from broker_store.log.consume_queues.queue_units import HOLE_SIZE, STEP_UNITS
from broker_store.log.errors import LogUnreadable
from broker_store.log.files.names import parse_file_name
from broker_store.log.settings import QUEUE_UNIT_BYTES
from gantry_wire.records.message_record import RECORD_BYTES_MIN
from gantry_wire.records.units import CONSUME_QUEUE_BLANK, CONSUME_QUEUE_UNIT

LEFTOVER_UNITS_MAX = 1_000_000
"""Units above a checkpoint that are kept as proof during a recovery."""
_pack, _unpack, _unpack_from = (
    CONSUME_QUEUE_UNIT.pack,
    CONSUME_QUEUE_UNIT.unpack,
    CONSUME_QUEUE_UNIT.unpack_from,
)

Proof = Callable[[int, int, int], bool]
"""Returns whether the log holds a record at this position, of this size, with this queue offset."""


class ConsumeQueue(QueueFiles):
    """Units [min_offset, max_offset). `append` is on the hot path and touches memory only."""

    __slots__ = ()

    # --- appending -----------------------------------------------------------------------------------------

    def append(self, offset: int, position: int, size: int, tags_code: int) -> int:
        """Add the unit of message `offset`. Ignores one that exists already, so dispatch may be repeated.

        Returns the number of holes made: those before it, or 1 if its offset cannot be true (no checksum
        covers that field), and the unit is then left out. 0 in any healthy log.
        """
        if offset != self.max_offset:
            return self._append_elsewhere(offset, position, _pack(position, size, tags_code))
        self._tail += _pack(position, size, tags_code)
        self.max_offset = offset + 1
        return 0

    def append_all(
        self, first: int, positions: Sequence[int], sizes: Sequence[int], tags_codes: Sequence[int]
    ) -> None:
        """Add the units of consecutive messages from offset `first` on, as `append`."""
        if first != self.max_offset:
            for number, position in enumerate(positions):
                self.append(first + number, position, sizes[number], tags_codes[number])
            return
        self._tail += b"".join(map(_pack, positions, sizes, tags_codes))
        self.max_offset = first + len(positions)

    def append_units(self, first: int, units: bytes) -> None:
        """Add packed units of consecutive messages from offset `first` on, which is the next one."""
        assert first == self.max_offset
        self._tail += units
        self.max_offset = first + len(units) // QUEUE_UNIT_BYTES

    def leave_hole(self, offset: int, position: int) -> int:
        """Use up the offset of a damaged record, unless it cannot be true. Returns the number of holes made."""
        if offset < self.max_offset:
            return 0
        return self._append_elsewhere(offset, position, CONSUME_QUEUE_BLANK) + 1

    def start_at(self, offset: int) -> None:
        """Give the next unit this offset. What is skipped, or lies before it in an empty queue, becomes holes."""
        if offset <= self.max_offset:
            return
        if self.max_offset > self.min_offset:
            self._fill_to(offset)
            return
        first = offset - offset % self._file_units
        self._first_file = first
        self._tail = bytearray(CONSUME_QUEUE_BLANK * (offset - first))
        self._tail_first = self._flushed = first
        self.min_offset = self.max_offset = offset

    def _append_elsewhere(self, offset: int, position: int, unit: bytes) -> int:
        if offset < self.max_offset:
            self._fill_hole(offset, unit)
            return 0
        is_empty = self.max_offset == self.min_offset
        if not self._is_plausible(offset, position):
            return 1
        holes = 0 if is_empty else offset - self.max_offset
        self.start_at(offset)
        self._tail += unit
        self.max_offset = offset + 1
        return holes

    def _is_plausible(self, offset: int, position: int) -> bool:
        """Whether the skipped messages can lie between the previous record of this queue and this one."""
        real = self.max_offset
        while real > max(self.min_offset, self.max_offset - STEP_UNITS):
            real -= 1
            last_position, size, _ = _unpack(self.read(real, 1))
            if size != HOLE_SIZE:
                return (offset - real) * RECORD_BYTES_MIN <= position - last_position
        skipped = offset - (self.max_offset if self.max_offset > self.min_offset else 0)
        return skipped * RECORD_BYTES_MIN <= position

    def _fill_hole(self, offset: int, unit: bytes) -> None:
        """Fill a hole with its unit: a damaged record had claimed a later offset than its own."""
        if offset < self._first_file:
            return
        if offset < self._tail_first:
            known = self._unit_on_disk(offset)
        else:
            known = _unpack_from(self._tail, (offset - self._tail_first) * QUEUE_UNIT_BYTES)
        if known[1] == HOLE_SIZE:
            self.flush()
            self._write_unit(offset, unit)
            self._forget_tail()
            self.min_offset = min(self.min_offset, offset)

    def _fill_to(self, offset: int) -> None:
        while self.max_offset < offset:
            count = min(offset - self.max_offset, STEP_UNITS)
            self._tail += CONSUME_QUEUE_BLANK * count
            self.max_offset += count
            self.flush()

    # --- opening and shrinking -----------------------------------------------------------------------------

    def load(self, log_min: int, limit: int, proof: Proof | None = None) -> bytes:
        """Find the units on disk that point to records below `limit`.

        After a crash `proof` must confirm the last unit, so that torn ones are skipped. What follows it is
        zeroed and returned: invalid, but proof of records it matches. After a clean stop nothing follows.
        Raises LogUnreadable for files of another configured size.
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
                break  # a file is missing: what follows the gap is rebuilt
            path = self._path(end)
            size = self._pool.files.size(path)
            if start % self._file_bytes or size > self._file_bytes:
                raise LogUnreadable(
                    f"{path} has {size} bytes where queue files of {self._file_bytes} are configured: "
                    "set mappedFileSizeConsumeQueue to the size it was written with"
                )
            end += size // QUEUE_UNIT_BYTES
            if size < self._file_bytes:
                self._pool.get(path).truncate(self._file_bytes)
                break  # cut: what followed is rebuilt
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
        self.max_offset = self.old_end = self._tail_first = self._flushed = low
        leftover = b""
        if proof is not None:
            leftover = self._units_behind(low, end)
            self._end_at(low)
        self.delete_before(log_min)
        self.covered_end = self.max_offset
        return leftover

    def resume(self, first: int, units: bytes) -> bool:
        """Add units that the journal kept, from offset `first` on. False when earlier ones are missing."""
        if first > self.max_offset:
            if self.max_offset > self.min_offset:
                return False
            self.start_at(first)
        self._tail += units[(self.max_offset - first) * QUEUE_UNIT_BYTES :]
        self.max_offset = max(self.max_offset, first + len(units) // QUEUE_UNIT_BYTES)
        self.covered_end = self.max_offset
        return True

    def truncate_to_position(self, position: int) -> None:
        """Drop the units of records at or above this position."""
        self.flush()
        self._end_at(self.offset_at(position))

    def punch(self, start: int, end: int) -> int:
        """Turn the units of records in [start, end) into holes. Returns how many."""
        self.flush()
        first, last = self.offset_at(start), self.offset_at(end)
        for offset in range(first, last):
            self._write_unit(offset, CONSUME_QUEUE_BLANK)
        self._forget_tail()
        return last - first

    def delete_before(self, position: int) -> None:
        """Raise min_offset past the records below this position, and remove files that hold no others."""
        real, _ = self._next_real(self.offset_at(position), self.max_offset)
        self.min_offset = max(self.min_offset, real)
        keep = min(self.min_offset, max(self.max_offset - 1, 0))
        while self._first_file + self._file_units <= min(keep, self._flushed):
            self._remove(self._first_file)
            self._first_file += self._file_units

    def destroy(self) -> None:
        """Remove all files of the queue. It is empty from now on: a walk or pull that still holds it finds nothing."""
        for name in self._pool.files.listdir(self.directory):
            self._pool.drop(f"{self.directory}/{name}")
        self._pool.files.remove_dir(self.directory)
        self._unsynced.clear()
        self._new_file = False
        self.synced()
        self.min_offset = self._first_file = self._flushed = self.max_offset
        self._forget_tail()

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
                self._new_file = True  # names are synced: a file that returns would count after a clean stop
        path = self._path(file_first)
        if self._pool.files.exists(path):
            file = self._pool.get(path)
            file.truncate(within * QUEUE_UNIT_BYTES)
            file.truncate(self._file_bytes)
            self._unsynced.add(path)

    def _units_behind(self, offset: int, end: int) -> bytes:
        """Return the units on disk from this offset to the first empty one."""
        parts: list[bytes] = []
        while offset < min(end, self.max_offset + LEFTOVER_UNITS_MAX):
            within = offset % self._file_units
            count = min(STEP_UNITS if parts else TAIL_UNITS_KEPT, self._file_units - within)
            units = self._read_file(offset, count, nowait=False) or b""
            used = units[: len(units.rstrip(b"\0")) + QUEUE_UNIT_BYTES - 1]  # a tags code may end in zeros
            used = used[: len(used) // QUEUE_UNIT_BYTES * QUEUE_UNIT_BYTES]
            parts.append(used)
            if len(used) < count * QUEUE_UNIT_BYTES:
                break
            offset += count
        return b"".join(parts)

    def _is_proven(self, offset: int, proof: Proof) -> bool:
        position, size, _ = self._unit_on_disk(offset)
        return size == HOLE_SIZE or proof(position, size, offset)
