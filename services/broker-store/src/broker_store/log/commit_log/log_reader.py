"""Reads whole records by position, never above the visible end, and checks those of earlier runs."""

from bisect import bisect_right
from operator import attrgetter

from broker_store.log.commit_log.first_read import FirstReadCheck
from broker_store.log.commit_log.scan import record_size_at
from broker_store.log.commit_log.segment import Segment
from broker_store.log.errors import DamagedRecord, PositionNotVisible, PositionRemoved

_RECORD_HEAD_BYTES = 8
start_of = attrgetter("start")


class LogReader:
    """Reads from any thread. Its owner changes `segments` by replacing or extending the list."""

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments
        self.min_position: int = segments[0].start if segments else 0
        self.visible_end: int = self.min_position
        self.first_read = FirstReadCheck(self.min_position)

    def read(self, position: int, size: int) -> bytes:
        """Return whole records as stored. Raises PositionRemoved, PositionNotVisible, DamagedRecord; OSError.

        Place and size come from a record, or from a unit, which `unit_claims` checks: a damaged one may name other bytes.
        """
        segment = self._segment_to_read(position, size)
        if position + size > segment.end:
            first = segment.end - position
            return self.read(position, first) + self.read(segment.end, size - first)
        data = segment.file.pread(size, position - segment.start)
        if position < self.first_read.end:
            self.first_read.check(position, data)
        return data

    def read_nowait(self, position: int, size: int) -> bytes | None:
        """As `read`, but None when the bytes are not in the page cache: then read in a thread."""
        segment = self._segment_to_read(position, size)
        if position + size > segment.end:
            return None
        data = segment.file.pread_nowait(size, position - segment.start)
        if data is not None and position < self.first_read.end:
            self.first_read.check(position, data)
        return data

    def read_record(self, position: int) -> bytes:
        """Return the record at this position, of unknown size. Raises as `read`."""
        head = self.read_unchecked(position, _RECORD_HEAD_BYTES)
        size = record_size_at(head)
        if size == 0:
            raise DamagedRecord(position, "no record begins there")
        if position + size > self.visible_end:
            raise DamagedRecord(position, f"its size {size} reaches above the visible end")
        return self.read(position, size)

    def read_unchecked(self, position: int, size: int) -> bytes:
        """Return visible bytes of one segment without checks."""
        segment = self._segment_to_read(position, size)
        return segment.file.pread(size, position - segment.start)

    def segment_at(self, position: int) -> Segment | None:
        """Return the segment that holds this position."""
        segments = self.segments
        place = bisect_right(segments, position, key=start_of) - 1
        if place < 0 or position >= segments[place].end:
            return None
        return segments[place]

    def _segment_to_read(self, position: int, size: int) -> Segment:
        if position < self.min_position:
            raise PositionRemoved(f"position {position} is below the minimum {self.min_position}")
        if position + size > self.visible_end:
            raise PositionNotVisible(
                f"position {position} + {size} is above the visible end {self.visible_end}"
            )
        if size < 0:
            raise DamagedRecord(position, "what names it has a negative size")
        segments = self.segments
        segment = segments[-1]
        if position >= segment.start:
            return segment
        found = self.segment_at(position)
        if found is None:
            raise DamagedRecord(position, "its segment is missing")
        return found
