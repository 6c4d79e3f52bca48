"""Rolls messages forward out of segments the store wants to delete: settles them to the log's end in a system queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gantry_chassis.logs.structured import get_logger
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.private_requests.settling import SettleStatus
from scheduler.delivering.decisions import ROLLED, move
from scheduler.delivering.settler import Settler
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import Entry, key_of, queue_of
from scheduler.metrics import SchedulerMetrics

BATCH_ITEMS = 256
FOUND_MAX = 8192
"""Messages looked up at once. Finding far messages takes a scan."""

_log = get_logger()


class Rolling:
    """Carries out the store's roll requests, batch by batch."""

    def __init__(
        self, due_queues: DueQueues, settler: Settler, metrics: SchedulerMetrics, sources: Sequence[int]
    ) -> None:
        self._due_queues, self._settler, self._metrics, self._sources = due_queues, settler, metrics, sources
        self._below = 0
        self._asked = asyncio.Event()

    def ask(self, below: int) -> None:
        """Roll every message whose record lies below a log position."""
        self._below = max(self._below, below)
        self._asked.set()

    async def run(self) -> None:
        """Roll on request, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            for source in self._sources:
                rolled = await self._roll_all(source)
                if rolled:
                    _log.info(
                        "rolled messages forward for retention", queue=queue_of(source), messages=rolled
                    )

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
            for due_queue in self._due_queues.due.values()
            for entry in due_queue.near.values()
            if entry.source == source and entry.position < below
        ]
        if near:
            return near[:FOUND_MAX]
        return await self._due_queues.far.below(below, key_of(source, 0), key_of(source + 1, 0), FOUND_MAX)

    async def _roll(self, source: int, entries: list[Entry]) -> bool:
        """Roll one batch. Returns False when the store is away or has no room."""
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
        self._metrics.outcomes.labels(ROLLED).value += len(decided)
        self._due_queues.forget(decided)
        return len(decided) == len(entries)
