"""All index files of a store: the newest is filled, lookups go from new to old. Derived from the log, may be rebuilt."""

import errno
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from broker_store.log.errors import WritesLost
from broker_store.log.files.files import Files
from broker_store.log.index.index_file import IndexFile, LiveIndexFile
from broker_store.log.settings import LogSettings

_NAME_DIGITS = 17
PENDING_BYTES_MAX = 64 * 1024
"""Entries kept in memory before they are written."""
_PAGES_PER_SLICE = 64
"""A quarter of a megabyte of slots per slice of a checkpoint, so that log flushes do not wait long for its sync."""


class IndexFiles:
    """Adds and finds keys by hash. For one thread; only the jobs of `checkpoint` run in another."""

    def __init__(self, files: Files, directory: str, settings: LogSettings) -> None:
        self._files = files
        self._directory = directory
        self._settings = settings
        self._full: list[tuple[str, IndexFile]] = []
        self._live: tuple[str, LiveIndexFile] | None = None
        self._unsaved: list[tuple[str, LiveIndexFile]] = []  # full, in memory until the next checkpoint
        self._waiting: list[tuple[int, int, int]] = []  # entries for which no file could be created
        self._indexed_to = -1
        """Records below this position are indexed already, and of the record there the keys `_indexed_keys`.

        Adding them again has no effect.
        """
        self._indexed_keys: list[int] = []
        self.write_failures = 0
        """Failed writes of entries. The entries stay in memory and are retried."""

    def load(self, newest_ms_max: int | None = None) -> bool:
        """Open the files. Returns whether any was dropped that the walk over the tail of the log does not replace.

        Drops a file of another layout (the settings changed, so its slots are wrong), and, after a crash of
        a foreign writer, one newer than its checkpoint.
        """
        names = [name for name in self._files.listdir(self._directory) if _is_index_name(name)]
        opened: list[tuple[str, IndexFile]] = []
        is_dropped = False
        for name in names:
            path = f"{self._directory}/{name}"
            size = self._files.size(path)
            file = IndexFile(self._files.open(path, IndexFile.file_bytes(self._settings)), self._settings)
            is_of_layout = size == IndexFile.file_bytes(self._settings) and file.leads_to_newest
            if not is_of_layout and (file.count > 1 or size > IndexFile.file_bytes(self._settings)):
                self._files.remove(path)
                is_dropped = is_dropped or file.count > 1
                continue
            if not file.is_plausible:
                self._files.remove(path)  # missing entries are detected, and the index is rebuilt
                continue
            if newest_ms_max is not None and file.end_ms > newest_ms_max:
                self._files.remove(path)
                is_dropped = True
            else:
                opened.append((name, file))
        for _, file in opened[:-1]:
            if file.count < self._settings.index_entries:
                # It was full, and a crash preceded its last checkpoint: slots may lead to entries that the
                # header does not count.
                LiveIndexFile(file.file, self._settings)
        if opened and opened[-1][1].count < self._settings.index_entries:
            name, file = opened.pop()
            self._live = (name, LiveIndexFile(file.file, self._settings))
        self._full = opened
        self._record_file_ends()
        return is_dropped

    @property
    def end_position(self) -> int:
        """Records up to here are indexed. -1 if none is."""
        return max((file.end_position for file in self._all() if file.count > 1), default=-1)

    @property
    def entries(self) -> int:
        """Number of entries in all files."""
        return sum(file.count - 1 for file in self._all())

    def put(self, entries: Sequence[tuple[int, int, int]]) -> None:
        """Add (key hash, position, store time in ms) entries in log order.

        Entries for which no file can be created wait in memory for the next call. No checkpoint is taken
        meanwhile.
        """
        if self._indexed_to >= 0 and entries:
            entries = self._not_there(entries)
        if self._waiting:
            entries, self._waiting = [*self._waiting, *entries], []
        while entries:
            live = self._live
            if live is None or live[1].is_full:
                try:
                    live = self._next_file(entries[0][2])
                except OSError:
                    self.write_failures += 1
                    self._waiting = list(entries)
                    return
            taken = live[1].put(entries)
            entries = entries[taken:] if taken < len(entries) else ()
            if live[1].pending_bytes >= PENDING_BYTES_MAX:
                self._flush(live[1])

    def lookup(self, key_hash: int, begin_ms: int, end_ms: int, count_max: int) -> list[int]:
        """Return positions of records with that hash and store time, newest first. Other keys may share the hash."""
        found: list[int] = []
        for file in reversed(self._all()):
            file.lookup(key_hash, begin_ms, end_ms, found, count_max)
        return found

    def checkpoint(self) -> Iterator[Callable[[], None]]:
        """Make everything added so far durable, in slices: each yielded job runs in the sync thread.

        Entries are synced before the slots that lead to them are written, and the header comes last. Raises
        OSError, at once while entries wait for a file.
        """
        self.put(())
        if self._waiting:
            raise OSError(errno.ENOSPC, "no file could be made for index entries", self._directory)
        for name, live in [*self._unsaved, *([self._live] if self._live else [])]:
            takes_more = (
                self._live is not None and live is self._live[1]
            )  # and may become full during this write
            header = live.header()
            pages = live.dirty_pages()
            for first in range(0, len(pages), _PAGES_PER_SLICE):
                numbers = pages[first : first + _PAGES_PER_SLICE]
                live.flush_entries()
                yield _page_job(live, numbers, live.take_pages(numbers))
            live.flush_entries()
            yield self._header_job(live, header)
            if not takes_more:
                self._unsaved = [pair for pair in self._unsaved if pair[1] is not live]
                self._full.append((name, IndexFile(live.file, self._settings)))

    def delete_before(self, position: int) -> int:
        """Remove files whose newest record is below this position, never the one being filled. Returns how many."""
        gone = [(name, file) for name, file in self._full if file.end_position < position]
        for name, _ in gone:
            self._files.remove(f"{self._directory}/{name}")
        self._full = [pair for pair in self._full if pair not in gone]
        return len(gone)

    def drop_from(self, position: int) -> None:
        """Durably remove the entries of records at or above this position: a power cut took the records, and others will come there.

        Call it after recovery. Entries lie in log order, so where some lie there the walk has added none.
        Raises OSError.
        """
        if self.end_position < position:
            return
        files = [*self._full, *self._unsaved, *([self._live] if self._live else [])]
        self._full, self._unsaved, self._live = [], [], None
        while files and (files[-1][1].count <= 1 or files[-1][1].begin_position >= position):
            self._files.remove(f"{self._directory}/{files.pop()[0]}")
        self._files.sync_dir(self._directory)
        if files:
            name, last = files.pop()
            last.end_below(position)
            self._live = (name, LiveIndexFile(last.file, self._settings))
        self._full = files
        self._record_file_ends()

    def destroy(self) -> None:
        """Remove all files: the index is rebuilt from the log."""
        for name in self._files.listdir(self._directory):
            self._files.remove(f"{self._directory}/{name}")
        self._full, self._unsaved, self._live, self._waiting = [], [], None, []
        self._record_file_ends()

    def _record_file_ends(self) -> None:
        """Record how far the files go.

        The keys of the newest record may be spread over several files, or only partly there.
        """
        self._indexed_to = self.end_position
        self._indexed_keys = []
        for file in reversed(self._all()):
            if file.count > 1 and file.end_position == self._indexed_to:
                self._indexed_keys += file.last_keys()

    def _not_there(self, entries: Sequence[tuple[int, int, int]]) -> Sequence[tuple[int, int, int]]:
        """Return the entries that no file holds yet. By log order, once one is beyond all files, all later ones are."""
        new: list[tuple[int, int, int]] = []
        for number, entry in enumerate(entries):
            key_hash, position, _ = entry
            if position > self._indexed_to:
                self._indexed_to = -1
                return [*new, *entries[number:]]
            if position == self._indexed_to:
                if key_hash in self._indexed_keys:
                    self._indexed_keys.remove(key_hash)
                else:
                    new.append(entry)
        return new

    def _all(self) -> list[IndexFile]:
        files: list[IndexFile] = [file for _, file in self._full]
        files += [file for _, file in self._unsaved]
        return [*files, self._live[1]] if self._live is not None else files

    def _flush(self, live: LiveIndexFile) -> None:
        try:
            live.flush_entries()
        except OSError:
            self.write_failures += 1

    def _next_file(self, store_ms: int) -> tuple[str, LiveIndexFile]:
        newest = max(
            (name for name, _ in [*self._full, *self._unsaved, *([self._live] if self._live else [])]),
            default="0",
        )
        name = max(_index_name(store_ms), f"{int(newest) + 1:0{_NAME_DIGITS}d}")
        self._files.make_dirs(self._directory)
        file = self._files.open(f"{self._directory}/{name}", IndexFile.file_bytes(self._settings))
        live = LiveIndexFile(file, self._settings)
        if self._live is not None:
            self._unsaved.append(self._live)
        self._live = (name, live)
        return self._live

    def _header_job(self, live: LiveIndexFile, header: bytes) -> Callable[[], None]:
        def write() -> None:
            _sync(live)
            live.file.pwrite(header, 0)
            _sync(live)
            self._files.sync_dir(self._directory)
            self._files.sync_dir(str(Path(self._directory).parent))

        return write


def _page_job(live: LiveIndexFile, numbers: list[int], pages: list[tuple[int, bytes]]) -> Callable[[], None]:
    def write() -> None:
        try:
            _sync(live)
            for at, content in pages:
                live.file.pwrite(content, at)
        except OSError:
            live.mark_dirty(numbers)
            raise

    return write


def _sync(live: LiveIndexFile) -> None:
    try:
        live.file.sync()
    except OSError as error:  # also when space runs out: the kernel drops what it could not write, and does not report it again
        raise WritesLost(error.errno, f"sync failed: {error.strerror}", live.file.path) from error


def _is_index_name(name: str) -> bool:
    return len(name) == _NAME_DIGITS and name.isdecimal()


def _index_name(store_ms: int) -> str:
    """Return the name RocketMQ gives a file made at this time: local time to the millisecond."""
    moment = datetime.fromtimestamp(store_ms / 1000).astimezone()
    return f"{moment:%Y%m%d%H%M%S}{store_ms % 1000:03d}"
