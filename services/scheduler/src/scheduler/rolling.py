"""Rolls messages forward whose segment the store wants to delete: settles them into a system queue again, at the log's end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gantry_chassis.logs import get_logger
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.settle_headers import SettleStatus
from scheduler.decisions import ROLLED, move
from scheduler.entries import Entry, key_of, queue_of
from scheduler.figures import Figures
from scheduler.lanes import Lanes
from scheduler.settler import Settler

BATCH_ITEMS = 256
FOUND_MAX = 8192
"""Messages that are looked for at once: the far ones are found by looking at all."""

_log = get_logger()


class Rolling:
    """Carries the store's wish out, batch by batch."""

    def __init__(self, lanes: Lanes, settler: Settler, figures: Figures, sources: Sequence[int]) -> None:
        self._lanes, self._settler, self._figures, self._sources = lanes, settler, figures, sources
        self._below = 0
        self._asked = asyncio.Event()

    def ask(self, below: int) -> None:
        """Have everything rolled forward whose record lies below a position of the log."""
        self._below = max(self._below, below)
        self._asked.set()

    async def run(self) -> None:
        """Roll for ever, when asked."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            for source in self._sources:
                rolled = await self._roll_all(source)
                if rolled:
                    _log.info("rolled forward for retention", queue=queue_of(source), messages=rolled)

    async def _roll_all(self, source: int) -> int:
        rolled = 0
        while entries := await self._next(source):
            for first in range(0, len(entries), BATCH_ITEMS):
                batch = entries[first : first + BATCH_ITEMS]
                if not await self._roll(source, batch):
                    return rolled
                rolled += len(batch)
        return rolled

    async def _next(self, source: int) -> list[Entry]:
        below = self._below
        near = [
            entry
            for lane in self._lanes.due.values()
            for entry in lane.near.values()
            if entry.source == source and entry.position < below
        ]
        if near:
            return near[:FOUND_MAX]
        return await self._lanes.far.below(below, key_of(source, 0), key_of(source + 1, 0), FOUND_MAX)

    async def _roll(self, source: int, entries: list[Entry]) -> bool:
        """Return whether it goes on: not while the store is away or has no room."""
        try:
            items = [move(entry, entry.due_ms, ROLLED) for entry in entries]
            reply = await self._settler.settle(queue_of(source), items)
        except (BrokerRefused, LinkError):
            return False
        decided = [
            entry
            for entry, result in zip(entries, reply.results, strict=True)
            if result.status in (SettleStatus.SETTLED, SettleStatus.ALREADY)
        ]
        self._figures.outcomes.labels(ROLLED).value += len(decided)
        self._lanes.forget(decided)
        return len(decided) == len(entries)
