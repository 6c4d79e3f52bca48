"""Finds record boundaries in a log: by walking from a queue's unit, proven by its record, else by searching the log.

A unit is the broker's own statement of a record's place. The log alone can be forged: any body may contain what looks like
a record.
"""

from __future__ import annotations

import os
from typing import Final

from gantry_spark.decode.segments import boundary_after, next_record
from gantry_spark.store import files as store_files
from gantry_spark.store.files import QueueFiles, SegmentFile, Unit
from gantry_spark.store.snapshot import StoreView
from gantry_spark.store.tail import segment_at
from gantry_wire.errors import MalformedRecord
from gantry_wire.records.message_record import RECORD_HEAD, Record, decode_record, peek_header

QUEUES_ASKED: Final = 64
"""The number of longest queues searched for a unit near a position: together they cover most records, and each search costs a quarter of a
millisecond; a search of the log costs 250."""
NEAR_BYTES: Final = 4 * 1024 * 1024
"""Walking from a unit further away takes as long as a search."""
CLOCK_STEP_MS: Final = 60_000
"""Store times never go back in an intact log; a clock that was set back by less than this hides no record from a search by time."""


class Boundaries:
    """Boundaries in one store's view. Reads a few records and units per question."""

    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._queues: list[tuple[QueueFiles, int, int]] | None = None
        self._bases = {segment.base for segment in view.segments}

    def at_or_above(self, position: int) -> int:
        """Return the first proven boundary at or above a position; the end of the view if there is none."""
        view = self._view
        if position <= view.min_position:
            return view.min_position
        while position < view.end_position and position not in self._bases:
            segment = segment_at(view.segments, position)
            if segment is None:  # a missing segment: the next existing one begins with a record
                return min((base for base in self._bases if base > position), default=view.end_position)
            stop = min(segment.base + segment.size, view.end_position)
            found = self._walked(segment, position, stop)
            if found is None:
                found = next_record(segment.path, segment.base, position, stop)
            if found < stop:
                return found
            position = stop
        return min(position, view.end_position)

    def is_record(self, position: int) -> bool:
        """Whether a record begins at a position, even a damaged one that a queue names."""
        return self._record(position) is not None or self.at_or_above(position) == position

    def around_time(self, from_ms: int | None, below_ms: int | None) -> tuple[int, int]:
        """Return positions between which all records are that a store took in [from_ms, below_ms), None = without bound."""
        low, high = self._view.min_position, self._view.end_position
        if from_ms is not None:
            low = self._search_time(from_ms - CLOCK_STEP_MS)[0]
        if below_ms is not None:
            high = self._search_time(below_ms + CLOCK_STEP_MS)[1]
        return low, max(low, high)

    def around_offsets(
        self, queues: list[tuple[str, int]], from_offset: int, below_offset: int | None
    ) -> tuple[int, int]:
        """Return positions between which all records of these queues with offsets in a range are, as far as units show."""
        lows: list[int] = []
        highs: list[int] = []
        for queue, first, end in self._all_queues():
            if (queue.topic, queue.queue_id) in queues:
                lows.append(self._of_offset(queue, first, end, from_offset, self._view.end_position))
                behind = end if below_offset is None else below_offset
                highs.append(
                    self._view.end_position
                    if behind >= end
                    else self._of_offset(queue, first, end, behind, self._view.end_position)
                )
        known = {(queue.topic, queue.queue_id) for queue, _, _ in self._all_queues()}
        if not set(queues) <= known:  # newer than the files of queues: its records may be anywhere
            return self._view.min_position, self._view.end_position
        low = min(lows, default=self._view.end_position)
        return low, max([low, *highs])

    def _of_offset(self, queue: QueueFiles, first: int, end: int, offset: int, otherwise: int) -> int:
        """Return the position of the first record of a queue at or above an offset. An offset beyond the files may be in the tail."""
        offset = max(offset, first)
        while offset < end:
            unit = queue.unit(offset)
            if unit is not None and not unit.is_hole:
                return max(unit.position, self._view.min_position)
            offset += 1
        newest = queue.unit(end - 1) if end > first else None
        return min(
            otherwise,
            newest.position if newest is not None and not newest.is_hole else self._view.min_position,
        )

    def store_time(self, position: int) -> int | None:
        """Return the store time (ms) of the record at a boundary, None if it is unreadable."""
        record = self._record(position)
        return record.store_timestamp if record else None

    def _search_time(self, time_ms: int) -> tuple[int, int]:
        """Return close boundaries (low, high): records below low are older than a time, those from high on are not."""
        low, high = self._view.min_position, self._view.end_position
        while high - low > NEAR_BYTES:
            middle = self.at_or_above((low + high) // 2)
            found = self.store_time(middle) if middle < high else None
            if found is None:
                break
            low, high = (middle, high) if found < time_ms else (low, middle)
        return low, high

    # --- units -----------------------------------------------------------------------------------------------

    def _all_queues(self) -> list[tuple[QueueFiles, int, int]]:
        """Return the queues with their lowest and next offsets from their files, the longest first."""
        if self._queues is None:
            found: list[tuple[QueueFiles, int, int]] = []
            for queue in store_files.queues(self._view.directory):
                bounds = self._view.queues.get((queue.topic, queue.queue_id))
                first = queue.first_named() if bounds is None else max(bounds[0], queue.firsts[0])
                found.append((queue, first, queue.end_written(first)))
            self._queues = sorted(found, key=lambda entry: entry[1] - entry[2])
        return self._queues

    def _walked(self, segment: SegmentFile, position: int, stop: int) -> int | None:
        """Return the first boundary at or above a position, `stop` if there is none before; None if this way cannot find it.

        A unit above the position is not enough: no queue says which records of other queues precede it.
        """
        low = max(segment.base, self._view.min_position)
        best = low if position - low <= NEAR_BYTES else None
        for queue, first, end in self._all_queues()[:QUEUES_ASKED]:
            offset = queue.first_at_or_above(position + 1, first, end) - 1
            unit = queue.unit(offset) if offset >= first else None
            if (
                unit is None
                or unit.is_hole
                or unit.position <= (position - NEAR_BYTES if best is None else best)
            ):
                continue
            if unit.position >= low and self._proves(unit, queue, offset):
                best = unit.position
        return None if best is None else boundary_after(segment.path, segment.base, best, position, stop)

    def _proves(self, unit: Unit, queue: QueueFiles, offset: int) -> bool:
        record = self._record(unit.position)
        return (
            record is not None
            and record.size == unit.size
            and record.queue_offset == offset
            and record.queue_id == queue.queue_id
            and record.topic == queue.topic.encode()
        )

    def _record(self, position: int) -> Record | None:
        segment = segment_at(self._view.segments, position)
        if segment is None:
            return None
        descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            head = os.pread(descriptor, RECORD_HEAD.size, position - segment.base)
            size = peek_header(head).size
            record = decode_record(
                os.pread(
                    descriptor, max(0, min(size, self._view.end_position - position)), position - segment.base
                ),
                check_crc=False,
            )
        except MalformedRecord:
            return None
        finally:
            os.close(descriptor)
        return record if record.position == position else None
