"""Retention of a follower: it deletes what its leader has deleted, and nothing by its own clock.

The leader appends again what must not go with a segment, waits until that is confirmed, and deletes the segment (`process/disk_care.py`); its beats
say where its log begins. A follower deletes the segments that end at or below that position, below its own confirm offset and behind
its last checkpoint, which a start after a crash needs.
"""

from collections.abc import Awaitable, Callable

from broker_store.replication.replica_log import ReplicaLog
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers

RETENTION_SECONDS = 10.0
"""Pause between two rounds."""

_log = get_logger()


class FollowerRetention:
    """Lives in the loop while the replica follows."""

    def __init__(
        self,
        log: ReplicaLog,
        thread: Workers,
        checkpoint: Callable[[], int],
        on_deleted: Callable[[int], Awaitable[None]],
    ) -> None:
        """`checkpoint` returns the position that the last checkpoint covers. `on_deleted` forgets what points below the log's new beginning."""
        self._log_of_replica, self._thread = log, thread
        self._checkpoint, self._on_deleted = checkpoint, on_deleted
        self._leader_begins = 0
        self.deleted_segments = 0

    def leader_begins_at(self, position: int) -> None:
        """Take the leader's first position: see `ShellEvents`."""
        self._leader_begins = max(self._leader_begins, position)

    async def delete(self) -> None:
        """Delete what may go now. Raises OSError, LogStopped; the next call tries again."""
        log = self._log_of_replica
        count = log.drop_below(min(self._leader_begins, self._checkpoint()))
        if count:
            self.deleted_segments += count
            _log.info("segments deleted, as by the leader", count=count, minimum=log.min_position)
        if not log.dropped:
            return
        while log.dropped:
            await self._thread.run(log.remove_dropped)
        await self._on_deleted(log.min_position)
