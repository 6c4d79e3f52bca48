"""The waiting messages of one store during one term, by lane, near and far. No decision is made here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import monotonic

from scheduler.due_index import DueIndex
from scheduler.entries import OFFSET_BITS, OFFSET_MASK, Entry
from scheduler.lane_names import DELAYS, INSTANTS, SET_ASIDE, lane_of
from scheduler.sqlite_index import SqliteIndex
from scheduler.store_clock import StoreClock

DECIDED_UNREAD_MAX = 1000
"""As many keys are kept before those that were read meanwhile are looked for."""


class Lanes:
    """Where every waiting message is."""

    def __init__(self, far: SqliteIndex, clock: StoreClock) -> None:
        self.due = {DELAYS: DueIndex(), INSTANTS: DueIndex()}
        self.far = far
        self.parked_count = 0
        self.read_until: Callable[[int], int] = _everything
        """Up to which offset a source was read, when the lanes are filled from a log that grows."""
        self._decided_unread: set[int] = set()
        """Messages that were decided before they were read: an order may find them in the log."""
        self._clock = clock

    @property
    def pending(self) -> int:
        """Messages that wait for their time, near, far and on their way."""
        return sum(map(len, self.due.values()))

    @property
    def is_full(self) -> bool:
        """Whether reading more should wait until something was delivered."""
        return any(lane.is_full for lane in self.due.values())

    def now_ms(self, lane: int) -> float:
        """Return the time by which a lane's messages become due."""
        steady = monotonic()
        return self._clock.wall_ms(steady) if lane == INSTANTS else self._clock.now_ms(steady)

    def behind_ms(self, lane: int) -> float:
        """Return how far a lane's time is behind the store's: above 0 where the wall clock counts, and was set back."""
        return self._clock.wall_lag_ms if lane == INSTANTS else 0.0

    def arm(self, entries: Iterable[Entry], lane: int) -> None:
        """Take messages that were read."""
        if self._decided_unread:
            entries = self._undecided(entries)
        if lane == SET_ASIDE:
            far = list(entries)
            self.parked_count += len(far)
        else:
            far = self.due[lane].arm_all(entries, self.now_ms(lane))
        self.far.add_all([(lane, entry.due_ms, entry) for entry in far])

    def kept(self, counts: Mapping[int, int]) -> None:
        """Count what an earlier term has left in the file, by lane. Nothing was armed before."""
        self.parked_count = counts.get(SET_ASIDE, 0)
        for lane, due in self.due.items():
            due.far_added(counts.get(lane, 0))

    def put_back(self, lane: int, key: int, wait_ms: float, error: str = "") -> None:
        """Try a message in flight again after a while."""
        at_ms = int(self.now_ms(lane) + wait_ms) + 1
        entry = self.due[lane].put_back(key, at_ms, error)
        if entry is not None:
            self.far.add(lane, at_ms, entry)

    async def find(self, uniq: bytes) -> list[Entry]:
        """Return the messages with a unique key."""
        found = self._near(uniq)
        found.update({entry.key: entry for entry in await self.far.find(uniq)})
        await self.far.arrived()
        found.update(self._near(uniq))  # what came near meanwhile was in neither place when it was looked at
        return list(found.values())

    def _near(self, uniq: bytes) -> dict[int, Entry]:
        return {entry.key: entry for lane in self.due.values() for entry in lane.find(uniq)}

    def forget(self, entries: Sequence[Entry]) -> None:
        """Forget messages that somebody has decided, wherever they are kept. Whoever asks afterwards sees them no more.

        Those that were not read yet are left out when they are.
        """
        self._note_unread(entries)
        far: dict[int, list[Entry]] = {}
        for entry in entries:
            lane = lane_of(entry)
            if lane == SET_ASIDE or self.due[lane].decided(entry.key) is None:
                far.setdefault(lane, []).append(entry)
        for lane, kept in far.items():
            self.far.remove(lane, kept).add_done_callback(partial(self._removed, lane))

    def _note_unread(self, entries: Sequence[Entry]) -> None:
        unread = [entry.key for entry in entries if entry.offset >= self.read_until(entry.source)]
        if not unread:
            return
        if len(self._decided_unread) > DECIDED_UNREAD_MAX:
            self._decided_unread = {
                key
                for key in self._decided_unread
                if key & OFFSET_MASK >= self.read_until(key >> OFFSET_BITS)
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

    def _removed(self, lane: int, removing: asyncio.Future[int]) -> None:
        if removing.cancelled() or removing.exception() is not None:
            return  # the index is closed or broken, which the next write tells
        if lane == SET_ASIDE:
            self.parked_count -= removing.result()
        else:
            self.due[lane].far_removed(removing.result())

    async def load(self, lane: int, until_ms: int, count: int) -> None:
        """Bring from afar what will be due; `due[lane].wants` has asked for it."""
        due, loaded = self.due[lane], await self.far.load(lane, until_ms, count)
        due.loaded(loaded, count)
        for _, entry in loaded:  # who decided one on its way found it neither near nor far
            if self.far.is_removing(entry.key):
                due.decided(entry.key)


def _everything(_source: int) -> int:
    """Say that a source was read as far as offsets go."""
    return OFFSET_MASK + 1
