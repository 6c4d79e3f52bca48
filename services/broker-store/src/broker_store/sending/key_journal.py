"""The idempotency window on disk: appends what is new since the last checkpoint, and removes old files whole.

Format of `gantry/keys/<20 digits>`: chunks of `magic 4 | entries 4 | CRC 4 | covered position 8 | entries ×
48`. A torn chunk ends a file. Its content is replayed from the log, because a checkpoint counts only after
its chunk is synced. What a checkpoint counts on must be there at a later start: its note has the `sizes`.
"""

from struct import Struct
from zlib import crc32

from broker_store.log.files.files import Files
from broker_store.sending.idempotency import ENTRY, ENTRY_BYTES, Remembered, Window

_CHUNK = Struct(">4sIIq")
_MAGIC = b"GKW1"
"""Format version 1. A new version needs a new magic. Unknown chunks end the file, and the log fills the gap."""
FILE_ENTRIES_MAX = 131_072
_NAME_DIGITS = 20


class KeyJournal:
    """Saves and loads the window. `append` blocks: call it in a thread."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._path = ""
        self._entries_in_file = 0
        self._bytes_in_file = 0
        self._newest_ms: dict[str, int] = {}
        """Store time of the newest key of each file, by path."""
        self._sizes: dict[str, int] = {}
        """Bytes of whole chunks of each file, by path."""
        self.saved_end = 0
        """Number of the window's first unsaved entry."""

    def sizes(self, oldest_ms: int) -> dict[str, int]:
        """Return the bytes of whole chunks in each file with a key of `oldest_ms` or younger, by name."""
        return {
            path.rpartition("/")[2]: size
            for path, size in self._sizes.items()
            if self._newest_ms[path] >= oldest_ms
        }

    def missing(self, sizes: dict[str, int]) -> str:
        """Return what the loaded files lack of the `sizes` at an earlier time, in words. Empty if nothing."""
        for name, size in sizes.items():
            held = self._sizes.get(f"{self._directory}/{name}", 0)
            if held < size:
                return f"the file {name} of idempotency keys has {held} valid bytes, it had {size}"
        return ""

    def load(self, window: Window, below: int, noted: int = 0) -> int:
        """Fill an empty window with keys of records below a position. Later records are replayed in order.

        Chunks that cover more are left out, unless a note that covers `noted` counts on them: only then are they durable.

        Returns the position up to which the files are complete, 0 when nothing was saved.
        """
        covered = 0
        for name in self._files.listdir(self._directory):
            path = f"{self._directory}/{name}"
            covered = max(covered, self._load_file(path, window, below, max(below, noted)))
        self.saved_end = window.end
        return covered

    def destroy(self) -> None:
        """Remove all files: the log is replayed from its start."""
        self._files.remove_dir(self._directory)
        self._newest_ms.clear()
        self._sizes.clear()
        self._path = ""
        self.saved_end = 0

    def append(self, entries: bytes, end: int, covered: int) -> None:
        """Save packed entries, the last of which has number `end` - 1. Durable on return.

        Every key below log position `covered` is then saved.
        """
        if entries:
            self._write(entries, len(entries) // ENTRY_BYTES, covered)
        self.saved_end = end

    def _write(self, body: bytes, count: int, covered: int) -> None:
        if not self._path or self._entries_in_file >= FILE_ENTRIES_MAX:
            self._files.make_dirs(self._directory)
            self._path = f"{self._directory}/{self._next_number(covered):0{_NAME_DIGITS}d}"
            self._entries_in_file = self._bytes_in_file = 0
        chunk = _CHUNK.pack(_MAGIC, count, _crc(body, covered), covered) + body
        file = self._files.open(self._path, create_bytes=0)
        try:
            if not self._bytes_in_file:
                file.truncate(0)
            file.pwrite(chunk, self._bytes_in_file)
            file.sync()
        finally:
            file.close()
        if not self._bytes_in_file:
            self._files.sync_dir(self._directory)
        self._bytes_in_file += len(chunk)
        self._entries_in_file += count
        self._sizes[self._path] = self._bytes_in_file
        self._note_newest(self._path, body)

    def _next_number(self, covered: int) -> int:
        """Return the number of a new file: `covered`, or one more than the highest number that an earlier run left."""
        used = [int(name) for name in self._files.listdir(self._directory) if name.isdecimal()]
        return max(covered, max(used, default=-1) + 1)

    def drop_before(self, oldest_ms: int) -> None:
        """Remove files with no key younger than `oldest_ms`."""
        for path, newest_ms in list(self._newest_ms.items()):
            if newest_ms < oldest_ms and path != self._path:
                self._files.remove(path)
                del self._newest_ms[path], self._sizes[path]

    def _note_newest(self, path: str, body: bytes) -> None:
        """Record the newest key of a file.

        It may not be the last one: a key that waited for its flush follows newer ones of asynchronous
        topics.
        """
        newest_ms = max([fields[2] for fields in ENTRY.iter_unpack(body)], default=0)
        self._newest_ms[path] = max(newest_ms, self._newest_ms.get(path, 0))

    def _load_file(self, path: str, window: Window, below: int, covered_max: int) -> int:
        content = self._files.read_bytes(path) or b""
        at, covered = 0, 0
        while at + _CHUNK.size <= len(content):
            magic, count, crc, position = _CHUNK.unpack_from(content, at)
            body = content[at + _CHUNK.size : at + _CHUNK.size + count * ENTRY_BYTES]
            if magic != _MAGIC or len(body) < count * ENTRY_BYTES or _crc(body, position) != crc:
                break
            if position > covered_max:  # perhaps only in the page cache; the log is replayed instead
                break
            for fields in ENTRY.iter_unpack(body):
                entry = Remembered(*fields)
                if entry.position < below:
                    window.remember(entry)
            self._note_newest(path, body)
            at += _CHUNK.size + len(body)
            covered = max(covered, position)
        self._newest_ms.setdefault(path, 0)
        self._sizes[path] = at
        return covered


def _crc(body: bytes, covered: int) -> int:
    return crc32(body, crc32(covered.to_bytes(8, "big", signed=True)))
