"""Checkpoints: make queues, index and key window durable, then note up to which log position they are. Bounds what a crash re-reads.

Works in slices beside the sends: memory is taken in the loop a little at a time, files are synced in a thread.
"""

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from broker_store.appends import Appends
from broker_store.config_files import ConfigFile
from broker_store.derived import Snapshot, SnapshotFiles, take_snapshots
from broker_store.derived_states import DerivedStates
from broker_store.idempotency import Window
from broker_store.key_journal import KeyJournal
from broker_store.log.checkpoint import Checkpoint
from broker_store.log.checkpoint_file import Times
from broker_store.log.commit_log import CommitLog
from broker_store.log.errors import LogStopped
from broker_store.log.files import File, Files
from broker_store.log.index import IndexFiles
from broker_store.log.segment import file_name
from broker_store.log.settings import QUEUE_UNIT_BYTES
from broker_store.queue_note import take_note
from broker_store.queues import Queue, QueueTable
from gantry_chassis.logs import get_logger

QUEUES_PER_SLICE = 16
"""Queues whose tails are written between two looks at the sockets: a millisecond, where their files are new some more."""
FILES_SYNCED_SINGLY_MAX = 256
"""With more queues to sync than this, one sync of the whole file system is cheaper."""

_log = get_logger()


@dataclass(frozen=True, slots=True)
class CheckpointParts:
    """What a checkpoint brings together."""

    files: Files
    log: CommitLog
    appends: Appends
    queues: QueueTable
    index: IndexFiles | None
    window: Window
    window_ms: int
    journal: KeyJournal
    states: DerivedStates
    snapshots: SnapshotFiles
    note_file: ConfigFile
    checkpoint: Checkpoint
    thread: Executor
    now_ms: Callable[[], int]


class Checkpoints:
    """Takes checkpoints, one at a time."""

    def __init__(self, parts: CheckpointParts) -> None:
        self._parts = parts
        self._lock = asyncio.Lock()
        self.position = parts.checkpoint.position
        self.count = 0
        self._broken = ""

    @property
    def behind_bytes(self) -> int:
        """Log bytes a crash of this moment would have recovery read."""
        return self._parts.log.written_end - self.position

    async def take(self) -> int:
        """Take one; returns the position it covers. Raises OSError or LogStopped: then the last one stays in force."""
        async with self._lock:
            return await self._take_unless_broken()

    async def close(self) -> None:
        """Take the last one of a stop in order. Everything must be written and answered before."""
        parts = self._parts
        async with self._lock:
            try:
                position = await self._take_unless_broken()
                if position == parts.log.written_end:
                    await self._in_thread(lambda: parts.checkpoint.close(position, self._times()))
                    return
            except (OSError, LogStopped) as error:
                _log.error("no last checkpoint: the next start recovers as after a crash", reason=str(error))
            parts.checkpoint.abandon()

    async def _take_unless_broken(self) -> int:
        """Take one, unless an earlier sync failed: what the disk then forgot, no later sync would tell."""
        if self._broken:
            raise OSError(
                errno.EIO, f"no checkpoint after a failed sync ({self._broken}); restart to have it replayed"
            )
        try:
            return await self._take()
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                self._broken = str(error)
            raise

    async def _take(self) -> int:
        parts = self._parts
        # One moment of all parts: what is visible now is in the queues, the index and the window, and nothing later matters.
        position = parts.appends.appeared_end
        note = take_note(parts.queues, parts.index, position, parts.log.min_position, parts.window.newest_ms)
        keys, keys_end = parts.window.packed(parts.journal.saved_end), parts.window.end
        states = take_snapshots(parts.states.all(), position)
        oldest_ms = parts.now_ms() - parts.window_ms
        times = self._times()
        await self._in_thread(parts.log.sync)
        await self._sync_queues()
        if parts.index is not None:
            for job in parts.index.checkpoint():
                await self._in_thread(job)
        await self._in_thread(lambda: parts.journal.append(keys, keys_end, position, oldest_ms))
        await self._in_thread(lambda: self._save(states, position))
        await self._in_thread(lambda: parts.note_file.store_bytes(note))
        confirm, end = parts.log.confirm, parts.log.written_end
        await self._in_thread(lambda: parts.checkpoint.write(position, end, confirm, times))
        self.position = position
        self.count += 1
        return position

    def _save(self, states: list[Snapshot], position: int) -> None:
        for state in states:
            self._parts.snapshots.save(state.name, state.data, position)

    async def _sync_queues(self) -> None:
        """Write the tails of all queues and make them durable, a slice at a time: few files each by itself, many at once."""
        dirty = [queue for queue in self._parts.queues.all() if not queue.units.is_flushed]
        are_many = len(dirty) > FILES_SYNCED_SINGLY_MAX
        handed: list[Queue] = []
        try:
            for first in range(0, len(dirty), QUEUES_PER_SLICE):
                await self._sync_slice(dirty[first : first + QUEUES_PER_SLICE], handed, are_many=are_many)
            for queue in list(self._parts.queues.all()):  # what others wrote out between two checkpoints
                handed.append(queue)
                files, directories = queue.units.take_unsynced()
                if files or directories:
                    await self._in_thread(partial(self._sync, files, directories))
            if are_many:
                await self._in_thread(lambda: self._parts.files.sync_all(self._parts.log.directory))
        except BaseException:
            for queue in handed:  # of the next checkpoint, whatever stopped this one
                queue.units.not_synced()
            raise
        for queue in handed:
            queue.units.synced()

    async def _sync_slice(self, queues: list[Queue], handed: list[Queue], *, are_many: bool) -> None:
        new = [queue for queue in queues if not queue.has_directory]
        if new:
            await self._in_thread(lambda: self._make_files(new))
        for queue in new:
            queue.units.note_new_directory()
        files: list[File] = []
        directories: set[str] = set()
        for queue in queues:
            if self._parts.queues.find(queue.topic, queue.queue_id) is not queue:
                continue  # its topic was deleted meanwhile
            queue.has_directory = True
            queue.units.flush()
            handed.append(queue)
            unsynced, names = queue.units.take_unsynced()
            files += unsynced
            directories.update(names)
        if are_many:
            await asyncio.sleep(0)
        else:
            await self._in_thread(lambda: self._sync(files, sorted(directories)))

    def _make_files(self, queues: list[Queue]) -> None:
        """Make directory and first file of new queues: the disk may take its time for that, the loop may not."""
        log_settings = self._parts.log.settings
        for queue in queues:
            directory, first = queue.units.directory, queue.units.min_offset
            first -= first % log_settings.queue_file_units
            self._parts.files.make_dirs(directory)
            path = f"{directory}/{file_name(first * QUEUE_UNIT_BYTES)}"
            self._parts.files.open(path, create_bytes=log_settings.queue_file_bytes).close()

    def _sync(self, files: list[File], directories: list[str]) -> None:
        for file in files:
            file.sync()
        for directory in directories:
            if self._parts.files.exists(directory):  # a topic may have been deleted meanwhile
                self._parts.files.sync_dir(directory)

    def _times(self) -> Times:
        newest_ms = self._parts.appends.appeared_ms
        return Times(newest_ms, newest_ms, newest_ms)

    async def _in_thread(self, work: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._parts.thread, work)
