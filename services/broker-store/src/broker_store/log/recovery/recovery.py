"""Opens a log after any kind of end: checks its content, finds its end, cuts the rest, and reports what it found.

A generator in slices: checked data may be read between them. It passes every record from the starting point
on to the caller, which fills queues and index; doing so twice changes nothing. Below the confirm offset a
bad record is damage, reported as a hole. Above it the first bad record is the end of the log.
"""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

from broker_store.log.checkpoint.checkpoint import LastRun
from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.commit_log.scan import ScannedRecord, Stop, record_size_at, scan_records
from broker_store.log.commit_log.segment import Segment
from broker_store.log.consume_queues.consume_queue import ConsumeQueue
from broker_store.log.errors import LogUnreadable
from broker_store.log.recovery.resume import Leftovers, Resume, scan_one
from gantry_wire.records.message_record import BLANK

CHUNK_BYTES = 256 * 1024
"""Read and checked per slice: about a thousand records, a few milliseconds with the caller's work."""
_EVERYTHING = 1 << 62
_position_of = itemgetter(0)


@dataclass(frozen=True, slots=True)
class Found:
    """Whole, undamaged records in log order. `end` is where the last one ends."""

    records: list[ScannedRecord]
    end: int


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """Whole, undamaged records of a replica's log above what its disk knows as confirmed. They can be read until the walk ends."""

    records: list[ScannedRecord]


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes below the confirm offset without a readable record: damage has destroyed messages."""

    start: int
    end: int
    fault: str
    units: int
    """Queue units that pointed to records there and are holes now."""
    suspect: ScannedRecord | None
    """The first record's own fields, if only its body is damaged: leave a hole at its queue offset."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What followed the end of the log: unacknowledged leftovers of a crash, now zeroed."""

    position: int
    size: int
    fault: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """The log is open for appends. Everything below `end` is durable."""

    start: int
    end: int
    holes: int


Event: TypeAlias = Found | Unconfirmed | Hole | Cut | Recovered


