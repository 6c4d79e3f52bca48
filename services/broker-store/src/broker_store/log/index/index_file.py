"""One index file: hash slots that lead to chains of entries (key hash, position, seconds). RocketMQ's layout.

The file being filled keeps its slots in memory and writes entries in large pieces. Slots and header reach
the disk only at checkpoints, always after the entries they lead to, so a crash leaves complete chains.
"""

import mmap
from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import cast

from broker_store.log.files.files import File
from broker_store.log.settings import LogSettings
from gantry_wire.records.units import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT

_PAGE_SHIFT = 10
PAGE_SLOTS = 1 << _PAGE_SHIFT
"""Slots are written in pages of 4 KiB."""
CHAIN_STEPS_MAX = 65_536
"""Entries of one slot that a lookup follows: colliding keys must not stall the store."""
ENTRIES_PROBED = 16
"""Entries whose slots show whether a file has the configured layout: slots of another layout do not lead to all of them."""
_MS = 1000
_DIFF_MAX = 2**31 - 1
_READ_SLOTS = 256 * PAGE_SLOTS
_pack = INDEX_ENTRY.pack


class IndexFile:
    """An index file for reading only: full, or older than the newest."""

    def __init__(self, file: File, settings: LogSettings) -> None:
        self.file = file
        self._settings = settings
        self.slots = settings.index_slots
        self.entries_max = settings.index_entries
        self.entries_start = INDEX_HEADER.size + self.slots * INDEX_SLOT.size
        (self.begin_ms, self.end_ms, self.begin_position, self.end_position, self.used_slots, count) = (
            INDEX_HEADER.unpack(file.pread(INDEX_HEADER.size, 0))
        )
        self.count = max(count, 1)
        """Number of the next entry. Number 0 is never used."""

    @property
    def is_plausible(self) -> bool:
        """Whether the header can be a written one: a damaged one would lead nowhere."""
        return (
            1 <= self.count <= self.entries_max
            and 0 <= self.begin_position <= self.end_position
            and 0 <= self.used_slots < self.count
        )

    @property
    def leads_to_newest(self) -> bool:
        """Whether the slots of the newest entries lead to them or past them. With another layout they do not.

        Slots are durable before the header that counts their entries, so this holds after any crash.
        """
        last = min(self.count, self.entries_max) - 1
        for number in range(last, max(last - ENTRIES_PROBED, 0), -1):
            key_hash = INDEX_ENTRY.unpack(self._entry(number))[0]
            if key_hash < 0 or self._slot(key_hash % self.slots) < number:
                return False
        return True

    @staticmethod
    def file_bytes(settings: LogSettings) -> int:
        """Return the size of an index file."""
        return (
            INDEX_HEADER.size
            + settings.index_slots * INDEX_SLOT.size
            + settings.index_entries * INDEX_ENTRY.size
        )

    def lookup(self, key_hash: int, begin_ms: int, end_ms: int, found: list[int], count_max: int) -> None:
        """Append positions of entries with this hash and store time, newest first, until there are count_max."""
        if self.end_ms < begin_ms or self.begin_ms > end_ms:
            return
        number = self._slot(key_hash % self.slots)
        for _ in range(CHAIN_STEPS_MAX):
            if not 0 < number < self.count or len(found) >= count_max:
                return
            entry_hash, position, seconds, previous = INDEX_ENTRY.unpack(self._entry(number))
            latest_ms = self.begin_ms + seconds * _MS + _MS - 1  # the entry holds whole seconds
            if latest_ms < begin_ms or previous >= number:
                previous = 0
            if (
                entry_hash == key_hash
                and begin_ms <= latest_ms
                and latest_ms - _MS < end_ms
                and position not in found
            ):
                found.append(position)
            number = previous

    def last_keys(self) -> list[int]:
        """Return the key hashes of the newest record in the file, in any order."""
        keys: list[int] = []
        for number in range(self.count - 1, 0, -1):
            key_hash, position, _, _ = INDEX_ENTRY.unpack(self._entry(number))
            if position != self.end_position:
                break
            keys.append(key_hash)
        return keys

    def end_below(self, position: int) -> None:
        """Durably exclude entries at or above this position from the count.

        When the file is opened again, no slot leads to them.
        """
        while self.count > 1:
            _, at, seconds, previous = INDEX_ENTRY.unpack(self._entry(self.count - 1))
            if at < position:
                self.end_position, self.end_ms = at, self.begin_ms + seconds * _MS + _MS - 1
                break
            self.count -= 1
            self.used_slots -= not previous
        self.file.pwrite(self.header(), 0)
        self.file.sync()

    def header(self) -> bytes:
        """Return the current header. Write it once all entries and slots it counts are durable."""
        return INDEX_HEADER.pack(
            self.begin_ms, self.end_ms, self.begin_position, self.end_position, self.used_slots, self.count
        )

    def _slot(self, slot: int) -> int:
        return INDEX_SLOT.unpack(
            self.file.pread(INDEX_SLOT.size, INDEX_HEADER.size + slot * INDEX_SLOT.size)
        )[0]

    def _entry(self, number: int) -> bytes:
        return self.file.pread(INDEX_ENTRY.size, self.entries_start + number * INDEX_ENTRY.size)


