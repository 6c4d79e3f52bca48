"""Checkpoints: make queues, index and key window durable, then record the log position they cover. Bounds what a start reads after a crash.

Runs in slices between sends: the loop copies memory a little at a time, and a thread syncs files.
"""

import asyncio
import errno
from collections.abc import Callable

from broker_store.commit.queues import QueueEnds
from broker_store.derived import Snapshot
from broker_store.log.checkpoint.checkpoint_file import Times
from broker_store.log.errors import LogStopped, NoDescriptorLeft, WritesLost
from broker_store.log.files.files import SPACE_ERRORS
from broker_store.log.files.spare_descriptors import NO_DESCRIPTOR
from broker_store.log.index.index import IndexFiles
from broker_store.opening.loop_yielding import LoopYielding
from broker_store.opening.opened_store import OpenedStore
from broker_store.opening.queue_note import encode_note, save_note, take_note
from broker_store.opening.queue_saving import QueueSaving
from broker_store.settling.cursor_copies import KEPT_FILE
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers

HARMLESS_ERRORS = SPACE_ERRORS | NO_DESCRIPTOR | {errno.ENOMEM, errno.EAGAIN}
"""No space, no descriptor, or topics that are not saved yet: nothing is lost, and the next checkpoint may succeed."""

CALM_BYTES = 8 * 1024 * 1024
"""With less log than this since the last checkpoint, the next one may run slowly."""
REST_SHARE, REST_SECONDS_MAX = 4.0, 0.1
"""Pause after each slice of the index, as a multiple of the slice's duration: meanwhile the log has the disk.

At a thousand messages per second nearly every page of the index is rewritten each time. Without pauses, and
in slices of a megabyte, concurrent flushes took 1.6 ms (p99 9.9) instead of 0.5 (3.3), and messages were
late by as much.
"""
REST_INTERVALS_MAX = 0.5
"""All pauses of one checkpoint, as a share of the checkpoint interval.

Without a bound a checkpoint took 7 s at an interval of 5 s, so a store that was killed more often never
started from a newer one.
"""
SLICE_SECONDS = 0.005
"""How long the snapshots hold the loop at once."""

_log = get_logger()


