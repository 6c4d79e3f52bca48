"""Opens a store directory: lock, configuration, log, queues, index, key window. Recovers them, and rebuilds what was lost.

Works in slices, so that the loop can serve reads meanwhile. Never accepts a send.

The opening of a replica lasts as long as it follows: it replays what its group confirms (`replay`), and ends when the replica leads (`finish`).
"""

from collections.abc import Generator, Iterator
from functools import partial

from broker_store.clocks.clock_note import store_clock_note
from broker_store.clocks.opening import clock_file
from broker_store.clocks.store_clock import StoreClock
from broker_store.commit.queues import Queue
from broker_store.commit.system_records import SegmentOffsets, TopicDeleted, read_system_record
from broker_store.commit.topics import SEGMENT_TOPIC
from broker_store.commit.visible.store_events import StoreEvents
from broker_store.config.config_files import ConfigFile
from broker_store.derived import Covered
from broker_store.groups.old_journal import JOURNAL_FILE, drop_older_journal
from broker_store.log.checkpoint.checkpoint import Checkpoint
from broker_store.log.consume_queues.unit_journal import NOT_USED, Run
from broker_store.log.errors import LogError, LogUnreadable
from broker_store.log.files.files import Files
from broker_store.log.files.names import parse_file_name
from broker_store.log.index.index import IndexFiles
from broker_store.log.log_range import LogRange
from broker_store.log.recovery.continued_walk import ContinuedWalk
from broker_store.log.recovery.recovery import CHUNK_BYTES, Found, Hole, Recovery, Unconfirmed
from broker_store.log.settings import QUEUE_UNIT_BYTES
from broker_store.opening.opened_store import OpenedStore
from broker_store.opening.opened_topics import (
    adopt_topics,
    forget_topic,
    have_topics_gone,
    open_again,
    settle_topics,
)
from broker_store.opening.queue_note import Loss, QueueNote, Reason, load_note, never_had, what_is_missing
from broker_store.opening.recovery_report import report
from broker_store.opening.restore import Restore
from broker_store.opening.store_parts import Directory, is_preamble, open_parts
from broker_store.settings import Settings
from broker_store.settling.claims import raise_boot_count
from broker_store.settling.cursor_copies import KEPT_FILE, keep_foreign_cursors, read_kept_cursors
from broker_store.settling.decided.mark import records_together
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Environment
from gantry_wire.errors import WireError

Slices = Generator[None, None, None]

_log = get_logger()