class LiveIndexFile(IndexFile):
    """The index file that is being filled."""

    def __init__(self, file: File, settings: LogSettings) -> None:
        super().__init__(file, settings)
        # Anonymous memory stays unused until touched: an idle store pays nothing for five million slots.
        pages = -(-self.slots // PAGE_SLOTS)
        self._bytes = memoryview(mmap.mmap(-1, pages * PAGE_SLOTS * INDEX_SLOT.size))
        self._memory = self._bytes.cast("i")
        self._dirty = bytearray(pages)
        self._pending = bytearray()
        self._pending_first = self.count
        self._load_slots()

    @property
    def is_full(self) -> bool:
        """Whether the next entry needs another file."""
        return self.count >= self.entries_max

    def put(self, entries: Sequence[tuple[int, int, int]]) -> int:
        """Add (key hash, position, store time ms) entries until the file is full. Returns how many were added."""
        first, slots, memory, dirty = self.count, self.slots, self._memory, self._dirty
        if len(entries) > self.entries_max - first:
            entries = entries[: self.entries_max - first]
        if not entries:
            return 0
        if first == 1:
            _, self.begin_position, self.begin_ms = entries[0]
        count, begin_ms = first, self.begin_ms
        columns = cast("Iterable[tuple[int, ...]]", zip(*entries, strict=True))
        hashes, positions, times = columns
        previous: list[int] = []
        for key_hash in hashes:
            slot = key_hash % slots
            previous.append(memory[slot])
            memory[slot] = count
            dirty[slot >> _PAGE_SHIFT] = 1
            count += 1
        if times.count(times[0]) == len(times):  # nearly always: the entries of one batch
            seconds = repeat(_clamp((times[0] - begin_ms) // _MS))
        else:
            seconds = [_clamp((store_ms - begin_ms) // _MS) for store_ms in times]
        self.count, self.used_slots = count, self.used_slots + previous.count(0)
        _, self.end_position, self.end_ms = entries[-1]
        self._pending += b"".join(map(_pack, hashes, positions, seconds, previous))
        return count - first

    @property
    def pending_bytes(self) -> int:
        """Bytes of entries that are only in memory."""
        return len(self._pending)

    def flush_entries(self) -> None:
        """Write the entries that are only in memory. On OSError they stay there."""
        if self._pending:
            self.file.pwrite(self._pending, self.entries_start + self._pending_first * INDEX_ENTRY.size)
            self._pending_first = self.count
            self._pending = bytearray()

    def dirty_pages(self) -> list[int]:
        """Return the slot pages changed since they were last taken."""
        return [page for page, changed in enumerate(self._dirty) if changed]

    def take_pages(self, pages: list[int]) -> list[tuple[int, bytes]]:
        """Return (byte in the file, content) of these slot pages, which are no longer dirty."""
        taken: list[tuple[int, bytes]] = []
        for page in pages:
            first = page * PAGE_SLOTS
            content = array("i")
            content.frombytes(
                self._bytes[first * INDEX_SLOT.size : min(first + PAGE_SLOTS, self.slots) * INDEX_SLOT.size]
            )
            content.byteswap()
            self._dirty[page] = 0
            taken.append((INDEX_HEADER.size + first * INDEX_SLOT.size, content.tobytes()))
        return taken

    def mark_dirty(self, pages: list[int]) -> None:
        """Mark pages that could not be written as dirty again."""
        for page in pages:
            self._dirty[page] = 1

    def _load_slots(self) -> None:
        """Read the slots, and repair those that lead to entries the header does not count.

        A crash between writing slots and header leaves such slots. Their entries were durable before, so
        following the chain back to the first counted entry loses nothing older. Repairs are written before
        those entries are overwritten: a second crash must not follow them.
        """
        if self.count <= 1:
            if self.file.next_data(0) is not None:  # slots of a file that never got its first header
                self.file.truncate(0)
                self.file.truncate(self.file_bytes(self._settings))
                self.file.sync()
            return
        step = _READ_SLOTS * INDEX_SLOT.size
        at: int | None = INDEX_HEADER.size
        while (at := self.file.next_data(at)) is not None and at < self.entries_start:
            first = max(at - INDEX_HEADER.size, 0) // INDEX_SLOT.size
            start = INDEX_HEADER.size + first * INDEX_SLOT.size
            content = array("i")
            content.frombytes(self.file.pread(min(step, self.entries_start - start), start))
            content.byteswap()
            self._memory[first : first + len(content)] = memoryview(content)
            if max(content) >= self.count or min(content) < 0:
                self._repair(first, len(content))
            at = start + len(content) * INDEX_SLOT.size
        if repaired := self.dirty_pages():
            for place, page in self.take_pages(repaired):
                self.file.pwrite(page, place)
            self.file.sync()

    def _repair(self, first: int, slots: int) -> None:
        for slot in range(first, first + slots):
            number = self._memory[slot]
            while number >= self.count or number < 0:
                entry = super()._entry(number) if 0 < number < self.entries_max else b""
                previous = INDEX_ENTRY.unpack(entry)[3] if entry else 0
                number = previous if previous < number else 0
            if number != self._memory[slot]:
                self._memory[slot] = number
                self._dirty[slot // PAGE_SLOTS] = 1

    def _slot(self, slot: int) -> int:
        return self._memory[slot]

    def _entry(self, number: int) -> bytes:
        if number < self._pending_first:
            return super()._entry(number)
        at = (number - self._pending_first) * INDEX_ENTRY.size
        return bytes(self._pending[at : at + INDEX_ENTRY.size])


def _clamp(seconds: int) -> int:
    return max(0, min(seconds, _DIFF_MAX))
