"""The epoch table: which leader's epoch wrote which part of a log. It finds where two logs part.

An entry says where an epoch starts. The epoch ends where the next entry starts, the newest one at the end of the log. A new leader
appends its entry, durably, before it serves (rule 5). Positions are the same in all replicas of a group, and an epoch has one leader: of two
logs that have an epoch from the same start, the shorter one is a prefix of the longer one within that epoch (rule 6).

On disk (numbers are big-endian):

    magic "GEPT" | format u16 | entries u32 | entries × (epoch u64, start u64) | CRC-32 of all before it u32

On the wire: entries u32 | entries × (epoch u64, start u64); the frame around it has its own checks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct
from typing import NamedTuple
from zlib import crc32

MAGIC = b"GEPT"
FORMAT = 1
ENTRIES_MAX = 65_536
"""A takeover adds one entry: enough for ten takeovers a day during 17 years."""
NUMBER_MAX = (1 << 63) - 1

_HEAD = Struct(">4sHI")
_COUNT = Struct(">I")
_ENTRY = Struct(">QQ")
_CRC = Struct(">I")


class MalformedEpochTable(ValueError):
    """Bytes are no epoch table, or a table's entries are out of order. Copy the replica again, or close the connection of the peer."""


class Epoch(NamedTuple):
    """An epoch and the position of its first byte."""

    epoch: int
    start: int


@dataclass(frozen=True, slots=True)
class EpochTable:
    """An immutable table. Epochs grow, starts do not shrink.

    Raises MalformedEpochTable when entries are out of order, negative, or more than ENTRIES_MAX.
    """

    entries: tuple[Epoch, ...] = ()

    def __post_init__(self) -> None:
        if len(self.entries) > ENTRIES_MAX:
            raise MalformedEpochTable(f"{len(self.entries)} entries, at most {ENTRIES_MAX}")
        for entry in self.entries:
            if not (0 < entry.epoch <= NUMBER_MAX and 0 <= entry.start <= NUMBER_MAX):
                raise MalformedEpochTable(f"epoch {entry.epoch} at {entry.start}")
        for one, after in pairwise(self.entries):
            if after.epoch <= one.epoch or after.start < one.start:
                raise MalformedEpochTable(f"{after} after {one}")

    @property
    def newest(self) -> int:
        """The newest epoch; 0 in an empty table."""
        return self.entries[-1].epoch if self.entries else 0

    def until(self, end: int) -> "EpochTable":
        """Return the table of a log that ends at `end`: without epochs that start beyond it."""
        return EpochTable(tuple(entry for entry in self.entries if entry.start <= end))

    def with_epoch(self, epoch: int, start: int) -> "EpochTable":
        """Return the table with one more epoch. Raises MalformedEpochTable when it is not newer, or starts before the newest."""
        return EpochTable((*self.entries, Epoch(epoch, start)))

    def common_end(self, end: int, other: "EpochTable", other_end: int) -> int:
        """Return the position up to which two logs with these tables and ends are the same (rule 6).

        That is the end of the newest epoch that both have from the same start, the smaller end of the two. 0: they share nothing.
        """
        mine = {epoch: (start, stop) for epoch, start, stop in self.ranges(end)}
        for epoch, start, stop in reversed(list(other.ranges(other_end))):
            own_start, own_stop = mine.get(epoch, (-1, -1))
            if own_start == start:
                return min(own_stop, stop)
        return 0

    def ranges(self, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield epoch, start and end of each epoch that starts within a log of that end."""
        entries = self.until(end).entries
        stops = [*(entry.start for entry in entries[1:]), end][: len(entries)]
        for entry, stop in zip(entries, stops, strict=True):
            yield entry.epoch, entry.start, stop

    def to_wire(self) -> bytes:
        """Return its bytes in a message to another replica."""
        return _COUNT.pack(len(self.entries)) + b"".join(_ENTRY.pack(*entry) for entry in self.entries)

    @staticmethod
    def wire_bytes(entries: int) -> int:
        """Return the size in a message of a table with so many entries."""
        return _COUNT.size + entries * _ENTRY.size

    @classmethod
    def from_wire(cls, data: bytes) -> "EpochTable":
        """Return the table of these bytes. Raises MalformedEpochTable."""
        if len(data) < _COUNT.size:
            raise MalformedEpochTable(f"{len(data)} bytes")
        (count,) = _COUNT.unpack_from(data)
        return cls(_entries(data[_COUNT.size :], count))

    def to_disk(self) -> bytes:
        """Return the bytes of its file."""
        head = _HEAD.pack(MAGIC, FORMAT, len(self.entries))
        content = head + b"".join(_ENTRY.pack(*entry) for entry in self.entries)
        return content + _CRC.pack(crc32(content))

    @staticmethod
    def disk_bytes(entries: int) -> int:
        """Return the size of a file with so many entries."""
        return _HEAD.size + entries * _ENTRY.size + _CRC.size

    @classmethod
    def from_disk(cls, data: bytes) -> "EpochTable":
        """Return the table of a file. Raises MalformedEpochTable when the file is torn, damaged or of another format."""
        if len(data) < _HEAD.size + _CRC.size:
            raise MalformedEpochTable(f"{len(data)} bytes")
        content, crc = data[: -_CRC.size], data[-_CRC.size :]
        magic, version, count = _HEAD.unpack_from(content)
        if magic != MAGIC or version != FORMAT:
            raise MalformedEpochTable(f"magic {magic!r}, format {version}")
        if _CRC.unpack(crc) != (crc32(content),):
            raise MalformedEpochTable("the CRC differs")
        return cls(_entries(content[_HEAD.size :], count))


def _entries(data: bytes, count: int) -> tuple[Epoch, ...]:
    if count > ENTRIES_MAX or len(data) != count * _ENTRY.size:
        raise MalformedEpochTable(f"{count} entries in {len(data)} bytes")
    return tuple(Epoch(*numbers) for numbers in _ENTRY.iter_unpack(data))
