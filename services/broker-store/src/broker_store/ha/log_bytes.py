"""The bytes of the log that a slave may get: those below the confirm offset, as they are, a piece of one file at a time.

What is not confirmed may still be taken back, or cut by the next start; a slave that had it would be ahead of this log for ever. The zeros behind
a file's blank belong to the log for RocketMQ: positions and files of a slave are the same as here if both have the same `mappedFileSizeCommitLog`.
"""

from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.commit_log.segment import Segment
from broker_store.log.errors import DamagedRecord, PositionRemoved


class LogBytes:
    """Reads of one log. `begin` and `end` may change between two calls."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log

    @property
    def begin(self) -> int:
        """First position that exists."""
        return self._log.min_position

    @property
    def end(self) -> int:
        """End of all that is written here. A slave never has more of this log."""
        return self._log.written_end

    @property
    def sendable_end(self) -> int:
        """End of what a slave may get."""
        return min(self._log.confirm, self._log.visible_end)

    def read_nowait(self, position: int, size_max: int) -> bytes | None:
        """Return up to `size_max` bytes of one file; None when they are not in the page cache. Raises PositionRemoved, DamagedRecord."""
        segment, size = self._piece(position, size_max)
        return segment.file.pread_nowait(size, position - segment.start)

    def read(self, position: int, size_max: int) -> bytes:
        """As `read_nowait`, from the disk. What was read of a full file leaves the page cache. Blocks: use a thread. Raises OSError, too."""
        segment, size = self._piece(position, size_max)
        data = segment.file.pread(size, position - segment.start)
        if len(data) < size:
            raise DamagedRecord(position, f"{segment.path} ends there")
        if segment.end <= self.sendable_end:
            segment.file.drop_cached(position - segment.start, size)
        return data

    def _piece(self, position: int, size_max: int) -> tuple[Segment, int]:
        log = self._log
        if position < log.min_position:
            raise PositionRemoved(f"position {position} is below the minimum {log.min_position}")
        segment = log.segment_at(position)
        if segment is None:
            raise DamagedRecord(position, "its segment is missing")
        return segment, min(size_max, segment.end - position, self.sendable_end - position)
