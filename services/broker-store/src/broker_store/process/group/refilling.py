"""Fills what the log of this replica has lost from other replicas, and then has everything that is derived from the log made again.

Queues, index and tables of this life lack the records, and so do its checkpoints. A follower ends its process once the log is whole, and the next
start reads all of it. It waits while the group would refuse sends without it. A leader that serves hands over first (`GroupFitness`).
"""

import asyncio
from collections.abc import Callable

from broker_store.log.log_range import LogRange, joined
from broker_store.opening.opened_store import OpenedStore
from broker_store.process.group.lost_records import LostRecords
from broker_store.process.group.settings import GroupSettings
from broker_store.replication.filling import FillCalls, Filling
from broker_store.replication.replica_log import ReplicaLog
from broker_store.replication.shell import Shell
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers
from gantry_chassis.start_refusal import RestartNeeded

LOOK_SECONDS = 1.0

_log = get_logger()


class Refilling:
    """The filling of one life."""

    def __init__(
        self,
        store: OpenedStore,
        records: LostRecords,
        shell: Shell,
        settings: GroupSettings,
        thread: Workers,
        end: Callable[[Exception], None],
        is_serving: Callable[[], bool],
    ) -> None:
        """`end` ends the process. `is_serving`: whether it serves as a leader."""
        self._is_serving = is_serving
        assert isinstance(store.log, ReplicaLog)
        self._log, self._records, self._shell, self._settings = store.log, records, shell, settings
        self._thread, self._end = thread, end
        self.has_gaps: bool = records.lost is not None
        """Whether queues, index and tables of this life lack records."""
        known = records.lost.ranges if records.lost is not None else ()
        ranges = [LogRange(start, min(end, store.log.confirm)) for start, end in known]
        pace = store.settings.copy_bytes_per_second
        calls = FillCalls(shell.repairing.want, shell.role.sources, thread, pace)
        self._filling = Filling(store.log, joined(ranges), calls)

    @property
    def lost_bytes(self) -> int:
        """Bytes of the log that are known to be lost, and not filled."""
        return self._filling.lost_bytes

    async def begin(self) -> None:
        """Note what is lost, and give missing segments their files. Before this replica takes part. Raises OSError."""
        await self._thread.run(self._records.settle)  # or the next start would not know of the segments
        if self._filling.lost_bytes:
            self._log.add_segments(await self._thread.run(self._log.make_missing_segments))

    async def run(self) -> None:
        """Fill, note that, and end the process when the group can spare it. Supervised."""
        lost = self._records.lost
        if lost is None or not lost.is_known:
            return
        await self._filling.run()
        await self._thread.run(self._records.note_filled)
        said = False
        while not self._can_go:
            if not said:
                _log.warning("the log is filled: this replica starts again when the group can spare it")
                said = True
            await asyncio.sleep(LOOK_SECONDS)
        self._end(RestartNeeded("the log is filled: the next start reads all of it"))

    @property
    def _can_go(self) -> bool:
        """Whether the group loses nothing: it acknowledges sends without this replica, if it ever does, or this one leads and serves nothing."""
        role, settings = self._shell.role, self._settings
        if role.leading is not None and not self._is_serving():
            return True
        newest = role.replica.kept.newest
        if newest is None or role.leading is not None or not role.following.is_copying:
            return False
        others = [name for name in newest.members if name != settings.name]
        return len(others) >= min(settings.min_in_sync, len(settings.others))