class Recovery:
    """One opening of a log. `start` is fixed at construction; load the queues with `load_queue`, then call `run`.

    With `rebuild` everything is walked from the first record on, and all units are made again.
    `is_preamble` recognizes the first records of a segment: an unconfirmed segment that holds no others may
    lack some of them and is dropped. `records_together` returns from a record's properties how many
    records, from it on, were written as one: an unconfirmed tail that lacks some of them is cut before the
    first. The queue files are complete below `units_from`, if that is not the start: the caller has the
    rest and adds it after `load_queue`. In a log that another program wrote last, the walk begins there at the
    latest, and at least the records of the last `again_ms` are walked: the caller keeps of them what no file has.

    With `confirms_end` false the log is that of a replica, whose leader may still cut what lies above the confirm offset. That is checked,
    but neither replayed nor shown: it is replayed as the group confirms it (`ContinuedWalk`), from `replayed_end` on.
    """

    def __init__(
        self,
        log: CommitLog,
        last: LastRun,
        *,
        rebuild: bool = False,
        is_preamble: Callable[[ScannedRecord], bool] = lambda _: False,
        records_together: Callable[[bytes], int] = lambda _: 1,
        units_from: int = -1,
        again_ms: int = 0,
        confirms_end: bool = True,
    ) -> None:
        self._log = log
        self._confirms_end = confirms_end
        self._again_ms = again_ms
        self._is_preamble = is_preamble
        self._records_together = records_together
        self._last = last
        # a lost abort file alone makes a crash of ours a foreign clean stop
        self.is_crash = rebuild or not last.is_clean or bool(last.foreign)
        self.confirm = last.confirm
        self._units_from = units_from
        self.start = log.min_position if rebuild else self._find_start()
        self.replayed_end = self.start
        """The records below were found. The end of the log, unless the confirm offset bounds it."""
        self._units_end = self.start if units_from < 0 else min(self.start, units_from)
        if not log.segments and not log.is_begin_known:
            log.begin_at(self.start)
        self._queues: list[ConsumeQueue] = []
        self._leftovers = Leftovers()
        self._reserved: dict[
            ConsumeQueue, int
        ] = {}  # lowest next offset of queues whose last records were lost
        self._holes = 0

    @property
    def target(self) -> int:
        """Lowest end of the walk, to show progress."""
        return max(self.confirm, self.start)

    def load_queue(self, queue: ConsumeQueue) -> None:
        """Open a queue with the units of records below the start; after a clean stop of ours with all."""
        if self.is_crash:
            leftover = queue.load(self._log.min_position, self._units_end, self._is_unit_proven)
            self._leftovers.add(queue, queue.max_offset, leftover)
        else:
            queue.load(self._log.min_position, _EVERYTHING)
        self._queues.append(queue)

    def know(self, queue: ConsumeQueue) -> None:
        """Include a queue that has no files yet: damage makes holes in it too."""
        self._queues.append(queue)

    def run(self) -> Generator[Event, None, None]:
        """Walk, cut, sync, and leave the log ready. Raises LogUnreadable when the disk fails."""
        log = self._log
        if self.is_crash:
            self._reread()
        for start, end in self._missing_below_start():
            yield Hole(start, end, "its segment is missing", self._leave_hole(start, end), None)
        log.show(self.start)
        end, fault = yield from self._walk()
        dropped = self._drop_above(end)
        if dropped:
            yield Cut(end, dropped, fault)
        self._sync_kept(end)
        if not self.is_crash and dropped:
            for queue in self._queues:
                queue.truncate_to_position(end)
        for queue, next_offset in self._reserved.items():
            queue.start_at(next_offset)
        if self._confirms_end:
            log.start_at(end, min(end, self.confirm))
            log.set_confirm(end)
        else:
            log.start_at(end, min(end, self.target))
            log.hide_above(self.replayed_end)
        yield Recovered(self.start, end, self._holes)

    # --- where to begin ------------------------------------------------------------------------------------

    def _find_start(self) -> int:
        log, last = self._log, self._last
        if not last.foreign and last.position is not None:
            return max(last.position, log.min_position)
        if not log.segments:
            return log.min_position
        third_last = log.segments[max(len(log.segments) - 3, 0)].start
        start = third_last if last.is_clean else self._start_by_times()
        for known in (last.position, self._units_from):
            if known is not None and known >= 0:
                segment = log.segment_at(known)
                start = min(start, segment.start if segment else log.min_position)
        return min(start, self._start_of_last(self._again_ms)) if self._again_ms else start

    def _start_of_last(self, span_ms: int) -> int:
        """Return the start of the newest segment whose first record is this much older than that of the last one."""
        newest_ms: int | None = None
        for segment in reversed(self._log.segments):
            first = scan_one(segment, segment.start)
            if first is None:
                continue
            newest_ms = first[5] if newest_ms is None else newest_ms
            if first[5] <= newest_ms - span_ms:
                return segment.start
        return self._log.min_position

    def _start_by_times(self) -> int:
        """Return the start as RocketMQ does: the newest segment whose first record is older than the checkpoint."""
        safe_ms = self._last.times.safe_ms
        for segment in reversed(self._log.segments):
            first = scan_one(segment, segment.start)
            if first is not None and 0 < first[5] <= safe_ms:
                return segment.start
        return self._log.min_position

    def _is_unit_proven(self, position: int, size: int, offset: int) -> bool:
        segment = self._log.segment_at(position)
        if segment is None:
            segments = self._log.segments  # what is before them was deleted or lost: nothing to compare with
            return not segments or position < segments[0].start
        found = scan_one(segment, position)
        return found is not None and found[1] == size and found[3] == offset

    def _missing_below_start(self) -> list[tuple[int, int]]:
        """Return the stretches below the start whose segments are missing though retention did not remove them."""
        segments = [segment for segment in self._log.segments if segment.start < self.start]
        ends = [self._log.min_position, *(segment.end for segment in segments)]
        starts = [*(segment.start for segment in segments), self.start]
        return [(end, start) for end, start in zip(ends, starts, strict=True) if end < start]

    # --- walking -------------------------------------------------------------------------------------------

    def _reread(self) -> None:
        """Make sure that the check reads what the device holds, not the page cache.

        After a failed flush the page cache holds bytes that the device does not.
        """
        reread_from = max(
            self.confirm, self.start
        )  # what is confirmed was durable when the earlier run recorded it
        for segment in self._log.segments:
            if segment.end > min(self.confirm, self.start):
                try:
                    segment.file.sync()
                except OSError as error:
                    fault = f"{segment.path}: the disk does not take its bytes ({error}): check the disk"
                    raise LogUnreadable(fault) from error
                within = max(reread_from - segment.start, 0)
                if within < segment.end - segment.start:
                    segment.file.drop_cached(within, segment.end - segment.start - within)

    def _walk(self) -> Generator[Event, None, tuple[int, str]]:
        """Yield what is found from the start on. Returns where the log ends and what is wrong there."""
        log, position = self._log, self.start
        resume = Resume(log, self.confirm, self._queues, self._leftovers)
        # What may still be incomplete: the preamble of a segment without more, or records that belong
        # together.
        held: list[ScannedRecord] = []
        held_fault = ""
        while True:
            segment = log.segment_at(position)
            if segment is None:
                stop, fault = Stop.BAD, "its segment is missing"
            else:
                found, held = held, []
                position, stop, fault = walk_slice(segment, position, found)
                if found and self._is_only_preamble(segment, found):
                    held, held_fault = found, "the preamble of its segment is incomplete"
                elif found:
                    whole = self._whole(found)
                    if whole and self._is_only_preamble(segment, found[:whole]):
                        whole = 0  # the next start would drop it, and must end the log where this one does
                    held, held_fault = found[whole:], "records that belong together are incomplete"
                    if whole:
                        yield from self._take(found[:whole], held[0][0] if held else position)
            if stop in (Stop.MORE, Stop.BLANK):
                continue
            if position >= self.confirm:
                return (held[0][0], held_fault) if held else (position, fault)
            suspect, bad = resume.suspect(position), position
            position = resume.after(bad)
            yield Hole(bad, position, fault, self._leave_hole(bad, position), suspect)

    def _is_only_preamble(self, segment: Segment, found: list[ScannedRecord]) -> bool:
        return (
            self.confirm <= segment.start == found[0][0]
            and self._is_preamble(found[-1])
            and all(map(self._is_preamble, found))
        )

    def _whole(self, found: list[ScannedRecord]) -> int:
        """Return how many of these records are complete with all that belong to them. Above the confirm offset only."""
        if found[-1][0] < self.confirm:
            return len(found)
        at = bisect_left(found, self.confirm, key=_position_of)
        while at < len(found):
            together = self._records_together(found[at][8])
            if at + together > len(found):
                return at
            at += together
        return len(found)

    def _take(self, found: list[ScannedRecord], position: int) -> Iterator[Found | Unconfirmed]:
        self._log.first_read.trust(found[0][0], found[-1][0] + found[-1][1])
        self._log.show(position)
        if not self._confirms_end and position > self.target:
            yield Unconfirmed([record for record in found if record[0] + record[1] > self.target])
            found = [record for record in found if record[0] + record[1] <= self.target]
            position = min(position, self.target)
        if found:
            self.replayed_end = position if self._confirms_end else found[-1][0] + found[-1][1]
            yield Found(found, position)

    def _leave_hole(self, start: int, end: int) -> int:
        self._holes += 1
        units = sum(queue.punch(start, end) for queue in self._queues)
        for queue, offset in self._leftovers.offsets_used(start, end).items():
            self._reserved[queue] = offset
        self._log.show(end)
        self.replayed_end = max(self.replayed_end, end)
        return units

    # --- the end -------------------------------------------------------------------------------------------

    def _drop_above(self, end: int) -> int:
        """Zero what lies at or above the end. Returns how many nonzero bytes there were."""
        above = [segment for segment in self._log.segments if segment.end > end]
        dropped = sum(_used_bytes(segment, max(end, segment.start)) for segment in above)
        if dropped or any(segment.start >= end for segment in above):
            self._log.cut(end)
        return dropped

    def _sync_kept(self, end: int) -> None:
        for segment in self._log.segments:
            if segment.start < end and segment.end > self.start:
                segment.file.sync()


