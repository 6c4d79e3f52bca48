"""Proves record boundaries without a walk: after damage, and for places where a segment may be split.

A record names its own position, but a body may contain records that name theirs: magic and position alone prove nothing.
After damage, strongest first: the size of the damaged record, or the sizes of its parts, if a record follows right there;
else a chain of records. To split a segment: a record that no earlier record covers, and that begins a chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from struct import Struct
from typing import Final

import numpy as np

from gantry_spark.decode.boundaries import RECORD_BYTES_LIMIT, SLACK_BYTES, candidates
from gantry_wire.records.message_record import (
    BLANK,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    RECORD_HEAD,
    RecordHead,
)

CHAIN_RECORDS: Final = 8
"""A chain of this length is accepted if nothing nearer ends it; the store's recovery requires the same length."""
LOOK_BACK_BYTES: Final = 8 * 1024 * 1024
"""Twice the largest record of a store with default limits. A larger one whose body was made to look like records may be split
wrongly: the piece before it then does not end at its stop, and the job fails with an error."""
WINDOW_BYTES: Final = 1024 * 1024
_HOST_V6_EXTRA: Final = 12
_FIXED_BYTES: Final = RECORD_BYTES_MIN - 3
_INT: Final = Struct(">i")


@dataclass(frozen=True, slots=True)
class Ground:
    """Bytes of a log with random access: `peek(position, size)`, fewer bytes at their end."""

    peek: Callable[[int, int], bytes]
    stop: int
    """A record boundary, or the end of the log or segment."""
    segment_end: int

    def record_at(self, at: int) -> int:
        """Return the size of the record at a position if magic, position and lengths are consistent, else 0."""
        raw = self.peek(at, _FIXED_BYTES + 2 * _HOST_V6_EXTRA)
        if len(raw) < _FIXED_BYTES:
            return 0
        head = RecordHead._make(RECORD_HEAD.unpack_from(raw))
        fits = RECORD_BYTES_MIN <= head.size <= RECORD_BYTES_LIMIT and at + head.size <= self.stop
        if head.magic not in (MAGIC_V1, MAGIC_V2) or head.position != at or not fits:
            return 0
        return head.size if self.parts_of(at) == head.size else 0

    def parts_of(self, at: int) -> int:
        """Return the size of a record by its parts alone, 0 if they are inconsistent."""
        raw = self.peek(at, _FIXED_BYTES + 2 * _HOST_V6_EXTRA)
        if len(raw) < _FIXED_BYTES:
            return 0
        head = RecordHead._make(RECORD_HEAD.unpack_from(raw))
        fixed = _FIXED_BYTES + _HOST_V6_EXTRA * ((head.sys_flag >> 4 & 1) + (head.sys_flag >> 5 & 1))
        if len(raw) < fixed:
            return 0
        body_end = fixed + _INT.unpack_from(raw, fixed - 4)[0]
        if not fixed <= body_end <= RECORD_BYTES_LIMIT:
            return 0
        wide = head.magic == MAGIC_V2
        topic_length = self.peek(at + body_end, 1 + wide)
        topic_end = body_end + len(topic_length) + int.from_bytes(topic_length)
        properties_length = self.peek(at + topic_end, 2)
        if len(properties_length) < 2:
            return 0
        return topic_end + 2 + int.from_bytes(properties_length)

    def is_end(self, at: int) -> bool:
        """Whether records end at a position: at the stop, with a blank, or with nothing written."""
        if at == self.stop:
            return True
        raw = self.peek(at, _FIXED_BYTES)
        if len(raw) < BLANK.size:
            return False
        size, magic = BLANK.unpack_from(raw)
        return (magic == MAGIC_BLANK and at + size == self.segment_end) or not any(raw)

    def is_proven(self, at: int) -> bool:
        """Whether a long enough chain of records begins at a position, or one that ends where records end."""
        for _ in range(CHAIN_RECORDS):
            size = self.record_at(at)
            if not size:
                return False
            at += size
            if self.is_end(at):
                return True
        return True

    def walked(self, boundary: int, at: int) -> int | None:
        """Return the first boundary at or above `at`, walking from one below it: the stop if records end before, None at a damaged one."""
        while boundary < at:
            size = self.record_at(boundary)
            if not size:
                return self.stop if self.is_end(boundary) else None
            boundary += size
        return self.stop if self.is_end(boundary) else boundary

    def after_damage(self, at: int) -> int:
        """Return where reading continues after a damaged record: a proven record, or the stop."""
        raw = self.peek(at, RECORD_HEAD.size)
        if len(raw) == RECORD_HEAD.size:
            head = RecordHead._make(RECORD_HEAD.unpack(raw))
            if head.magic in (MAGIC_V1, MAGIC_V2) or head.position == at:
                ends = [at + size for size in (head.size, self.parts_of(at)) if size >= RECORD_BYTES_MIN]
                for is_right in (self.record_at, self.is_end):
                    for end in ends:
                        if end <= self.stop and is_right(end):
                            return end
        return self._search(at + 1)

    def _search(self, at: int) -> int:
        for start in range(at, self.stop, WINDOW_BYTES):
            content, size = self._window(start, min(start + WINDOW_BYTES + RECORD_BYTES_MIN, self.stop))
            for place in candidates(content, size, 0, start).tolist():
                if self.is_proven(start + place):
                    return start + place
        return self.stop

    def next_uncovered(self, first: int, at: int) -> int:
        """Return the first proven record at or above `at`, the stop if there is none. `first` is the start of the segment."""
        for start in range(at, self.stop, WINDOW_BYTES):
            before = max(first, start - LOOK_BACK_BYTES)
            end = min(start + WINDOW_BYTES, self.stop)
            content, size = self._window(before, min(end + RECORD_BYTES_MIN, self.stop))
            near = replace(self, peek=self._from(bytes(content[:size]), before))
            found = before + candidates(content, size, 0, before)
            sizes = np.array([near.record_at(place) for place in found.tolist()], np.int64)
            found, ends = found[sizes > 0], (found + sizes)[sizes > 0]
            covered = np.maximum.accumulate(np.concatenate(([before], ends)))[:-1] > found
            for place in found[~covered & (found >= start) & (found < end)].tolist():
                if near.is_proven(place):
                    return place
        return self.stop

    def _from(self, held: bytes, start: int) -> Callable[[int, int], bytes]:
        """Return a `peek` that uses loaded bytes if possible."""

        def peek(position: int, size: int) -> bytes:
            at = position - start
            return held[at : at + size] if 0 <= at <= len(held) - size else self.peek(position, size)

        return peek

    def _window(self, start: int, end: int) -> tuple[bytearray, int]:
        content = bytearray(self.peek(start, end - start))
        size = len(content)
        return content + bytes(SLACK_BYTES), size