class Checkpoints:
    """Takes checkpoints, one at a time."""

    def __init__(
        self,
        store: OpenedStore,
        visible_ms: Callable[[], int],
        is_topic_owed: Callable[[], bool],
        thread: Workers,
        earlier: "Checkpoints | None" = None,
    ) -> None:
        """`visible_ms`: store time of the newest visible record. `earlier` took the checkpoints so far, as the store followed, and has ended.

        `is_topic_owed`: whether the log lacks a change of a topic. No checkpoint is taken meanwhile. The next start reads no record below
        the checkpoint that names a topic. A record that is under way lies above it.
        """
        self._store, self._visible_ms, self._is_topic_owed = store, visible_ms, is_topic_owed
        self._steady = store.environment.steady
        self._lock = asyncio.Lock()
        self._yielding = LoopYielding(thread, self._steady)
        self.position = store.checkpoint.position
        self.saving = QueueSaving(
            store.files, store.log.directory, store.log.settings, store.queues, store.unit_journal, self._yielding,
            self.position, is_whole=store.is_whole,
        ) if earlier is None else earlier.saving  # fmt: skip
        """Which files of queues lack what. It lasts longer than these checkpoints where a replica takes over."""
        self.note = store.note if earlier is None else earlier.note
        """The note of the last checkpoint, from the moment it is to be written."""
        self._noted_cut = None if self.note is None else self.note.min_position
        """Where queues and index began at the last complete checkpoint. None before the first one of a directory without a note."""
        self.count = 0
        self._broken = ""
        self._under_way: set[asyncio.Future[int]] = set()
        self._hurry = asyncio.Event()
        """Set when the store stops."""

    @property
    def behind_bytes(self) -> int:
        """Log bytes that recovery would read after a crash now."""
        return self._store.log.written_end - self.position

    @property
    def has_work(self) -> bool:
        """Whether a checkpoint would save something: log bytes since the last one, what the opening has recovered or rebuilt, or a retention.

        A start finds what is lost at the beginning of queues and index only if the note names the place where the log begins.
        """
        is_cut = self._noted_cut is not None and self._noted_cut != self._store.queues.cut_to
        is_behind = self._store.log.visible_below > self.position
        return is_behind or self.saving.needs_files or is_cut

    @property
    def longest_turn_s(self) -> float:
        """Longest time a checkpoint of this run held the loop, in seconds."""
        return self._yielding.longest_turn_s

    async def take(self) -> int:
        """Take a checkpoint. Returns the position it covers. Raises OSError or LogStopped and then keeps the last one.

        A cancelled caller stops waiting, but the checkpoint continues: it has marked as written what its
        thread is writing.
        """
        taking = asyncio.ensure_future(self._take_alone())
        self._under_way.add(taking)
        taking.add_done_callback(self._ended)
        return await asyncio.shield(taking)

    def _ended(self, taking: asyncio.Future[int]) -> None:
        self._under_way.discard(taking)
        if not taking.cancelled():
            taking.exception()  # its caller reports it, or `close` where the caller was cancelled

    async def _take_alone(self) -> int:
        async with self._lock:
            return await self._take_unless_broken()

    async def end(self) -> None:
        """Wait for a running checkpoint. Take no further one."""
        self._hurry.set()
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def close(self) -> None:
        """Take the last checkpoint of an orderly stop. Everything must be written and answered before."""
        store = self._store
        await self.end()
        async with self._lock:
            try:
                position = await self._take_unless_broken(with_files=True)
                if position == store.log.written_end:
                    await self._yielding.in_thread(lambda: store.checkpoint.close(position, self._times()))
                    return
            except (OSError, LogStopped) as error:
                _log.error("no last checkpoint: the next start recovers as after a crash", reason=str(error))
            store.checkpoint.abandon()

    async def _take_unless_broken(self, *, with_files: bool = False) -> int:
        """Take one, unless an earlier sync failed: no later sync would report what the disk lost then."""
        if self._broken:
            raise OSError(
                errno.EIO, f"no checkpoint after a failed sync ({self._broken}); restart to have it replayed"
            )
        try:
            return await self._take(with_files=with_files)
        except OSError as error:
            if error.errno not in HARMLESS_ERRORS or isinstance(error, WritesLost):
                self._broken = str(error)
            if error.errno == errno.EIO:
                self._store.log.stop_on(error)
            raise

    def _sync_log(self) -> None:
        try:
            self._store.log.sync()
        except NoDescriptorLeft as error:
            raise OSError(errno.EMFILE, str(error)) from error

    async def _take(self, *, with_files: bool) -> int:
        if self._is_topic_owed():
            raise OSError(errno.EAGAIN, "a change of a topic is not in the log yet")
        store, in_thread = self._store, self._yielding.in_thread
        self._yielding.begin()
        # One moment for all parts: what is visible now is in the queues, the index and the window; later
        # records do not matter.
        position, newest_ms = store.log.visible_below, self._visible_ms()
        ends = QueueEnds(position, is_all=store.log.visible_end <= position)
        plan = self.saving.plan(ends, with_files=with_files)
        oldest_ms = store.clock.ago_ms(store.settings.idempotency_window_seconds * 1000)
        note = take_note(store.queues, store.index, ends)
        keys, keys_end = store.window.packed(store.journal.saved_end), store.window.end
        states = await self._snapshots(position)
        await in_thread(self._sync_log)
        await self.saving.save(plan, position)
        if store.index is not None:
            await self._save_index(store.index)
        await in_thread(lambda: store.journal.append(keys, keys_end, position))
        await in_thread(lambda: self._save(states, position))
        note.units_from, note.key_files = store.unit_journal.start, store.journal.sizes(oldest_ms)
        content = encode_note(note)
        self.note = note
        await in_thread(lambda: save_note(store.note_file, content, self.position))
        await in_thread(lambda: store.journal.drop_before(oldest_ms))  # the note needs none of them
        confirm, end = store.log.confirm, store.log.written_end
        files_ms = self.saving.files_ms
        times = Times(newest_ms, newest_ms if files_ms is None else files_ms, newest_ms)
        await in_thread(lambda: self._note(position, end, confirm, times))
        self.position, self._noted_cut = position, note.min_position
        await self.saving.done(plan, position, newest_ms)
        self.count += 1
        return position

    async def _save_index(self, index: IndexFiles) -> None:
        left_s = self._store.settings.checkpoint_seconds * REST_INTERVALS_MAX
        for job in index.checkpoint():
            began_s = self._steady()
            await self._yielding.in_thread(job)
            if left_s > 0 and self.behind_bytes < CALM_BYTES:
                rest_s = min((self._steady() - began_s) * REST_SHARE, REST_SECONDS_MAX, left_s)
                left_s -= rest_s
                await self._yielding.rest(rest_s, self._hurry)

    async def _snapshots(self, position: int) -> list[Snapshot]:
        """Take the snapshots, a few milliseconds at a time. Everything in them is in the log, which is synced next."""
        snapshots: list[Snapshot] = []
        for state in self._store.states.all():
            made: list[bytes] = []
            for part in state.slices(position):
                made.append(part)
                await self._yielding.pause_after(SLICE_SECONDS)
            snapshots.append(Snapshot(state.name, b"".join(made)))
        return snapshots

    def _save(self, states: list[Snapshot], position: int) -> None:
        for state in states:
            self._store.snapshots.save(state.name, state.data, position)

    def _note(self, position: int, end: int, confirm: int, times: Times) -> None:
        store = self._store
        store.checkpoint.write(position, end, confirm, times)
        store.files.remove(f"{store.snapshots.directory}/{KEPT_FILE}")  # the snapshots include its content

    def _times(self) -> Times:
        newest_ms = self._visible_ms()
        return Times(newest_ms, newest_ms, newest_ms)