def walk_slice(segment: Segment, position: int, found: list[ScannedRecord]) -> tuple[int, Stop, str]:
    """Check about one chunk. Returns the new position, which is in the next segment after a blank, why it ended, and what is wrong there."""
    left = segment.end - position
    chunk = _read(segment, position, min(CHUNK_BYTES, left))
    at, stop, fault = scan_records(chunk, position, 0, found)
    if stop is Stop.MORE and at == 0:
        size = record_size_at(chunk[: BLANK.size].ljust(BLANK.size, b"\0"))
        if not len(chunk) < size <= left:
            return position, Stop.BAD, "it is cut short"
        at, stop, fault = scan_records(_read(segment, position, size), position, 0, found)
        if at == 0:
            return position, Stop.BAD, fault or "it is cut short"
    if stop is Stop.BLANK:
        if BLANK.unpack_from(chunk, at)[0] != left - at:
            return position + at, Stop.BAD, "it is a blank of the wrong size"
        return segment.end, Stop.BLANK, ""
    return position + at, stop, fault


def _read(segment: Segment, position: int, size: int) -> bytes:
    """Read, or return what can be read before the first block that the device refuses."""
    try:
        return segment.file.pread(size, position - segment.start)
    except OSError:
        return b"" if size <= BLANK.size else _read(segment, position, size // 2)


def _used_bytes(segment: Segment, start: int) -> int:
    """Return how far above the start this segment holds other bytes than zeros."""
    used = start
    at = segment.file.next_data(start - segment.start)
    while at is not None and segment.start + at < segment.end:
        data = segment.file.pread(min(CHUNK_BYTES, segment.end - segment.start - at), at)
        kept = len(data.rstrip(b"\0"))
        if kept:
            used = segment.start + at + kept
        at = segment.file.next_data(at + len(data))
    return used - start
