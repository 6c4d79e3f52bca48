"""Checks data of earlier runs when it is first read, and remembers what was checked.

Data of this run came from memory and is trusted. Older data on the disk may have decayed.
"""

import threading
from bisect import bisect_right

from broker_store.log.commit_log.scan import ScannedRecord, Stop, scan_records
from broker_store.log.errors import DamagedRecord

INTERVALS_MAX = 65_536
"""Checked stretches remembered. Beyond that all are forgotten and checked again."""


class FirstReadCheck:
    """Everything below `end` existed at opening. Threads may call `check` concurrently."""

    def __init__(self, end: int) -> None:
        self.end = end
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._lock = threading.Lock()

    def check(self, position: int, data: bytes) -> None:
        """Raise DamagedRecord for the first bad record. The bytes must be whole records."""
        with self._lock:
            end = position + len(data)
            place = bisect_right(self._starts, position) - 1
            known_end = self._ends[place] if place >= 0 else position
            if known_end >= end:
                return
            found: list[ScannedRecord] = []
            at, stop, fault = scan_records(data, position, max(known_end - position, 0), found)
            self._add(position, position + at)
        if at < len(data) and stop is not Stop.BLANK:  # nothing valid follows a blank
            raise DamagedRecord(position + at, fault or "it is cut short")

    def trust(self, start: int, end: int) -> None:
        """Record that a stretch of whole records was checked."""
        with self._lock:
            self._add(start, end)

    def is_trusted(self, start: int, end: int) -> bool:
        """Whether the whole stretch was checked."""
        with self._lock:
            place = bisect_right(self._starts, start) - 1
            return place >= 0 and self._ends[place] >= end

    def _add(self, start: int, end: int) -> None:
        if start >= end:
            return
        first = bisect_right(self._starts, start) - 1
        if first >= 0 and self._ends[first] >= start:
            start = self._starts[first]
        else:
            first += 1
        last = bisect_right(self._starts, end)
        if last > first:
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        if len(self._starts) > INTERVALS_MAX:
            self._starts.clear()
            self._ends.clear()
