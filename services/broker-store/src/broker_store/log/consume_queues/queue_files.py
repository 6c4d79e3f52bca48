"""The files of a ConsumeQueue: writes its units, and tracks which files and names must still be synced.

For one thread. Only what `take_unsynced` returns is synced elsewhere.
"""

from broker_store.log.consume_queues.queue_units import QueueUnits
from broker_store.log.files.files import File
from broker_store.log.settings import QUEUE_UNIT_BYTES

TAIL_UNITS_KEPT = 32
"""Newest units that stay in memory after a flush, so that pulls at the end of the queue need no file."""


class QueueFiles(QueueUnits):
    """`flush` writes units from memory to their files.

    They are on the device when what `take_unsynced` returns is synced.
    """

    __slots__ = ()

    @property
    def is_flushed(self) -> bool:
        """Whether all units are written to their files."""
        return self._flushed == self.max_offset

    @property
    def is_durable(self) -> bool:
        """Whether the files hold all units, and none waits for a sync."""
        return (
            self._flushed == self.max_offset
            and not self._unsynced
            and not self._new_file
            and not self._owed
            and not self._owed_names
        )

    def flush(self) -> None:
        """Write what is only in memory to the files, without a sync. On OSError it stays in memory."""
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
        """Return the files and directories that must be synced to make all flushed units durable.

        They stay due until `synced`; `not_synced` takes them back.
        """
        files = [self._pool.get(path) for path in sorted(self._unsynced)]
        names, self._new_file = self._new_file, False
        self._owed += tuple(self._unsynced)
        self._owed_names |= names
        self._unsynced.clear()
        topic_directory = self.directory.rpartition("/")[0]
        return files, [self.directory, topic_directory, topic_directory.rpartition("/")[0]] if names else []

    def synced(self) -> None:
        """Record that the returned files are durable."""
        self._owed, self._owed_names = (), False

    def not_synced(self) -> None:
        """Take back files that are not known to be durable. They are returned again next time."""
        self._unsynced.update(self._owed)
        self._new_file |= self._owed_names
        self.synced()

    def note_new_directory(self) -> None:
        """Record that our directory and first file were created: their names must be synced."""
        self._new_file = True

    def file_parts(self) -> list[tuple[str, str, int | None]]:
        """Return (path, name, bytes in use) of the files with flushed readable units. None in use = full."""
        parts: list[tuple[str, str, int | None]] = []
        for first in range(self._first_file, self._flushed, self._file_units):
            path = self._path(first)
            used = (self._flushed - first) * QUEUE_UNIT_BYTES
            parts.append((path, path.rpartition("/")[2], None if used >= self._file_bytes else used))
        return parts

    def sync(self) -> None:
        """Flush, and return once all units are durable."""
        self.flush()
        files, directories = self.take_unsynced()
        for file in files:
            file.sync()
        for directory in directories:
            self._pool.files.sync_dir(directory)
        self.synced()

    def _make_file(self, path: str) -> None:
        if not self._pool.files.exists(path):
            self._pool.files.make_dirs(self.directory)
            self._new_file = True
        self._pool.get(path, create_bytes=self._file_bytes)

    def _write_unit(self, offset: int, unit: bytes) -> None:
        within = offset % self._file_units
        path = self._path(offset - within)
        self._pool.get(path).pwrite(unit, within * QUEUE_UNIT_BYTES)
        self._unsynced.add(path)

    def _forget_tail(self) -> None:
        self._tail.clear()
        self._tail_first = self._flushed

    def _remove(self, first: int) -> None:
        path = self._path(first)
        self._pool.files.remove(path)
        self._pool.drop(path)
        self._unsynced.discard(path)
        self._owed = tuple(other for other in self._owed if other != path)
