"""Pulls with an SQL92 filter: reads the log in stretches, yields to others between them, and answers at the end.

One slice of one filtered pull runs per turn of the loop, and connections take turns. New messages at the
end of a queue are checked within the requesting turn, as for any other pull.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from broker_store.log.errors import DamagedRecord, PositionNotVisible, PositionRemoved
from broker_store.ports import InThread, LogReader
from broker_store.reading.filtered.fair_turns import FairTurns
from broker_store.reading.filtered.filtered_scan import FIRST_UNITS, Scan, Stretch, stretch_of

_TROUBLE = (DamagedRecord, PositionNotVisible, PositionRemoved)


class ScanReading(NamedTuple):
    """What filtered pulls read with."""

    log: LogReader
    in_thread: InThread


class Scans:
    """All filtered pulls in flight."""

    def __init__(self, reading: ScanReading) -> None:
        self._log = reading.log
        self._in_thread = reading.in_thread
        self._turns = FairTurns()
        self._tasks: set[asyncio.Task[None]] = set()

    def run(
        self,
        scan: Scan,
        owner: int,
        is_wanted: Callable[[], bool],
        done: Callable[[Exception | None], None],
    ) -> bool:
        """Check the first records; True when that completes the pull.

        Otherwise continues in the background and calls `done` at the end. `owner` is the connection whose
        turns this uses. `is_wanted` is called before each slice: whether anybody still waits for the
        answer.
        """
        stretch = scan.next_stretch(FIRST_UNITS)
        while stretch is not None:
            data = self._read_nowait(stretch)
            if data is None:
                break
            if scan.look(stretch, data):
                return True
            if scan.is_begun:
                break
            stretch = scan.next_stretch(FIRST_UNITS)
        else:
            return True
        task = asyncio.ensure_future(self._scan_slowly(scan, owner, is_wanted, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return False

    async def close(self) -> None:
        """Wait until all have answered."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _scan_slowly(
        self,
        scan: Scan,
        owner: int,
        is_wanted: Callable[[], bool],
        done: Callable[[Exception | None], None],
    ) -> None:
        try:
            is_over = False
            while not is_over and is_wanted():
                async with self._turns.of(owner):
                    await asyncio.sleep(0)  # hold the turn for one turn of the loop
                    # Nothing may come between the end of the scan and `done`, which holds the pull at that offset.
                    stretch, is_over = self._slice(scan)
                if stretch is not None:
                    is_over = await self._look_slowly(scan, stretch)
        except Exception as error:  # noqa: BLE001 - answer the client; other pulls continue
            done(error)
        else:
            done(None)

    def _slice(self, scan: Scan) -> tuple[Stretch | None, bool]:
        """Check one stretch. Return it when it must be read on the slow path, and whether the scan is over."""
        stretch = scan.next_stretch()
        if stretch is None:
            return None, True
        data = self._read_nowait(stretch)
        if data is None:
            return stretch, False
        return None, scan.look(stretch, data)

    def _read_nowait(self, stretch: Stretch) -> bytes | None:
        if stretch.size == 0:
            return b""
        try:
            return self._log.read_nowait(stretch.start, stretch.size)
        except _TROUBLE:
            return None  # the slow path finds out why

    async def _look_slowly(self, scan: Scan, stretch: Stretch) -> bool:
        """Read a stretch, waiting for the disk if needed; half by half where part of it is damaged or gone.

        A bad record costs a few reads then, not one for each of its neighbours.
        """
        try:
            data: bytes = await self._in_thread(self._log.read, stretch.start, stretch.size)
        except _TROUBLE:
            if len(stretch.units) > 1:
                return await self._look_by_halves(scan, stretch)
            scan.skip(stretch, is_damaged=stretch.start >= self._log.min_position)
            return False
        return scan.look(stretch, data)

    async def _look_by_halves(self, scan: Scan, stretch: Stretch) -> bool:
        middle = len(stretch.units) // 2
        for units in (stretch.units[:middle], stretch.units[middle:]):
            half = stretch_of(units, self._log.min_position)
            if scan.look(half, b"") if half.size == 0 else await self._look_slowly(scan, half):
                return True
        return False
