"""Fills the holes of a replica's log: ranges below the confirm offset whose records a start found damaged or missing.

Below the confirm offset all replicas have the same bytes, so the walk of a range asks for each record that fails its check there (`Repairing`), which
brings those behind it with it, and continues behind them. A range counts as whole once the walk has passed all of it: it has checked every record,
and each that was written is durable. It begins where a whole record ends, as recovery found it, so positions fit.

One question at a time, and a pause after each, so that the replica that answers has its disk for others. What nobody has whole is asked for
again every minute. Lives in the loop; reads are in a thread. After a crash a later life walks again.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from broker_store.log.commit_log.scan import Stop
from broker_store.log.log_range import LogRange
from broker_store.log.recovery.recovery import walk_slice
from broker_store.replication.frames import PART_BYTES_MAX
from broker_store.replication.replica_log import ReplicaLog
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers

LOOK_SECONDS = 0.25
"""How soon a replica that can be asked is noticed."""
AGAIN_SECONDS = 61.0
"""What nobody has is asked for again after so long: `Repairing` refuses it earlier."""

_log = get_logger()


class Want(Protocol):
    """Asks other replicas (`Repairing.want`)."""

    def __call__(self, position: int, *, is_known: bool) -> asyncio.Future[bool]:
        """Repair the record at this position. The result says whether it is whole now."""
        ...


class FillCalls(NamedTuple):
    """What filling calls."""

    want: Want
    sources: Callable[[int], Sequence[str]]
    """Returns the replicas that can be asked for a position."""
    thread: Workers
    bytes_per_second: int
    """How fast others are asked. 0: no limit."""


class Filling:
    """The holes of one life."""

    def __init__(self, log: ReplicaLog, ranges: Iterable[LogRange], calls: FillCalls) -> None:
        self._log, self._calls = log, calls
        self._left = list(ranges)
        self._reached = 0
        """How far the range that is being filled is whole."""
        self._reported: set[LogRange] = set()

    @property
    def lost_bytes(self) -> int:
        """Bytes of ranges that are not known to be whole."""
        whole = max(self._log.min_position, self._reached)
        first = sum(max(held.end - max(held.start, whole), 0) for held in self._left[:1])
        return first + sum(held.end - held.start for held in self._left[1:])

    async def run(self) -> None:
        """Return when all ranges are whole. Cancel it at any time."""
        while self._left:
            for held in tuple(self._left):
                self._left.remove(held)
                self._left.insert(0, held)
                if await self._fill(held):
                    self._left.remove(held)
            if self._left:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _fill(self, held: LogRange) -> bool:
        """Fill one range. False: no other replica has its next record now."""
        log, asked = self._log, -1
        at = self._reached = held.start
        while (at := max(at, log.min_position)) < held.end:
            self._reached = at
            at, is_damaged = await self._calls.thread.run(_walk, log, at)
            if not is_damaged or at >= held.end:
                continue
            if at == asked or not await self._ask(at):
                if at < log.min_position:  # deleted meanwhile
                    continue
                self._report(held, at)
                return False
            asked = at
            await self._pause()
        _log.warning("a hole of the log is filled from other replicas", start=held.start, end=held.end)
        return True

    async def _ask(self, position: int) -> bool:
        while True:
            if self._calls.sources(position):
                return await self._calls.want(position, is_known=True)
            await asyncio.sleep(LOOK_SECONDS)

    async def _pause(self) -> None:
        pace = self._calls.bytes_per_second
        await asyncio.sleep(PART_BYTES_MAX / pace if pace else 0)

    def _report(self, held: LogRange, at: int) -> None:
        if held not in self._reported:
            self._reported.add(held)
            _log.warning(
                "no other replica has what this log has lost: it asks again every minute",
                start=held.start, end=held.end, position=at,
            )  # fmt: skip


def _walk(log: ReplicaLog, position: int) -> tuple[int, bool]:
    """Check about a chunk of records. Returns where that ended, and whether it ended at damage."""
    segment = log.segment_at(position)
    if segment is None:
        return position, position >= log.min_position
    at, stop, _ = walk_slice(segment, position, [])
    return at, stop in (Stop.BAD, Stop.ZERO)
