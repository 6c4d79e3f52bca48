"""The unit journal: units of all queues that are not durable in their files yet, in one growing file.

With ten thousand queues a checkpoint would sync ten thousand files for a few units each. Instead it writes
one chunk here, and the files are written a part at a time. The name of `gantry/units/<20 digits>` is the
position where its first chunk begins. A chunk holds the units of all records in [from, to), and begins
where the previous one ends. Derived from the CommitLog: when a chunk is missing or damaged, the queues are
rebuilt.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from broker_store.log.files.files import Files
from broker_store.log.settings import QUEUE_UNIT_BYTES

_CHUNK = Struct(">4sIIqq")
"""Magic, length of the payload, CRC32 of both positions and the payload, from, to."""
_POSITIONS = Struct(">qq")
_MAGIC = b"GUJ1"
"""Format version 1. A new version needs a new magic: unknown chunks end the journal, and the queues are rebuilt."""
_RUN = Struct(">Hiqi")
"""Length of the topic, queue id, offset of the first unit, number of units; topic and units follow."""
_NAME_DIGITS = 20
NOT_USED = -1


class Run(NamedTuple):
    """Consecutive units of one queue."""

    topic: str
    queue_id: int
    first: int
    units: bytes


def pack_run(topic: bytes, queue_id: int, first: int, units: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the parts of a run. `first` is the offset of the first of these units."""
    return _RUN.pack(len(topic), queue_id, first, len(units) // QUEUE_UNIT_BYTES), topic, units


class UnitJournal:
    """Appends chunks and reads them back. `append`, `drop` and `replay` block; one thread at a time."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._path = ""
        self._confirmed_bytes = 0
        self._written_bytes = 0
        self.start = NOT_USED
        """The queue files hold every unit of records below this position. NOT_USED: all that a checkpoint covers."""

    def first(self) -> int:
        """Return the lowest position that a file begins at, NOT_USED without a file. No checkpoint needed the journal below it."""
        names = self._files.listdir(self._directory)
        return min((int(name) for name in names if name.isdecimal()), default=NOT_USED)

    def begin(self, position: int) -> None:
        """Start a new file with the next chunk, which begins at this position."""
        self._path = self._path_of(position)
        self._confirmed_bytes = self._written_bytes = 0

    def append(self, start: int, end: int, parts: Sequence[bytes]) -> None:
        """Write the chunk of records in [start, end). Durable on return. It replaces one that was not confirmed."""
        payload = b"".join(parts)
        head = _CHUNK.pack(_MAGIC, len(payload), _crc(start, end, payload), start, end)
        is_new = not self._confirmed_bytes
        if is_new:
            self._files.make_dirs(self._directory)
        file = self._files.open(self._path, create_bytes=0)
        try:
            file.truncate(self._confirmed_bytes)
            file.pwritev([head, payload], self._confirmed_bytes)
            file.sync()
        finally:
            file.close()
        if is_new:
            self._files.sync_dir(self._directory)
            self._files.sync_dir(self._directory.rpartition("/")[0])
        self._written_bytes = self._confirmed_bytes + len(head) + len(payload)

    def confirm(self) -> None:
        """Keep the chunk written last: its checkpoint is complete."""
        self._confirmed_bytes = self._written_bytes

    def drop(self) -> None:
        """Remove the files that are not needed since `start` moved."""
        for name in self._files.listdir(self._directory):
            if self.start == NOT_USED or not name.isdecimal() or int(name) < self.start:
                self._files.remove(f"{self._directory}/{name}")

    def replay(self, start: int, end: int, take: Callable[[Run], bool]) -> str:
        """Pass the runs of all chunks from position `start` to `end` to `take`, in order. `take` returns whether one fits.

        Returns a message about what is missing, empty when nothing is: then all units below `end` were
        passed.
        """
        begins = {int(name) for name in self._files.listdir(self._directory) if name.isdecimal()}
        chunks: Iterator[tuple[int, bytes]] = iter(())
        while start < end:
            if start in begins:  # what an earlier file holds from here on was never confirmed
                chunks = self._chunks(self._path_of(start), start, end)
            to, payload = next(chunks, (start, b""))
            if to == start:
                return f"the unit journal ends at position {start}, units below {end} are needed"
            if not all(take(run) for run in _runs(payload)):
                return f"units below position {to} do not follow those in the files of their queue"
            start = to
        return ""

    def _path_of(self, position: int) -> str:
        return f"{self._directory}/{position:0{_NAME_DIGITS}d}"

    def _chunks(self, path: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        file = self._files.open(path)
        at, size = 0, file.size()
        while at + _CHUNK.size <= size and start < end:
            magic, length, crc, begin, to = _CHUNK.unpack(file.pread(_CHUNK.size, at))
            if (
                magic != _MAGIC
                or begin != start
                or not begin <= to <= end
                or length > size - at - _CHUNK.size
            ):
                return
            payload = file.pread(length, at + _CHUNK.size)
            if _crc(begin, to, payload) != crc:
                return
            yield to, payload
            at += _CHUNK.size + length
            start = to


def _runs(payload: bytes) -> Iterator[Run]:
    at = 0
    while at < len(payload):
        topic_bytes, queue_id, first, count = _RUN.unpack_from(payload, at)
        at += _RUN.size
        units_at = at + topic_bytes
        topic, at_end = payload[at:units_at].decode(), units_at + count * QUEUE_UNIT_BYTES
        yield Run(topic, queue_id, first, payload[units_at:at_end])
        at = at_end


def _crc(start: int, end: int, payload: bytes) -> int:
    return crc32(payload, crc32(_POSITIONS.pack(start, end)))