class Opening:
    """One start of a store. `run` yields between slices. `store` is complete when it has ended.

    With `settings.replica`: `recover`, `replay` as often as needed, `finish`.
    """

    def __init__(
        self,
        settings: Settings,
        files: Files,
        clock: StoreClock,
        store_host: bytes,
        environment: Environment,
    ) -> None:
        self._settings = settings
        self._files = files
        self._clock = clock
        self._store_host = store_host
        self._environment = environment
        self._directory = str(settings.store_dir)
        for name in ("commitlog", "consumequeue", "index", "config"):
            files.make_dirs(f"{self._directory}/{name}")
        # a killed run may have replaced a file there without syncing its name, and what is read now must stay
        files.sync_dir(f"{self._directory}/config")
        self._checkpoint = Checkpoint(files, self._directory, environment.secret_bytes)
        self.is_rebuild = False
        self._boot_count = raise_boot_count(files, self._directory)
        self._events = StoreEvents()
        self._topics_file = ConfigFile(files, f"{settings.store_dir}/config/topics.json")
        self.rebuild_reason: Reason | None = None
        """Why all derived data is rebuilt from the log, None when it is not."""
        self.began_at = 0
        """Log position where the walk of this start began."""
        self._losses: list[Loss] = []
        """What derived files lost since the last checkpoint."""
        self.store = self._open()
        self.records = 0
        self._awaited: dict[str, int] = {}
        self._deleted_below: int | None = None
        """Retention has deleted nothing of the log at or above this position. None: unknown."""
        self._deleted_topics: set[str] = set()
        """Topics whose deletion the walk met."""
        self._restore: Restore | None = None
        self._walk_on: ContinuedWalk | None = None
        """Continues the walk of a replica."""

    @property
    def _is_ours(self) -> bool:
        return not self._checkpoint.last.foreign

    @property
    def _was_ours(self) -> bool:
        """Whether this program wrote a part of the log, if another one wrote last."""
        return bool(self._files.listdir(f"{self._directory}/consumequeue/{SEGMENT_TOPIC}"))

    def run(self) -> Slices:
        """Recover everything, and complete the store. Raises LogError when the log cannot be opened."""
        yield from self.recover()
        self.finish()

    def recover(self) -> Slices:
        """Recover, and rebuild what the note of the last checkpoint misses; of a replica, what its group has confirmed.

        Raises LogError when the log cannot be opened.
        """
        note = load_note(self.store.note_file, self._checkpoint.last.position) if self._is_ours else None
        has_log = bool(self.store.log.segments)
        if not self._is_ours:
            keep_foreign_cursors(self._files, self.store.config_dir, f"{self._directory}/{KEPT_FILE}")
            drop_older_journal(self._files, self.store.config_dir, f"{self._directory}/gantry/{JOURNAL_FILE}")
            # it does not say what the other writer left, and the next start finds a directory of ours
            self.store.note_file.remove()
        deleted = self._checkpoint.deleted_below
        # an earlier version, which has no note of its own, may have deleted more
        self._deleted_below = None if deleted is None else max(deleted, note.min_position if note else 0)
        self._know_deleted()
        self._checkpoint.begin(self._environment.process_id)
        covered = self._checkpoint.last.position or 0
        loss = self._lost_before(note, covered)
        if loss is not None and self._is_ours and has_log and covered > self.store.log.min_position:
            self._rebuild_all(loss, note)
        yield from self._recover(note)
        # After a crash between a note and its checkpoint, the walk of a replica may end below what the note covers.
        is_replayed = note is not None and (self._walk_on is None or note.position <= self.replayed_end)
        if note is not None and is_replayed and not self.is_rebuild and not self._losses:
            self._losses = self._missed(note)
        if self._losses:
            self._rebuild_all(self._losses[0], note)
            yield from self._recover(note)
        self.store.note = None if self.is_rebuild else note
        if deleted is None:
            self._checkpoint.note_deleted(self.store.log.min_position)

    def replay(self, limit: int, bytes_max: int = CHUNK_BYTES) -> Slices:
        """Replay what the log of a replica has below `limit`, the end of a record or of a segment. Raises LogError, OSError.

        It yields after `bytes_max`, or after a single larger record.
        """
        assert self._restore is not None
        assert self._walk_on is not None
        for found in self._walk_on.run(limit, bytes_max):
            self._restore.take(found.records)
            yield

    @property
    def replayed_end(self) -> int:
        """Everything below is replayed."""
        return self.store.log.end if self._walk_on is None else self._walk_on.position

    @property
    def replayed_ms(self) -> int:
        """Store time of the newest record that was replayed."""
        return (
            self.store.recovered_ms
            if self._restore is None
            else max(self.store.recovered_ms, self._restore.newest_store_ms)
        )

    def finish(self, boots: int = 0) -> None:
        """Complete the store, once everything is replayed: it may append from now on. `boots`: boot count of its group, if it has one."""
        self.store.boot_count = max(boots, self.store.boot_count)
        if self._walk_on is not None and self._restore is not None:
            self._note_replayed(self._restore)
        settle_topics(self.store)
        adopt_topics(
            self.store, self._awaited if self._is_ours else {}
        )  # RocketMQ does not log the deletion of a topic
        open_again(self.store)
        self.store.queues.note_cut(self.store.log.min_position)
        self.store.queues.note_opened()
        self._keep_clock()

    def _know_deleted(self) -> None:
        if self._deleted_below is not None:
            self.store.log.know_deleted(self._deleted_below)

    def _lost_before(self, note: QueueNote | None, covered: int) -> Loss | None:
        """Return what a start misses before it reads queues, None if nothing. Before the first checkpoint there is neither file."""
        if note is None or note.position < covered:  # an older one does not say what this checkpoint covers
            return Loss(Reason.NOTE, "the note of the last checkpoint is missing")
        return None

    def _keep_clock(self) -> None:
        """Save the point where store time continues, so that the next start need not trust the wall clock."""
        file, note = clock_file(self._files, self._directory), self._clock.note()
        try:
            store_clock_note(file, note)
        except OSError as error:
            _log.warning("the clock note cannot be saved", path=file.path, error=str(error))
        else:
            self._clock.noted(note)

    def abandon(self) -> None:
        """Close everything halfway. The next start begins like this one."""
        self.store.log.close()
        self._checkpoint.abandon()

    def _rebuild_all(self, loss: Loss, note: QueueNote | None) -> None:
        _log.warning("rebuilding queues and index", reason=loss.reason.value, detail=loss.detail)
        self.is_rebuild, self.rebuild_reason, self._losses = True, loss.reason, []
        # Files are cut and written again from here on. Until the next checkpoint has synced them, a power cut may
        # leave zeros between their units, so no start may compare only their ends with a note.
        self.store.note_file.remove()
        self.store.log.close()
        if self.store.index is not None:
            self.store.index.destroy()
        self.store.journal.destroy()
        self.store.unit_journal.start = NOT_USED
        self.store.unit_journal.drop()
        if self._is_ours:  # in a foreign log no record says that retention removed a queue's first files
            self._drop_late_queues(note)
        self.store = self._open()
        self._know_deleted()

    def _drop_late_queues(self, note: QueueNote | None) -> None:
        """Remove what is left of queues without their first file: units cannot be inserted before the rest."""
        for topic, queue_id, directory in self._queue_directories():
            first = 0 if note is None else note.first_offsets.get(topic, {}).get(queue_id, 0)
            names = self._files.listdir(directory)
            starts = [start for name in names if (start := parse_file_name(name)) is not None]
            if min(starts, default=0) // QUEUE_UNIT_BYTES > first:
                self._files.remove_dir(directory)

    def _open(self) -> OpenedStore:
        return open_parts(
            Directory(self._settings, self._files, self._clock, self._store_host, self._environment),
            self._checkpoint, self._events, self._topics_file, self._boot_count,
        )  # fmt: skip

    def _recover(self, note: QueueNote | None) -> Slices:
        store = self.store
        recovery = Recovery(
            store.log,
            self._checkpoint.last,
            rebuild=self.is_rebuild,
            is_preamble=is_preamble,
            records_together=records_together,
            units_from=self._units_from(note),
            again_ms=self._settings.idempotency_window_seconds * 1000 if self._was_ours else 0,
            confirms_end=not self._settings.replica,
        )
        is_index_whole = self._load(recovery, note)
        states = self._load_states(recovery, note)
        if not is_index_whole and recovery.start > store.log.min_position:
            reason = Reason.INDEX if self._is_ours else Reason.FOREIGN
            detail = "index files are damaged, have other settings, or are of a writer that crashed"
            self._losses.append(Loss(reason, detail))
        if not self._is_ours and not self.is_rebuild and not self._do_queues_reach(recovery.start):
            detail = "the queues end before the place where recovery begins"
            self._losses.append(Loss(Reason.FOREIGN, detail))
        if detail := self._replay_units(recovery, note):
            self._losses.append(Loss(Reason.UNITS, detail))
        if self._losses:
            return
        store.is_whole = not store.log.segments or (self._is_ours and not recovery.is_crash)
        # A note taken between two checkpoints counts records that are yet to be walked: it is checked
        # afterwards.
        losses: list[Loss] = []
        if note is not None and not self.is_rebuild and note.position == recovery.start:
            losses = self._what_is_missing(note)
        self.began_at = recovery.start
        restore = yield from self._walk(recovery, states)
        self._record_losses(restore, states, losses)
        if self._settings.replica:
            self._restore, self._walk_on = restore, ContinuedWalk(store.log, recovery.replayed_end)

    def _units_from(self, note: QueueNote | None) -> int:
        """Return the position below which the queue files are complete, NOT_USED where nothing says that they lack units."""
        if self._is_ours:
            return NOT_USED if note is None else note.units_from
        return self.store.unit_journal.first()  # if only the abort file is lost, it was in use

    def _walk(self, recovery: Recovery, states: list[Covered]) -> Generator[None, None, Restore]:
        store = self.store
        restore = Restore(
            store.queues, store.index, store.window, self._read_system, partial(forget_topic, store.topics), store.levels,
            states, store.log.read,
        )  # fmt: skip
        for event in recovery.run():
            if isinstance(event, Found):
                restore.take(event.records)
            elif isinstance(event, Unconfirmed):
                restore.note_deletions(event.records)
            else:
                report(event)
            if isinstance(event, Hole):
                store.skipped.append(LogRange(event.start, event.end))
                restore.leave_hole(event.suspect)
            yield
        return restore

    def _record_losses(self, restore: Restore, states: list[Covered], losses: list[Loss]) -> None:
        """Record what the walk found. `losses` were known before it."""
        store = self.store
        if any(covered > store.log.end for _, covered in states) and not self.is_rebuild:
            self._losses.append(Loss(Reason.SNAPSHOT, "a snapshot is ahead of the log"))
        self._deleted_topics = restore.deleted
        self._losses += self._not_deleted(losses)
        if store.index is not None and not self._losses:
            self._drop_stale_keys(store.index)
        store.rebuild_reason, store.recovery_start = self.rebuild_reason, self.began_at
        self._note_replayed(restore)

    def _note_replayed(self, restore: Restore) -> None:
        """Record what was replayed. Doing so again after more was replayed is right, too."""
        store = self.store
        for queue in store.queues.all():
            queue.next_offset = max(queue.next_offset, queue.units.max_offset)
        self.records = restore.records
        self._awaited = restore.awaited
        store.holes = restore.holes
        store.recovered_ms = max(restore.newest_store_ms, self._checkpoint.last.times.log_ms)
        self._clock.advance_to(store.recovered_ms)

    def _drop_stale_keys(self, index: IndexFiles) -> None:
        try:
            index.drop_from(self.store.log.visible_end)
        except OSError as error:
            detail = f"the index cannot be cut to the end of the log ({error}): check the disk"
            raise LogUnreadable(detail) from error

    def _load(self, recovery: Recovery, note: QueueNote | None) -> bool:
        """Load queues, index and keys. False when index files were dropped that the walk alone does not replay."""
        store, is_index_whole = self.store, True
        self._load_queues(recovery)
        if note is not None:
            self._retire(note)
        if store.index is not None and not self.is_rebuild:
            is_index_whole = self._load_index(store.index, recovery.start, note)
        if not self.is_rebuild and self._is_ours:
            store.journal.load(store.window, recovery.start, note.position if note is not None else 0)
        return is_index_whole

    def _load_index(self, index: IndexFiles, start: int, note: QueueNote | None) -> bool:
        """Load the index. False when files were dropped that a walk from `start` does not replay."""
        last = self._checkpoint.last
        newest_ms = last.times.index_ms if last.foreign and not last.is_clean else None
        # A start after another writer's crash, or one that was rebuilding, may have ended before it dropped all files.
        is_unknown = self._is_ours and (note is None or not last.position)  # and the whole log is walked
        if not is_unknown and not index.load(newest_ms):
            return True
        if is_unknown or start == self.store.log.min_position:
            index.destroy()  # of what lies before the end of a file that is left, the walk would add nothing
            return True
        return False

    def _retire(self, note: QueueNote) -> None:
        """Load the next offsets of deleted topics. Their files' removal is not synced: a power cut brings them back."""
        queues = self.store.queues
        for topic, of_topic in note.retired.items():
            for queue_id, offset in of_topic.items():
                queue = queues.find(topic, queue_id)
                if queue is not None and queue.min_offset < offset >= queue.max_offset:
                    queues.remove_queue(queue, offset)  # also if the topic was created again
                else:
                    queues.continue_at(topic, queue_id, offset)
        for topic in [name for name in queues.topics() if name in note.retired]:
            if topic not in note.next_offsets:
                queues.remove(topic)

    def _load_states(self, recovery: Recovery, note: QueueNote | None) -> list[Covered]:
        """Load the snapshots of the derived states.

        In a rebuild, or before the first checkpoint, the whole log is replayed instead.
        """
        store = self.store
        if self.is_rebuild or (self._is_ours and note is None):
            states, missing = [Covered(state, 0) for state in store.states.all() if state.load(None, 0)], ""
            leases = store.states.leases
            if not store.log.has_beginning and (data := store.snapshots.read(leases.name)) is not None:
                leases.load_filters(data)
            for state in (store.states.access, store.states.config, store.states.committed):
                if (data := store.snapshots.read(state.name)) is not None:
                    state.adopt(data)
        else:
            # marks may lie anywhere in a log that was ours
            is_needed = (self._is_ours or self._was_ours) and recovery.start > store.log.min_position
            added = (store.states.access, store.states.config, store.states.committed)
            unused = {state.name for state in added if all(never_had(note, topic) for topic in state.topics)}
            states, missing = store.snapshots.load_all(
                store.states.all(), recovery.start if is_needed else None, unused
            )
        if missing:
            self._losses.append(Loss(Reason.SNAPSHOT, missing))
        if (
            not self.is_rebuild
            and self._is_ours
            and have_topics_gone(store, self._checkpoint.last.position or 0)
        ):
            self._losses.append(Loss(Reason.TOPICS, "topics.json is missing or damaged"))
        read_kept_cursors(self._files, f"{self._directory}/{KEPT_FILE}", store.states.settled)
        return states

    def _load_queues(self, recovery: Recovery) -> None:
        for topic, queue_id, _ in self._queue_directories():
            queue = self.store.queues.open(topic, queue_id)
            recovery.load_queue(queue.units)
            queue.next_offset = queue.units.max_offset
            queue.has_directory = self._is_ours and not recovery.is_crash  # and that is durable

    def _queue_directories(self) -> Iterator[tuple[str, int, str]]:
        """Yield topic, queue id and directory of every queue with files."""
        base = f"{self._directory}/consumequeue"
        for topic in self._files.listdir(base):
            for name in self._files.listdir(f"{base}/{topic}"):
                if name.isdecimal():
                    yield topic, int(name), f"{base}/{topic}/{name}"

    def _do_queues_reach(self, start: int) -> bool:
        """Whether some queue has a unit of the segment before the start. Without one the queues were lost."""
        log = self.store.log
        before = log.segment_at(start - 1)
        if before is None:
            return True
        queues = [queue.units for queue in self.store.queues.all()]
        return any(units.offset_at(before.start) < units.offset_at(start) for units in queues)

    def _replay_units(self, recovery: Recovery, note: QueueNote | None) -> str:
        """Load the units that the last checkpoint left in the journal. Returns what is missing, in words."""
        if note is None or note.units_from == NOT_USED or not recovery.is_crash or self.is_rebuild:
            return ""
        journal, queues = self.store.unit_journal, self.store.queues
        resumed: set[Queue] = set()

        def take(run: Run) -> bool:
            # The deletion of a topic removed what lies below the offset recorded then.
            gone = note.retired.get(run.topic, {}).get(run.queue_id, 0) - run.first
            units = run.units[max(gone, 0) * QUEUE_UNIT_BYTES :]
            if not units:
                return True
            queue = queues.find(run.topic, run.queue_id)
            if queue is None:
                queue = queues.open(run.topic, run.queue_id)
                recovery.know(queue.units)
            resumed.add(queue)
            return queue.units.resume(run.first + max(gone, 0), units)

        journal.start = note.units_from
        # Where retention cut the log above the checkpoint, the walk begins there: units of removed records
        # are not missing.
        missing = journal.replay(note.units_from, min(recovery.start, note.position), take)
        for queue in resumed:
            queue.units.delete_before(self.store.log.min_position)
        return missing

    def _what_is_missing(self, note: QueueNote) -> list[Loss]:
        store = self.store
        losses = what_is_missing(note, store.queues, store.index, store.log.first_kept)
        if detail := store.journal.missing(note.key_files):
            losses.append(Loss(Reason.KEYS, detail))
        return losses

    def _missed(self, note: QueueNote) -> list[Loss]:
        return self._not_deleted(self._what_is_missing(note))

    def _not_deleted(self, losses: list[Loss]) -> list[Loss]:
        """Return the losses that no deletion met by the walk explains: it removes the files before any note can record it."""
        return [loss for loss in losses if loss.topic not in self._deleted_topics]

    def _read_system(self, position: int, size: int) -> SegmentOffsets | TopicDeleted | None:
        try:
            return read_system_record(self.store.log.read(position, size))
        except (LogError, WireError, ValueError) as error:
            _log.warning("a system record cannot be read", position=position, error=str(error))
            return None
