"""Pulls with an SQL92 filter: reads the log in stretches, lets others have their turn between them, answers in the end.

However many filtered pulls run, one slice of one of them runs per turn of the loop, and connections take turns. What is new at the end of a queue is looked
at within the turn that asks for it, as for any other pull.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from broker_store.log.errors import DamagedRecord, PositionNotVisible, PositionRemoved
from broker_store.ports import LogReader
from broker_store.reading.fair_turns import FairTurns
from broker_store.reading.filtered_scan import FIRST_UNITS, Scan, Stretch, spans_of
from broker_store.reading.pull_reading import InThread

_TROUBLE = (DamagedRecord, PositionNotVisible, PositionRemoved)


class ScanReading(NamedTuple):
    """What filtered pulls read with."""

    log: LogReader
    in_thread: InThread


class Scans:
    """All filtered pulls under way."""

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
        """Look at the first records; True when that was all. Otherwise go on beside the loop, and call `done` at the end.

        `owner` is the connection that pays for it. `is_wanted` is asked before each slice: whether anybody still waits
        for the answer.
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
                    stretch, is_over = self._slice(scan)
                    await asyncio.sleep(0)  # the turn is held until the loop has turned
                if stretch is not None:
                    is_over = await self._look_slowly(scan, stretch)
        except Exception as error:  # noqa: BLE001 - whoever asked is told, and the others go on
            done(error)
        else:
            done(None)

    def _slice(self, scan: Scan) -> tuple[Stretch | None, bool]:
        """Look at one stretch; return it when it has to be read another way, and whether the scan is over."""
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
            return None  # the slow way looks closer

    async def _look_slowly(self, scan: Scan, stretch: Stretch) -> bool:
        """Read a stretch where it may wait for the disk, record by record where a part of it is damaged or gone."""
        try:
            data: bytes = await self._in_thread(self._log.read, stretch.start, stretch.size)
        except _TROUBLE:
            if len(stretch.units) > 1:
                return await self._look_singly(scan, stretch)
            scan.skip(stretch, is_damaged=stretch.start >= self._log.min_position)
            return False
        return scan.look(stretch, data)

    async def _look_singly(self, scan: Scan, stretch: Stretch) -> bool:
        for unit in stretch.units:
            position, size, _code = unit
            single = Stretch(position, size, [unit])
            if not spans_of(single):
                scan.skip(single, is_damaged=False)
            elif await self._look_slowly(scan, single):
                return True
        return False
