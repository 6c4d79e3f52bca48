"""Keeps committed offsets on disk: consumerOffset.json every few seconds, and a journal for commits that wait for an answer.

All disk work runs in one thread, in the order of the calls. The file is encoded from the table when its
turn comes, so it contains every journal entry written before, and the journal can be emptied after it.
Entries are numbered, and the file holds the number of the last one in it: after a crash between the two
steps, no old entry is replayed over a newer one.

The log is synced before the file is written: a group that receives has its low-water mark there, which must not pass
dead letters, delayed copies or acknowledgements that a crash takes from the log.

    line of the journal: CRC32 of the rest (8 hex digits), space, JSON [number, topic, group, queue id, offset], newline
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import NamedTuple, cast
from zlib import crc32

import msgspec

from broker_store.config.config_files import ConfigFile, DataVersionCounter
from broker_store.groups.offsets import JOURNAL_FIELD, OffsetTable
from broker_store.log.errors import LogError
from broker_store.log.files.files import File, Files
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers
from gantry_wire.bodies.cluster import DataVersion

JOURNAL_FILE = "offsets.journal"
JOURNAL_BYTES_MAX = 8 * 1024 * 1024
"""Beyond this size the file is written at once, which empties the journal."""
_CRC_CHARS = 9

Answer = Callable[[OSError | None], None]
"""Called when a commit is durable, or with the reason why it may not be."""

Resume = Answer
"""Commits, or reports why it may not."""

BeforeCommit = Callable[[str, str, int, int, Resume], bool]
"""Called with group, topic, queue id, offset and the continuation. Returns True if it calls the continuation later."""

_log = get_logger()


class Entry(NamedTuple):
    """One commit in the journal."""

    number: int
    topic: str
    group: str
    queue_id: int
    offset: int


class OffsetKeeper:
    """Saves one OffsetTable."""

    def __init__(
        self,
        table: OffsetTable,
        file: ConfigFile,
        files: Files,
        journal_path: str,
        version: DataVersionCounter,
        thread: Workers,
        before_commit: BeforeCommit,
        sync_log: Callable[[], object],
    ) -> None:
        """`sync_log` makes durable what the log has. Called in the thread; raises OSError or LogError."""
        self._table = table
        self._before_commit = before_commit
        self._sync_log = sync_log
        self._file = file
        self._version = version
        self._thread = thread
        self._journal = _Journal(files, journal_path)
        self._number = 0
        self._saved_changes = 0
        self._waiting: list[tuple[bytes, Answer]] = []
        self._is_writing = False
        self._is_closed = False
        self._flush_lock = asyncio.Lock()

    @property
    def version(self) -> DataVersion:
        """DataVersion of the file as last saved."""
        return self._version.value

    def load(self) -> None:
        """Fill the table from the file and the journal. Blocks: call it before the loop serves."""
        content = self._file.load()
        self._number = self._table.load(content)
        if isinstance(content, dict) and "dataVersion" in content:
            self._version.value = _read_version(cast("dict[str, object]", content)["dataVersion"])
        for entry in self._journal.open():
            if entry.number > self._number:
                self._table.commit(entry.group, entry.topic, entry.queue_id, entry.offset)
                self._number = entry.number
        self._table.take_moved()

    def commit(self, group: str, topic: str, queue_id: int, offset: int, answer: Answer) -> None:
        """Commit, and answer when it is durable. Commits that arrive during a write are written together."""
        commit = partial(self._commit, group, topic, queue_id, offset, answer)
        if not self._before_commit(group, topic, queue_id, offset, commit):
            commit(None)

    def commit_soon(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit; the next flush saves it. An offset that moves back is logged first, as always."""

        def commit(error: OSError | None) -> None:
            if error is None:
                self._table.commit(group, topic, queue_id, offset)

        if not self._before_commit(group, topic, queue_id, offset, commit):
            commit(None)

    def _commit(
        self, group: str, topic: str, queue_id: int, offset: int, answer: Answer, error: OSError | None
    ) -> None:
        if error is not None:
            answer(error)
            return
        self._table.commit(group, topic, queue_id, offset)
        if offset < 0:
            answer(None)
            return
        self._number += 1
        self._waiting.append((_line(Entry(self._number, topic, group, queue_id, offset)), answer))
        if not self._is_writing:
            self._write_waiting()

    async def flush(self) -> OSError | LogError | None:
        """Write the file if anything changed. A failure, also of the log's sync, is logged and returned; the next call retries.

        Does nothing after `close`: the loop that calls this ends later than the thread.
        """
        async with self._flush_lock:
            changes = self._table.changes
            if changes == self._saved_changes or self._is_closed:
                return None
            self._version.bump()
            content = self._table.encode(msgspec.json.encode(self._version.value), self._number)
            try:
                await self._thread.run(self._replace, content)
            except (OSError, LogError) as error:
                _log.error(
                    "offsets could not be saved; commits stay in memory",
                    path=self._file.path,
                    error=str(error),
                )
                return error
            self._saved_changes = changes
            return None

    async def close(self) -> None:
        """Write everything and stop the thread."""
        await self.flush()
        await self._thread.run(self._journal.close)
        self._is_closed = True
        self._thread.close(wait=False)

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if self._is_closed:  # what the commit waited for was flushed only now
            for _, answer in waiting:
                answer(OSError("the store is closing"))
            return
        self._is_writing = True
        lines = b"".join([line for line, _ in waiting])
        future = self._thread.run(self._journal.append, lines)
        future.add_done_callback(lambda done: self._written(done, waiting))

    def _written(self, done: "asyncio.Future[None]", waiting: list[tuple[bytes, Answer]]) -> None:
        self._is_writing = False
        error = None if done.cancelled() else done.exception()
        failure = OSError("the store is closing") if done.cancelled() else error
        if failure is not None and not isinstance(failure, OSError):
            raise failure
        for _, answer in waiting:
            answer(failure)
        if self._waiting:
            self._write_waiting()
        if self._journal.size > JOURNAL_BYTES_MAX and not self._flush_lock.locked():
            task = asyncio.ensure_future(self.flush())
            task.add_done_callback(_forget)

    def _replace(self, content: bytes) -> None:
        self._sync_log()
        self._file.store_bytes(content)
        self._journal.empty()


