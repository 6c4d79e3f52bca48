"""The CommitLog of a replica: takes its leader's bytes at their positions, can be cut, and gives its own bytes to followers.

Positions and files are the same in all replicas of a group: segments end at the same places, with the leader's blank. What follows a blank's
eight bytes is zeros and is not shipped. A log ends only where recovery would not shorten it: behind whole records, never between records that were
written as one (`Runs.together`), and not behind a segment's preamble alone.

Retention deletes the beginning, and never all that is confirmed: the first segment always holds something below the confirm offset, so that no
cut leaves a log without a segment. A log without one begins where the replica's kept file says.

A leader appends with `reserve`, `put` and `write`, a follower with `append_shipped`: never both in one life, but a follower that takes over.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker_store.log.commit_log.commit_log import CommitLog, ConfirmFile, LogState
from broker_store.log.commit_log.log_reader import start_of
from broker_store.log.commit_log.met_damage import note_damage
from broker_store.log.commit_log.scan import ScannedRecord, Stop, record_size_at, scan_records
from broker_store.log.commit_log.segment import Segment, cut_segment, open_segment
from broker_store.log.errors import (
    DamagedRecord,
    DiskFull,
    LogError,
    LogStopped,
    LogUnreadable,
    PositionNotVisible,
    PositionRemoved,
)  # fmt: skip
from broker_store.log.files.files import Data, Files
from broker_store.log.files.names import file_name, parse_file_name
from broker_store.log.settings import BLANK_BYTES, LogSettings
from broker_store.replication.frames import SHIPMENT_BYTES_MAX
from broker_store.replication.fresh_bytes import FreshBytes, Piece
from broker_store.replication.repair_pieces import is_whole, pieces_of, write_piece
from gantry_wire.records.message_record import BLANK, MAGIC_BLANK, build_blank

DAMAGED_MAX = 64
UNNAMED = "missing.tmp"
"""In the directory of segments: one that has no name yet."""


class ShipmentMisfit(LogError):
    """The leader's bytes do not fit the segments of this log. Stores of a group need the same mappedFileSizeCommitLog: end this process."""


class CutBelowConfirm(LogError):
    """A cut would remove what is confirmed. The leader is not of this group, or the logs were mixed up: end this process, keep both logs."""


class Runs(NamedTuple):
    """Which records belong together, as recovery knows them."""

    together: Callable[[bytes], int]
    """Returns from a record's properties how many records, from it on, were written as one."""
    is_preamble: Callable[[ScannedRecord], bool]
    """Recognizes the first records of a segment."""


class Repaired(NamedTuple):
    """What a repair has written."""

    end: int
    """End of the last whole record that it was given. Where it began: what it was given is too short for one."""
    records: int
    """How many it replaced."""
    is_all: bool
    """It was given all that is confirmed, or all of the segment."""


class ReplicaPart(NamedTuple):
    """What the log of a replica needs beyond that of a single store."""

    runs: Runs
    fresh_bytes_max: int
    """Bytes of the newest writes that stay in memory for followers."""
    begin: int
    """Where a log without segments begins (`Kept.begin`)."""


