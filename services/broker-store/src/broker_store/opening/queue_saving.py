"""Makes the units of all queues durable for a checkpoint, a slice at a time.

With few changed queues, their files are written and synced. With many, the units since the last checkpoint
go into the unit journal in one sequential write, and the files are written in rounds, a part at each
checkpoint. A file is synced through the descriptor that wrote it, so its errors are seen on every kernel.
"""

import errno
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from broker_store.commit.queues import Queue, QueueEnds, QueueTable
from broker_store.log.consume_queues.unit_journal import NOT_USED, UnitJournal, pack_run
from broker_store.log.files.files import File, Files
from broker_store.log.files.names import file_name
from broker_store.log.settings import QUEUE_UNIT_BYTES, LogSettings
from broker_store.opening.loop_yielding import LoopYielding

QUEUES_PER_SLICE = 16
"""Queues whose tails are written before the loop is free again: about a millisecond, more if their files are new."""
RUNS_PER_SLICE = 256
"""Queues whose new units are copied for the journal before the loop is free again: half a millisecond."""
QUEUES_WITHOUT_JOURNAL_MAX = 256
"""With up to this many changed queues, their files are synced at each checkpoint."""
CHECKPOINTS_PER_ROUND = 8
"""Full checkpoints per round in which every file is written once.

The journal holds two rounds: 64 MB at 48 MiB of 250 B messages.
"""


@dataclass(frozen=True, slots=True)
class SavePlan:
    """The units that one checkpoint covers."""

    ends: list[tuple[Queue, int]]
    """Queues with new units, and the offset below which they are covered."""
    unwritten: list[Queue]
    """Queues whose files lack units, or may lose some in a power cut."""
    uses_journal: bool


