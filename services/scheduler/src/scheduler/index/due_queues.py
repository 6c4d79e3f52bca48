"""Holds the waiting messages of one store during one term, in due queues, near and far. Makes no decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from scheduler.index.due_index import DueIndex
from scheduler.index.due_queue_names import DELAYS, INSTANTS, PARKED_MESSAGES, due_queue_of
from scheduler.index.entries import OFFSET_BITS, OFFSET_MASK, Entry
from scheduler.index.read_offsets import ReadOffsets
from scheduler.index.sqlite_index import SqliteIndex
from scheduler.index.store_clock import StoreClock

DECIDED_UNREAD_MAX = 1000
"""Number of kept keys that triggers a check for those read meanwhile."""


class DueQueues:
    """The place of every waiting message."""

    def __init__(
        self, far: SqliteIndex, clock: StoreClock, steady: Callable[[], float], read: ReadOffsets
    ) -> None:
        self.due = {DELAYS: DueIndex(), INSTANTS: DueIndex()}
        self.far = far
        self.parked_count = 0
        self.read = read
        self._decided_unread: set[int] = set()
        """Messages decided before they were read: an order may find them in the log."""
        self._clock = clock
        self.steady = steady

    @property
    def pending(self) -> int:
        """The number of messages waiting to become due: near, far and loading."""
        return sum(map(len, self.due.values()))

    @property
    def is_full(self) -> bool:
        """Whether reading should pause until some messages are delivered."""
        return any(due_queue.is_full for due_queue in self.due.values())

    def now_ms(self, due_queue: int) -> float:
        """Return the current time of a due queue's clock."""
        steady = self.steady()
        return self._clock.wall_ms(steady) if due_queue == INSTANTS else self._clock.now_ms(steady)

    def behind_ms(self, due_queue: int) -> float:
        """Return how far a due queue's clock is behind store time: above 0 after the wall clock was set back."""
        return self._clock.wall_lag_ms if due_queue == INSTANTS else 0.0

    def arm(self, entries: Iterable[Entry], due_queue: int) -> None:
        """Take messages that were read."""
        if self._decided_unread:
            entries = self._undecided(entries)
        if due_queue == PARKED_MESSAGES:
            far = list(entries)
            self.parked_count += len(far)
        else:
            far = self.due[due_queue].arm_all(entries, self.now_ms(due_queue))
        self.far.add_all([(due_queue, entry.due_ms, entry) for entry in far])

    def kept(self, counts: Mapping[int, int]) -> None:
        """Count what an earlier term left in the file, by due queue. Call it before arming anything."""
        self.parked_count = counts.get(PARKED_MESSAGES, 0)
        for due_queue, due in self.due.items():
            due.far_added(counts.get(due_queue, 0))

    def put_back(self, due_queue: int, key: int, wait_ms: float, error: str = "") -> None:
        """Retry an in-flight message after a delay."""
        at_ms = int(self.now_ms(due_queue) + wait_ms) + 1
        entry = self.due[due_queue].put_back(key, at_ms, error)
        if entry is not None:
            self.far.add(due_queue, at_ms, entry)

    async def find(self, uniq: bytes) -> list[Entry]:
        """Return the messages with a unique key."""
        found = self._near(uniq)
        found.update({entry.key: entry for entry in await self.far.find(uniq)})
        await self.far.arrived()
        found.update(self._near(uniq))  # it moved near during the lookup, which saw it in neither place
        return list(found.values())

    def _near(self, uniq: bytes) -> dict[int, Entry]:
        return {entry.key: entry for due_queue in self.due.values() for entry in due_queue.find(uniq)}

    def forget(self, entries: Sequence[Entry]) -> None:
        """Forget decided messages, wherever they are kept. Later lookups do not see them.

        Messages not read yet are dropped when they are.
        """
        self._note_unread(entries)
        far: dict[int, list[Entry]] = {}
        for entry in entries:
            due_queue = due_queue_of(entry)
            if due_queue == PARKED_MESSAGES or self.due[due_queue].decided(entry.key) is None:
                far.setdefault(due_queue, []).append(entry)
        for due_queue, kept in far.items():
            self.far.remove(due_queue, kept).add_done_callback(partial(self._removed, due_queue))

    def _note_unread(self, entries: Sequence[Entry]) -> None:
        unread = [entry.key for entry in entries if entry.offset >= self.read.until(entry.source)]
        if not unread:
            return
        if len(self._decided_unread) > DECIDED_UNREAD_MAX:
            self._decided_unread = {
                key
                for key in self._decided_unread
                if key & OFFSET_MASK >= self.read.until(key >> OFFSET_BITS)
            }
        self._decided_unread.update(unread)

    def _undecided(self, entries: Iterable[Entry]) -> list[Entry]:
        kept: list[Entry] = []
        for entry in entries:
            if entry.key in self._decided_unread:
                self._decided_unread.discard(entry.key)
            else:
                kept.append(entry)
        return kept

    def _removed(self, due_queue: int, removing: asyncio.Future[int]) -> None:
        if removing.cancelled() or removing.exception() is not None:
            return  # the index is closed or broken; the next write reports it
        if due_queue == PARKED_MESSAGES:
            self.parked_count -= removing.result()
        else:
            self.due[due_queue].far_removed(removing.result())

    async def load(self, due_queue: int, until_ms: int, count: int) -> None:
        """Load what is due soon; `due[due_queue].wants` requested it."""
        due, loaded = self.due[due_queue], await self.far.load(due_queue, until_ms, count)
        due.loaded(loaded, count)
        for _, entry in loaded:  # a decision made during the load found the message neither near nor far
            if self.far.is_removing(entry.key):
                due.decided(entry.key)
