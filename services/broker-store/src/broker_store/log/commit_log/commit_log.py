"""The CommitLog: one growing sequence of records, cut into segment files. Knows bytes and positions only.

Writing has one owner (the event loop): it reserves a position, puts the bytes, and writes once per turn.
`sync` runs in the thread that flushes. Never maps a file: an I/O error under a mapping would kill the
process.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from broker_store.log.commit_log.log_reader import LogReader, start_of
from broker_store.log.commit_log.prezero import Prezero
from broker_store.log.commit_log.segment import Segment, cut_segment, load_segments, open_segment
from broker_store.log.errors import DiskFull, LogStopped, NoDescriptorLeft, RecordTooLarge
from broker_store.log.files.files import SPACE_ERRORS, Data, Files
from broker_store.log.files.spare_descriptors import NO_DESCRIPTOR
from broker_store.log.settings import BLANK_BYTES, LogSettings
from gantry_wire.records.message_record import build_blank


class LogState(Enum):
    """What the disk still allows. Only a restart leaves `STOPPED`."""

    RUNNING = "running"
    DISK_FULL = "disk_full"
    STOPPED = "stopped"


class ConfirmFile(Protocol):
    """Stores what must be known of the log beside it: the confirm offset after each flush, and how far retention has deleted."""

    def write_confirm(self, position: int) -> None:
        """Write the offset. The next checkpoint makes it durable."""
        ...

    def note_deleted(self, position: int) -> None:
        """Note, before it happens, that retention deletes below this position. Durable on return. Raises OSError."""
        ...


class CommitLog(LogReader):
    """Appends and reads records. `preamble(position)` returns the first records of a new segment, back to back.

    `on_preamble(position, record)` is called for each of them once it is in the open batch. When `write`
    raises DiskFull, everything reserved since the last successful write is undone, preambles included.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        settings: LogSettings,
        preamble: Callable[[int], Sequence[bytes]],
        on_preamble: Callable[[int, bytes], None],
        confirm_file: ConfirmFile,
    ) -> None:
        self._files = files
        self.directory = directory
        self.settings = settings
        self._preamble = preamble
        self._on_preamble = on_preamble
        self._confirm_file = confirm_file
        super().__init__(load_segments(files, directory, settings.segment_bytes))
        self.state = LogState.RUNNING
        self.stop_reason = ""
        self.end = self.min_position
        """Position of the next record. What lies below may still be in the open batch."""
        self.written_end = self.end
        self.durable_end = self.end
        self.confirm = 0
        self.visible_below = self.end
        """Every record below is visible. From here to `visible_end`, some may wait for their flush."""
        self._names_checked_to = 0
        self._limit = -1  # a record may end here at most; -1 sends every reservation to the slow path
        self._tail: Segment | None = None
        self._written_tail: Segment | None = None
        self._runs: list[tuple[Segment, int, list[Data]]] = []
        self._run_start = self.end
        self._batch: list[Data] = []
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._unsynced: set[Segment] = set()
        self._unsynced_names = False
        self.is_begin_known = False
        """Whether it is known how far retention has deleted (`know_deleted`)."""
        self.dropped: deque[Segment] = deque()
        """Segments that were forgotten and whose files are still there, oldest first."""
        self._removing = threading.Lock()
        self.put: Callable[[Data], None] = self._batch.append
        """Adds bytes to the open batch: those of the last reservation, before the next one."""
        self.prezero = Prezero(
            files, directory, settings, self._stop_on, lambda: self.state is LogState.RUNNING
        )

    # --- writing -------------------------------------------------------------------------------------------

    def show(self, end: int) -> None:
        """Allow reads below this position during recovery. Each is checked unless recovery has checked it."""
        self.end = self.written_end = self.visible_end = end
        self.first_read.end = max(self.first_read.end, end)

    def know_deleted(self, position: int) -> None:
        """Take that retention has deleted nothing at or above this position: what is missing there is lost. Before the recovery."""
        start = position - position % self.settings.segment_bytes
        self.is_begin_known = True
        # after a crash in the middle of a deletion the first files are below the note
        self.min_position = min(self.min_position, start) if self.segments else max(self.min_position, start)

    @property
    def first_kept(self) -> int:
        """Where the first file begins: above `min_position` where the files between are lost."""
        return self.segments[0].start if self.segments else self.min_position

    @property
    def has_beginning(self) -> bool:
        """Whether the first file of the log is there: neither retention nor damage took records from its beginning."""
        return bool(self.segments) and self.segments[0].start == 0

    def begin_at(self, position: int) -> None:
        """Begin a log without segments, during recovery, at the segment of this position."""
        assert not self.segments
        self.min_position = position - position % self.settings.segment_bytes

    def start_at(self, end: int, confirm: int) -> None:
        """Start appends at this position. Recovery has cut and synced everything up to it."""
        if end % self.settings.segment_bytes and self.segment_at(end) is None:
            start = (
                end - end % self.settings.segment_bytes
            )  # its file was lost: the log continues behind the loss
            self.segments.append(
                open_segment(self._files, self.directory, start, self.settings.segment_bytes)
            )
        if self.segments:
            self._files.sync_dir(self.directory)  # the last run may have died before it synced a new name
        self.first_read.end = end
        self.end = self.written_end = self.durable_end = self.visible_end = self._run_start = end
        self.visible_below, self.confirm = end, confirm
        self._tail = next((segment for segment in self.segments if segment.start <= end < segment.end), None)
        self._written_tail = self._tail
        if self._tail is not None:
            self._limit = self._tail.end - BLANK_BYTES
            self.prezero.follow(self._tail, end)

    def hide_above(self, position: int) -> None:
        """Allow reads below this position only. For the log of a replica, right after `start_at`."""
        assert self.min_position <= position <= self.end
        self.visible_end = self.visible_below = position

    @property
    def room(self) -> int:
        """Most bytes that can be reserved in this segment. Below 0 when the log has none yet, or is stopped."""
        return self._limit - self.end

    def reserve(self, size: int) -> int:
        """Return the position of the next `size` bytes: one record, or a batch that stays together.

        Raises LogStopped, RecordTooLarge, or DiskFull (NoDescriptorLeft) when the next segment cannot be
        made. Reserves nothing then.
        """
        position = self.end
        end = position + size
        if end > self._limit:
            return self._reserve_in_next_segment(size)
        self.end = end
        return position

    def write(self) -> None:
        """Write the open batch. Raises DiskFull (and takes all of it back) or LogStopped."""
        batch = self._batch
        if not batch:
            return
        tail = self._tail
        assert tail is not None
        end = self.end
        assert self._run_start + sum(map(len, batch)) == end, "reserved and put sizes differ"
        if self.state is LogState.STOPPED:
            raise LogStopped(self.stop_reason)
        try:
            self.prezero.claim(end)
            for segment, position, buffers in self._runs:
                segment.file.pwritev(buffers, position - segment.start)
            tail.file.pwritev(batch, self._run_start - tail.start)
        except OSError as error:
            self._fail(error)
        with self._lock:
            self._unsynced.add(tail)
            self._unsynced.update(run[0] for run in self._runs)
            self.written_end = end
        self._written_tail = tail
        self._runs.clear()
        batch.clear()
        self._run_start = end

    def sync(self) -> int:
        """Make everything written durable. Returns the position reached. May be called in any thread.

        A failure raises LogStopped and stops the log for ever: what the device holds is unknown until a
        restart. NoDescriptorLeft does not: call again. Calls wait for each other: what one has started is
        durable only when it has ended, and the kernel reports a failure only once, so the next call must
        see it recorded.
        """
        with self._syncing:
            return self._sync_written()

    def sync_if_free(self) -> int | None:
        """As `sync`, or None while another thread syncs: it is not waited for."""
        if not self._syncing.acquire(blocking=False):
            return None
        try:
            return self._sync_written()
        finally:
            self._syncing.release()

    def _sync_written(self) -> int:
        with self._lock:
            end = self.written_end
            segments, self._unsynced = self._unsynced, set()
            names, self._unsynced_names = self._unsynced_names, False
        if self.state is LogState.STOPPED:
            raise LogStopped(self.stop_reason)
        try:
            for segment in sorted(segments, key=start_of):
                segment.file.sync()
            if names:
                self._sync_names()
        except OSError as error:
            self._stop_on(error)
            raise LogStopped(self.stop_reason) from error
        if self.stop_reason:  # the thread that zeroes ahead may have met the error meanwhile
            raise LogStopped(self.stop_reason)
        self.durable_end = max(self.durable_end, end)
        return end

    def _sync_names(self) -> None:
        """Make the names of new segments durable.

        NoDescriptorLeft when the directory cannot be opened; nothing was tried.
        """
        try:
            self._files.sync_dir(self.directory)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
            with self._lock:
                self._unsynced_names = True
            raise NoDescriptorLeft(
                f"no descriptor to sync the names of new segments in {self.directory}"
            ) from error

    def set_visible(self, position: int, visible_below: int) -> None:
        """Allow reads below this position. Everything below `visible_below` is then visible."""
        assert self.visible_end <= position <= self.written_end
        assert self.visible_below <= visible_below <= position
        self.visible_end, self.visible_below = position, visible_below

    def set_confirm(self, position: int) -> None:
        """Note that everything below is durable and complete. Raises LogStopped if it cannot be noted."""
        assert self.confirm <= position <= self.durable_end
        self.confirm = position
        try:
            self._confirm_file.write_confirm(position)
        except OSError as error:
            self._stop_on(error)
            raise LogStopped(self.stop_reason) from error

    def check_names(self, position: int) -> None:
        """Stop if a segment written below `position` since the last check has lost its name. Raises LogStopped.

        The device holds such a file only as long as this process has it open. Call this in the loop, not in
        the flush thread, and not at each flush: it releases the interpreter lock, and any waiting thread
        takes it. Retention takes a segment out of `segments` before it removes the file.
        """
        for segment in reversed(self.segments):
            if segment.end <= self._names_checked_to:
                break
            if segment.start < position and not segment.file.is_at(segment.path):
                self.stop_for(
                    f"{segment.path} was removed, moved or replaced by another program while the store ran: what it holds can be "
                    "read until the store ends; save what is needed, put the file back, then restart the store"
                )
                raise LogStopped(self.stop_reason)
        self._names_checked_to = position

    def close(self) -> None:
        """Stop the background work. Does not sync what is written."""
        self.prezero.close()
        self._limit = -1
        for segment in self.segments:
            segment.file.close()

    def _reserve_in_next_segment(self, size: int) -> int:
        if self.state is LogState.STOPPED:
            raise LogStopped(self.stop_reason)
        if size + BLANK_BYTES > self.settings.segment_bytes:
            raise RecordTooLarge(f"{size} bytes do not fit into a segment of {self.settings.segment_bytes}")
        start = self._tail.end if self._tail is not None else self.end
        segment = self._next_segment(start)
        self._close_run(start)
        self._begin_segment(segment)
        for record in self._preamble(start):
            self._place_preamble(record)
        if self.end + size > self._limit:
            raise RecordTooLarge(f"{size} bytes do not fit behind the preamble of segment {start}")
        return self.reserve(size)

    def _next_segment(self, start: int) -> Segment:
        """Return the segment at this position, made now if it was not made ahead. Raises LogStopped, DiskFull (NoDescriptorLeft)."""
        try:
            return self.prezero.take_spare(start)
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                raise NoDescriptorLeft(f"no descriptor for the next segment of {self.directory}") from error
            if error.errno in SPACE_ERRORS:
                self.mark_disk_full(full=True)
                raise DiskFull(f"no room for the next segment of {self.directory}") from error
            self._stop_on(error)
            raise LogStopped(self.stop_reason) from error

    def _begin_segment(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._tail = segment
        self.end = self._run_start = segment.start
        self._limit = segment.end - BLANK_BYTES
        self._unsynced_names = True

    def _close_run(self, segment_end: int) -> None:
        if self._tail is None:
            return
        self._batch.append(build_blank(segment_end - self.end))
        self._runs.append((self._tail, self._run_start, self._batch.copy()))
        self._batch.clear()

    def _place_preamble(self, record: bytes) -> None:
        if self.end + len(record) > self._limit:
            raise RecordTooLarge(f"the preamble does not fit into a segment of {self.settings.segment_bytes}")
        self._batch.append(record)
        self._on_preamble(self.end, record)
        self.end += len(record)

    # --- errors of the disk --------------------------------------------------------------------------------

    def _fail(self, error: OSError) -> None:
        if error.errno not in SPACE_ERRORS:
            self._stop_on(error)
            raise LogStopped(self.stop_reason) from error
        self._take_back()
        self.mark_disk_full(full=True)
        raise DiskFull(f"no room for {self.directory}: the batch was taken back") from error

    def _take_back(self) -> None:
        """Undo the open batch: memory and files are as after the last successful write."""
        made = [segment for segment in self.segments if segment.start >= self.written_end]
        with self._syncing:
            try:
                self.prezero.take_back(self._written_tail, self.written_end, made)
            except OSError as error:
                self._stop_on(error)
                raise LogStopped(self.stop_reason) from error
        self.segments = [segment for segment in self.segments if segment not in made]
        self._tail = self._written_tail
        self._runs.clear()
        self._batch.clear()
        self.end = self._run_start = self.written_end
        self._limit = self._tail.end - BLANK_BYTES if self._tail is not None else -1

    def mark_disk_full(self, *, full: bool) -> None:
        """Set whether sends are refused for lack of space. A stopped log stays stopped."""
        with self._lock:
            if self.state is not LogState.STOPPED:
                self.state = LogState.DISK_FULL if full else LogState.RUNNING

    def stop_on(self, error: OSError) -> None:
        """Stop for ever: another file of this store met an error after which the content of the disk is unknown."""
        self._stop_on(error)

    def stop_for(self, reason: str) -> None:
        """Stop for ever. The first reason is the one reported."""
        with self._lock:
            self.state = LogState.STOPPED
            self.stop_reason = self.stop_reason or reason
            self._limit = -1

    def _stop_on(self, error: OSError) -> None:
        self.stop_for(f"{error.strerror or error} on {error.filename or self.directory}")

    # --- shrinking -----------------------------------------------------------------------------------------

    @property
    def removable_end(self) -> int:
        """End of what retention may delete: a message that waits for its flush is not in its queue yet, a half does not hold its segment yet."""
        return self.visible_below

    def drop_first_segment(self) -> str:
        """Forget the oldest segment, never the tail. Returns its path; `remove_dropped` removes the file, where that may take time.

        Its readers finish undisturbed. After a crash before the removal it is deleted again.
        """
        first = self.segments[0]
        assert first.end <= self.removable_end
        assert first is not self._tail
        self.segments = self.segments[1:]
        self.min_position = self.segments[0].start
        self.dropped.append(first)
        return first.path

    def remove_dropped(self) -> str:
        """Remove the oldest file of forgotten segments durably; return its path, or nothing if there is none. Blocks: use a thread.

        With it back after a power cut, its units and keys would count as lost. The oldest goes first, or the next start would take
        those that are gone for damage. That it goes is noted before: otherwise the next start would take it for lost. Raises OSError; call
        again then.
        """
        with self._removing:
            if not self.dropped:
                return ""
            path = self.dropped[0].path
            self._confirm_file.note_deleted(self.dropped[0].end)
            self._files.remove(path)
            try:
                self._files.sync_dir(self.directory)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    self._stop_on(error)  # it may be the name of a new segment that is not durable
                raise
            return self.dropped.popleft().path

    def cut(self, end: int) -> None:
        """Leave nothing at or above this position. For recovery, before appends start.

        No crash leaves a gap, or a short file before another one.
        """
        for segment in reversed([segment for segment in self.segments if segment.start >= end]):
            segment.file.close()
            self._files.remove(segment.path)
        self.segments = [segment for segment in self.segments if segment.start < end]
        self._files.sync_dir(self.directory)
        if self.segments and end < self.segments[-1].end:
            cut_segment(self.segments[-1], end)
            self.segments[-1].file.sync()