class QueueSaving:
    """Saves queues for the checkpoints of one run.

    Without `is_whole` an opening left units that only the log or the journal holds.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        settings: LogSettings,
        queues: QueueTable,
        journal: UnitJournal,
        yielding: LoopYielding,
        position: int,
        *,
        is_whole: bool,
    ) -> None:
        self._files = files
        self._directory = directory
        self._settings = settings
        self._queues = queues
        self._journal = journal
        self._yielding = yielding
        self._position = position
        self._newest_ms = 0
        self._needs_files = not is_whole
        self._round: deque[Queue] = deque()
        self._round_position = position
        self._round_ms = 0
        self._round_queues = 0
        self.files_ms: int | None = None
        """Store time up to which the files alone are complete. None: all that the checkpoint covers."""

    @property
    def needs_files(self) -> bool:
        """Whether the opening left units that the files do not hold durably."""
        return self._needs_files

    def plan(self, ends: QueueEnds, *, with_files: bool = False) -> SavePlan:
        """Fix what is covered: the units below `ends` now. With `with_files` the files alone must hold them."""
        queues = self._queues.all()
        unwritten = [queue for queue in queues if not queue.units.is_durable]
        uses_journal = (
            len(unwritten) > QUEUES_WITHOUT_JOURNAL_MAX and not with_files and not self._needs_files
        )
        changed = [(queue, end) for queue in queues if (end := ends.of(queue)) != queue.units.covered_end]
        return SavePlan(changed, unwritten, uses_journal)

    async def save(self, plan: SavePlan, position: int) -> None:
        """Make the plan durable. On OSError the last checkpoint stays valid."""
        if not plan.uses_journal:
            await self._write_out_all(plan.unwritten)
            self._round.clear()
            self._journal.start, self.files_ms = NOT_USED, None
            return
        if not self._round:
            self._begin_round(plan.unwritten)
        if position > self._position:
            await self._write_journal(plan.ends, position)
        await self._continue_round(position - self._position)
        if not self._round:
            self._journal.start, self.files_ms = self._round_position, self._round_ms

    async def done(self, plan: SavePlan, position: int, newest_ms: int) -> None:
        """Record that the checkpoint is complete."""
        for queue, end in plan.ends:
            queue.units.covered_end = end
        self._position, self._newest_ms = position, newest_ms
        self._needs_files = False
        if plan.uses_journal:
            self._journal.confirm()
        await self._yielding.in_thread(self._journal.drop)

    # --- the journal ---------------------------------------------------------------------------------------

    def _begin_round(self, unwritten: Sequence[Queue]) -> None:
        if self._journal.start == NOT_USED:
            self._journal.start, self.files_ms = self._position, self._newest_ms
        self._journal.begin(self._position)
        self._round.extend(unwritten)
        self._round_position, self._round_ms = self._position, self._newest_ms
        self._round_queues = len(unwritten)

    async def _write_journal(self, ends: Sequence[tuple[Queue, int]], position: int) -> None:
        parts: list[bytes] = []
        for number, (queue, end) in enumerate(ends):
            first = max(queue.units.covered_end, queue.min_offset)
            if first < end and self._is_there(queue):
                parts += pack_run(queue.topic_bytes, queue.queue_id, first, queue.read(first, end - first))
            if number % RUNS_PER_SLICE == RUNS_PER_SLICE - 1:
                await self._yielding.pause()
        await self._yielding.in_thread(partial(self._journal.append, self._position, position, parts))

    async def _continue_round(self, log_bytes: int) -> None:
        """Write files, more of them the more log this checkpoint covers, which bounds the journal in bytes."""
        due = self._round_queues * log_bytes // (CHECKPOINTS_PER_ROUND * self._settings.checkpoint_bytes) + 1
        left = min(max(due, QUEUES_WITHOUT_JOURNAL_MAX), len(self._round))
        while left > 0:
            some = [self._round[place] for place in range(min(left, QUEUES_PER_SLICE))]
            await self._sync_slice(some)
            for _ in some:
                self._round.popleft()
            left -= len(some)

    # --- the files -----------------------------------------------------------------------------------------

    async def _write_out_all(self, queues: Sequence[Queue]) -> None:
        """Write and sync all these files. Starts the writes of many first, so that each sync finds little to do."""
        if len(queues) > QUEUES_WITHOUT_JOURNAL_MAX:
            for first in range(0, len(queues), QUEUES_PER_SLICE):
                await self._write_slice(queues[first : first + QUEUES_PER_SLICE])
                await self._yielding.pause()
            await self._yielding.in_thread(partial(self._files.sync_all, self._directory))
        for first in range(0, len(queues), QUEUES_PER_SLICE):
            await self._sync_slice(queues[first : first + QUEUES_PER_SLICE])

    async def _sync_slice(self, queues: Sequence[Queue]) -> None:
        """Write the tails of these queues and make them durable."""
        there = await self._write_slice(queues)
        files: list[File] = []
        directories: set[str] = set()
        try:
            for queue in there:
                unsynced, names = queue.units.take_unsynced()
                files += unsynced
                directories.update(names)
            await self._yielding.in_thread(partial(self._sync, files, sorted(directories)))
        except BaseException:
            for queue in there:  # the next checkpoint syncs them, whatever stopped this one
                queue.units.not_synced()
            raise
        for queue in there:
            queue.units.synced()

    async def _write_slice(self, queues: Sequence[Queue]) -> list[Queue]:
        """Write the tails of these queues. Returns those whose topic was not deleted meanwhile."""
        new = [queue for queue in queues if not queue.has_directory and self._is_there(queue)]
        if new:
            await self._yielding.in_thread(partial(self._make_files, new))
        for queue in new:
            queue.units.note_new_directory()
            queue.has_directory = True
        there = [queue for queue in queues if self._is_there(queue)]
        for queue in there:
            queue.units.flush()
        return there

    def _make_files(self, queues: Sequence[Queue]) -> None:
        """Make directory and first file of new queues, in a thread: the disk may be slow, the loop must not be."""
        for queue in queues:
            directory, first = queue.units.directory, queue.units.min_offset
            first -= first % self._settings.queue_file_units
            path = f"{directory}/{file_name(first * QUEUE_UNIT_BYTES)}"
            try:
                self._files.make_dirs(directory)
                self._files.open(path, create_bytes=self._settings.queue_file_bytes).close()
            except FileNotFoundError:
                if self._is_there(queue):  # else its topic was deleted meanwhile
                    raise

    def _sync(self, files: Sequence[File], directories: Sequence[str]) -> None:
        for file in files:
            try:
                file.sync()
            except OSError as error:  # also when space runs out: the kernel drops what it could not write
                raise OSError(errno.EIO, f"sync failed: {error.strerror}", file.path) from error
        for directory in directories:
            with suppress(FileNotFoundError):  # a topic may have been deleted meanwhile
                self._files.sync_dir(directory)

    def _is_there(self, queue: Queue) -> bool:
        return self._queues.find(queue.topic, queue.queue_id) is queue