class ReplicaLog(CommitLog):
    """See `CommitLog`."""

    def __init__(
        self,
        files: Files,
        directory: str,
        settings: LogSettings,
        preamble: Callable[[int], Sequence[bytes]],
        on_preamble: Callable[[int, bytes], None],
        confirm_file: ConfirmFile,
        part: ReplicaPart,
    ) -> None:
        """Open the segments. Raises LogUnreadable when they are of another log."""
        runs, fresh_bytes_max, begin = part
        assert (
            fresh_bytes_max <= SHIPMENT_BYTES_MAX
        )  # a write with more runs is read from the files, run by run
        super().__init__(files, directory, settings, preamble, on_preamble, confirm_file)
        if not self.segments:
            self.begin_at(begin)
            self.end = self.written_end = self.durable_end = self._run_start = begin
            self.visible_end = self.visible_below = self.first_read.end = begin
        if self.min_position < begin:
            raise LogUnreadable(
                f"{directory} begins at {self.min_position}, and the log of this replica at {begin}: the files are of another log,"
                " put its own back; or set mappedFileSizeCommitLog to that of the leader"
            )
        self.fresh = FreshBytes(fresh_bytes_max, settings.segment_bytes)
        self.cuts = 0
        """How often the log was cut. A sync that began before a cut reports nothing after it: compare this."""
        self.shippable_end = self.written_end
        """Everything below is written and may be shipped."""
        self.damaged: deque[int] = deque(maxlen=DAMAGED_MAX)
        """Positions at which readers met damage, from any thread."""
        self._log_runs = runs
        self._preamble_end = -1
        self._held: Piece | None = None
        self._cutting = threading.Lock()
        """While a thread cuts, the loop deletes nothing: both replace the list of segments."""

    def start_at(self, end: int, confirm: int) -> None:
        """See `CommitLog.start_at`."""
        super().start_at(end, confirm)
        self.shippable_end = end

    # --- a leader's bytes ----------------------------------------------------------------------------------

    def write(self) -> None:
        """See `CommitLog.write`; keep the bytes for followers."""
        if not self._batch:
            return
        pieces = self._pieces()
        super().write()
        for piece in pieces:
            self._keep(piece)

    def _pieces(self) -> list[Piece]:
        """Return the open batch by segment. Its buffers are joined: they may change after the write."""
        pieces = [
            Piece(position, b"".join(buffers), segment.end) for segment, position, buffers in self._runs
        ]
        data = b"".join(self._batch)
        self._batch[:] = [data]
        return [*pieces, Piece(self._run_start, data, self.end)]

    def _keep(self, piece: Piece) -> None:
        held, self._held = self._held, None
        if held is not None:
            piece = Piece(held.position, held.data + piece.data, piece.end)
        if piece.end == self._preamble_end:
            self._held = piece  # nothing was written behind a preamble
            return
        self.fresh.add(piece)
        self.shippable_end = piece.end

    def _place_preamble(self, record: bytes) -> None:
        super()._place_preamble(record)
        self._preamble_end = self.end

    def read_runs(self, position: int, bytes_max: int) -> Piece:
        """Return whole runs of records from the files, of about `bytes_max` bytes; more, if a single run is larger. Blocks: use a thread.

        `position` is an end that this log or a copy of it had. Raises PositionRemoved, PositionNotVisible; DamagedRecord if the file does not
        hold what was written: it is never shipped. OSError.
        """
        limit = self.shippable_end
        segment = self.segment_at(position)
        if position >= limit:
            raise PositionNotVisible(f"position {position} is not below {limit}")
        if segment is None:
            raise PositionRemoved(f"no segment holds position {position}")
        room = min(limit, segment.end) - position
        size = min(bytes_max, room)
        while True:
            data = segment.file.pread(size, position - segment.start)
            piece = self._whole_runs(segment, position, data, is_all=size == room)
            if piece is not None:
                return piece
            if size == room or size >= SHIPMENT_BYTES_MAX:
                raise DamagedRecord(position, f"no run of records ends within {size} bytes")
            size = min(2 * size + BLANK_BYTES, room, SHIPMENT_BYTES_MAX)

    def read_to_ship(self, position: int, bytes_max: int) -> Piece:
        """As `read_runs`; what was read of a full segment leaves the page cache. What is not synced yet stays."""
        piece = self.read_runs(position, bytes_max)
        segment = self.segment_at(position)
        if segment is not None and segment.end <= min(self.durable_end, self.shippable_end):
            segment.file.drop_cached(position - segment.start, len(piece.data))
        return piece

    def _whole_runs(self, segment: Segment, position: int, data: bytes, *, is_all: bool) -> Piece | None:
        found: list[ScannedRecord] = []
        at, stop, fault = scan_records(data, position, 0, found)
        if stop is Stop.BLANK and BLANK.unpack_from(data, at) == (segment.end - position - at, MAGIC_BLANK):
            return Piece(position, data[: at + BLANK_BYTES], segment.end)
        whole = self._end_of_runs(segment, position, found)
        if stop is Stop.MORE and is_all and at == len(data):
            whole = position + at  # the log ends there: with a preamble alone, too
        if whole > position:
            return Piece(position, data[: whole - position], whole)
        if stop is not Stop.MORE:
            raise DamagedRecord(position + at, fault or "it is a blank of the wrong size")
        return None

    def _end_of_runs(self, segment: Segment, position: int, found: list[ScannedRecord]) -> int:
        """Return where the last whole run ends, `position` if there is none."""
        number, end, count = 0, position, len(found)
        is_preamble = position == segment.start
        while number < count:
            number += self._log_runs.together(found[number][8])
            if number > count:
                break
            last = found[number - 1]
            is_preamble = is_preamble and self._log_runs.is_preamble(last)
            if not is_preamble:
                end = last[0] + last[1]
        return end

    # --- repair --------------------------------------------------------------------------------------------

    def read(self, position: int, size: int) -> bytes:
        """See `LogReader.read`; note damage."""
        try:
            return super().read(position, size)
        except DamagedRecord as damage:
            self._note(damage)
            raise

    def read_nowait(self, position: int, size: int) -> bytes | None:
        """See `LogReader.read_nowait`; note damage."""
        try:
            return super().read_nowait(position, size)
        except DamagedRecord as damage:
            self._note(damage)
            raise

    def read_record(self, position: int) -> bytes:
        """See `LogReader.read_record`; note damage of the head for the work that reads. A client may name a position where no record begins."""
        try:
            return super().read_record(position)
        except DamagedRecord as damage:
            note_damage(damage.position)
            raise

    def _note(self, damage: DamagedRecord) -> None:
        self.damaged.append(damage.position)
        note_damage(damage.position)

    def read_confirmed(self, position: int, size: int) -> bytes:
        """Return up to `size` confirmed and durable bytes of one segment, unchecked. Raises PositionRemoved, PositionNotVisible, OSError."""
        limit = min(self.confirm, self.durable_end)
        segment = self.segment_at(position)
        if position >= limit:
            raise PositionNotVisible(f"position {position} is not below {limit}")
        if segment is None:
            raise PositionRemoved(f"no segment holds position {position}")
        return segment.file.pread(min(size, min(limit, segment.end) - position), position - segment.start)

    def repair(self, position: int, data: bytes) -> Repaired:
        """Write the records of another replica over those that fail their check here, from the start of a record on, durably.

        Nothing at or above the confirm offset, and nothing that is whole here. After a crash in the middle the record is damaged, as before.
        Raises DamagedRecord if `data` begins with no record of this position, PositionRemoved, DiskFull, LogStopped. Blocks: use a thread.
        """
        segment = self.segment_at(position)
        if segment is None:
            raise PositionRemoved(f"no segment holds position {position}")
        limit = min(self.confirm, segment.end)
        data = data[: max(limit - position, 0)]
        pieces = pieces_of(data, position, segment.end)
        with self._syncing:
            if self.state is LogState.STOPPED:
                raise LogStopped(self.stop_reason)
            damaged = [(start, size) for start, size in pieces if not is_whole(segment, start, size)]
            try:
                for start, size in damaged:
                    write_piece(segment, start, data[start - position : start - position + size])
                if damaged:
                    segment.file.sync()
            except DiskFull:
                raise
            except OSError as error:
                self._stop_on(error)
                raise LogStopped(self.stop_reason) from error
        end = sum(pieces[-1]) if pieces else position
        return Repaired(end, len(damaged), end >= limit or end == segment.end - BLANK_BYTES)

    def make_missing_segments(self) -> list[Segment]:
        """Make the files of segments that lie between others and are missing, full of zeros; return them. Blocks: use a thread.

        Each gets its name when it has its size: a start refuses a short one. Pass them to `add_segments`. Raises OSError.
        """
        size = self.settings.segment_bytes
        known = {segment.start for segment in self.segments}
        first, end = self.min_position - self.min_position % size, self.written_end
        made: list[Segment] = []
        for start in range(first, end, size):
            if start in known:
                continue
            path, unnamed = f"{self.directory}/{file_name(start)}", f"{self.directory}/{UNNAMED}"
            self._files.remove(unnamed)
            file = self._files.open(unnamed, create_bytes=size)
            file.sync()
            file.close()
            self._files.rename(unnamed, path)
            made.append(open_segment(self._files, self.directory, start, size))
        if made:
            self._files.sync_dir(self.directory)
        return made

    def add_segments(self, made: list[Segment]) -> None:
        """Hold segments that `make_missing_segments` made. Call it in the loop, before anything appends, cuts or deletes."""
        self.segments = sorted([*self.segments, *made], key=start_of)

    # --- retention -----------------------------------------------------------------------------------------

    @property
    def removable_end(self) -> int:
        """See `CommitLog.removable_end`; the first segment keeps something that is confirmed."""
        return min(super().removable_end, self.confirm - 1)

    def drop_below(self, position: int) -> int:
        """Forget the first segments of a follower's log that end at or below this position, and below the confirm offset; return how many.

        Call it in the loop. None while a thread cuts: call again later. `remove_dropped` removes their files.
        """
        if not self._cutting.acquire(blocking=False):
            return 0
        try:
            limit = min(position, self.confirm - 1)
            dropped = [segment for segment in self.segments if segment.end <= limit]
            assert self._tail not in dropped
            if dropped:
                self.segments = self.segments[len(dropped) :]
                self.min_position = self.segments[0].start
                self.dropped.extend(dropped)
        finally:
            self._cutting.release()
        return len(dropped)

    # --- a follower's log ----------------------------------------------------------------------------------

    def append_shipped(self, position: int, end: int, data: Data) -> None:
        """Write the leader's bytes at `position`, the end of this log, which then ends at `end`. `sync` makes them durable.

        Raises ShipmentMisfit; DiskFull, which takes all of it back; LogStopped.
        """
        if self.state is LogState.STOPPED:
            raise LogStopped(self.stop_reason)
        assert position == self.end == self.written_end
        assert not self._batch
        self._check_fit(position, end, data)
        if self._tail is None:
            self._begin_segment(self._next_segment(position))
        self._batch.append(data)
        self.end = position + len(data)
        super().write()
        if end % self.settings.segment_bytes == 0:
            self._end_segment(end)
        self.shippable_end = end

    def _check_fit(self, position: int, end: int, data: Data) -> None:
        segment_bytes = self.settings.segment_bytes
        segment_end = position - position % segment_bytes + segment_bytes
        data_end = position + len(data)
        if end == data_end <= segment_end - BLANK_BYTES and record_size_at(bytes(data[:BLANK_BYTES])):
            return
        blank_start = data_end - BLANK_BYTES
        is_blank = blank_start >= position and bytes(data[-BLANK_BYTES:]) == build_blank(
            segment_end - blank_start
        )
        if not (end == segment_end and is_blank):
            raise ShipmentMisfit(
                f"{len(data)} bytes from {position} to {end} do not fit a segment of {segment_bytes} that ends at {segment_end}"
            )

    def _end_segment(self, end: int) -> None:
        """Continue behind a segment whose blank is written."""
        with self._lock:
            self.written_end = end
        self.end = self._run_start = end
        self._tail = self._written_tail = None
        self._limit = -1

    def cut_back(self, end: int) -> None:
        """Leave nothing at or above this position, durably. Blocks: use a thread, while nothing else appends.

        It waits for a running sync; none that began before reports a position above the cut. After a crash in the middle the log is uncut,
        cut, or cut at a later place: always a beginning of what it was. Raises CutBelowConfirm, LogStopped.

        What readers could see stays: a follower shows what its group has confirmed, which its own confirm offset may not note yet.
        """
        if end < max(self.confirm, self.visible_end, self.min_position):
            raise CutBelowConfirm(
                f"a cut at {end} is below the confirm offset {self.confirm}, the end of what was shown {self.visible_end}"
                f" or the first position {self.min_position} of {self.directory}"
            )
        with self._cutting, self._syncing:
            if self.state is LogState.STOPPED:
                raise LogStopped(self.stop_reason)
            assert not self._batch
            try:
                self._cut_files(end)
            except OSError as error:
                self._stop_on(error)
                raise LogStopped(self.stop_reason) from error
            self._end_at(end)

    def _cut_files(self, end: int) -> None:
        """Remove files from the last one down, so that no crash leaves a gap, then zero the rest of the last one that stays."""
        self.prezero.forget()
        kept = [segment for segment in self.segments if segment.start < end]
        removed = [segment for segment in self.segments if segment.start >= end]
        self.segments = kept
        for segment in removed:
            segment.file.close()
        starts = [
            start
            for name in self._files.listdir(self.directory)
            if (start := parse_file_name(name)) is not None
        ]
        for start in sorted((start for start in starts if start >= end), reverse=True):
            self._files.remove(f"{self.directory}/{file_name(start)}")
        self._files.sync_dir(
            self.directory
        )  # a file that is cut is short for a moment, and only the last one may be
        if kept and end < kept[-1].end:
            cut_segment(kept[-1], end)
        for segment in kept:
            if segment in self._unsynced or segment is kept[-1]:
                segment.file.sync()

    def _end_at(self, end: int) -> None:
        tail = self.segments[-1] if self.segments and end < self.segments[-1].end else None
        with self._lock:
            self._unsynced.clear()
            self._unsynced_names = False
            self.written_end = end
        self.cuts += 1
        self.end = self.durable_end = self._run_start = self.shippable_end = end
        self.first_read.end = min(self.first_read.end, end)
        self._names_checked_to = min(self._names_checked_to, end)
        self._tail = self._written_tail = tail
        self._limit = -1
        if tail is not None:
            self._limit = tail.end - BLANK_BYTES
            self.prezero.follow(tail, end)