class _Journal:
    """The journal's file. For one thread at a time."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._open: File | None = None
        self._has_failed = False
        self._found: bytes | None = None
        """The intact lines of an earlier process, until the first write. None: there is nothing to write again."""
        self.size = 0

    def open(self) -> list[Entry]:
        """Return the intact entries, up to the first torn one. What follows it was never answered."""
        content = self._files.read_bytes(self._path) or b""
        entries, self.size = _read_lines(content)
        self._found = content[: self.size]
        return entries

    def append(self, lines: bytes) -> None:
        """Write lines. Durable on return. After a failure, here or in `empty`, nothing is written until it is emptied."""
        if self._has_failed:
            raise OSError("an earlier write of offsets failed; they are durable after the next full save")
        try:
            file = self._file()
            if self._found is not None:
                # after a failed sync and a kill the page cache alone may hold them; a torn rest must not follow
                file.truncate(self.size)
                file.pwrite(self._found, 0)
            file.pwrite(lines, self.size)
            file.sync()
        except OSError:
            self._has_failed = True
            raise
        self._found = None
        self.size += len(lines)

    def empty(self) -> None:
        """Remove all entries: the file of offsets holds them."""
        if self._has_failed:  # the descriptor may hide a failed write: start a new file
            self.close()
            self._files.remove(self._path)
        elif self.size == 0:
            return
        # until the end: lines at `size` would follow a gap if the file is empty already
        self._has_failed = True
        file = self._file()
        file.truncate(0)
        file.sync()
        self.size = 0
        self._found = None
        self._has_failed = False

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _file(self) -> File:
        if self._open is None:
            directory = str(PurePath(self._path).parent)
            self._files.make_dirs(directory)
            self._open = self._files.open(self._path, create_bytes=0)
            self._files.sync_dir(directory)
        return self._open


def drop_older_journal(files: Files, config_dir: str, path: str) -> None:
    """Durably remove the journal if another broker has written consumerOffset.json: that file is newer than all its lines.

    Call it before the directory becomes ours: later lines follow on the other broker's file.
    """
    content = ConfigFile(files, f"{config_dir}/consumerOffset.json").load()
    if isinstance(content, dict) and JOURNAL_FIELD not in content and files.exists(path):
        files.remove(path)
        files.sync_dir(str(PurePath(path).parent))


def _read_version(content: object) -> DataVersion:
    """Return the version in a file, a new one when it has none that can be read."""
    try:
        return msgspec.convert(content, DataVersion, strict=False)
    except msgspec.ValidationError:
        return DataVersion()


def _line(entry: Entry) -> bytes:
    text = msgspec.json.encode(entry)
    return f"{crc32(text):08x} ".encode() + text + b"\n"


def _read_lines(content: bytes) -> tuple[list[Entry], int]:
    """Return the entries, and the size of their intact lines."""
    entries: list[Entry] = []
    size = 0
    for line in content.splitlines(keepends=True):
        text = line[_CRC_CHARS:-1]
        if not line.endswith(b"\n") or line[:_CRC_CHARS] != f"{crc32(text):08x} ".encode():
            break
        try:
            entries.append(msgspec.json.decode(text, type=Entry))
        except msgspec.DecodeError:
            break
        size += len(line)
    return entries, size


def _forget(task: "asyncio.Task[OSError | LogError | None]") -> None:
    """Report a task's failure to the loop's exception handler."""
    if not task.cancelled():
        task.result()
