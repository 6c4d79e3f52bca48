"""Fills the due queues from the log: follows a store's queues from their settled cursors and reports progress.

Skips what the index on disk kept from an earlier term.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from gantry_chassis.logs.structured import get_logger
from gantry_link.clients.store import Pulled, StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.system_queues.claims import Held, QueueKey
from gantry_link.system_queues.following import Follower
from gantry_wire.codes import GantryCode
from gantry_wire.private_requests.settling import SettledStateBody, SettledStateHeader, decode_json
from scheduler.delivering.cancel_records import CancelRecords
from scheduler.filling.reading_pause import ReadingPause
from scheduler.filling.resuming import resume
from scheduler.index.due_queue_names import DELAYS, INSTANTS, PARKED_MESSAGES
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import LEVELS_MAX, PARKED, TIMER, Entry, entry_of, queue_of, scan_items
from scheduler.index.known_offsets import KnownOffsets, QueueState
from scheduler.system_names import SCHEDULER_GROUP

FULL_SECONDS = 0.02
PROGRESS_SECONDS = 5.0
END_SECONDS = 5.0
"""Longest wait of a list request for messages stored before it."""
OPEN_SECONDS = 1.0
"""Longest wait of an order for a new term to open, before the answer is `notReady`."""

_log = get_logger()


class CatchingUp:
    """Reads every queue of delayed messages of one store."""

    def __init__(
        self,
        broker: str,
        store: StoreClient,
        held: Mapping[QueueKey, Held],
        level_ms: Sequence[int],
        due_queues: DueQueues,
        armed: Callable[[], None],
        cancels: CancelRecords,
        rng: random.Random,
    ) -> None:
        """Call `armed` after each batch."""
        self._broker, self._store, self._held, self._level_ms = broker, store, held, level_ms
        self._due_queues, self._armed, self._cancels = due_queues, armed, cancels
        self._rng = rng
        self._read = due_queues.read
        self._targets = {
            source: held[queue_of(source)].max_offset for source in (*range(len(level_ms)), TIMER, PARKED)
        }
        self._opened = asyncio.Event()
        self._known: dict[int, KnownOffsets] = {}

    @property
    def sources(self) -> Collection[int]:
        """Return the sources this reader follows."""
        return self._targets.keys()

    @property
    def is_open(self) -> bool:
        """Whether the index can be queried: everything kept from an earlier term was compared."""
        return self._opened.is_set()

    async def opens(self) -> bool:
        """Wait for the index to open; a term has usually just begun. Returns False on timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OPEN_SECONDS):
                await self._opened.wait()
        return self.is_open

    @property
    def is_complete(self) -> bool:
        """Whether everything stored before the term began was read."""
        return self.is_open and all(self._read.until(source) >= end for source, end in self._targets.items())

    @property
    def progress(self) -> tuple[int, int]:
        """Return how many offsets were read, and how many there were when the term began."""
        total = sum(max(end - self._read.firsts[source], 0) for source, end in self._targets.items())
        missing = sum(max(end - self._read.until(source), 0) for source, end in self._targets.items())
        return total - missing, total

    async def reach_end(self) -> bool:
        """Wait until everything stored so far was read. Returns False on timeout or when the store does not answer."""
        try:
            async with asyncio.timeout(END_SECONDS):
                asked = [self._store.max_offset(*queue_of(source)) for source in self._targets]
                ends = dict(zip(self._targets, await asyncio.gather(*asked), strict=True))
                while any(self._read.until(source) < end for source, end in ends.items()):  # noqa: ASYNC110 - a moment
                    await asyncio.sleep(FULL_SECONDS / 4)
        except (TimeoutError, BrokerRefused, LinkError):
            return False
        return True

    async def resume(self) -> None:
        """Take over what an earlier term left on disk. Call this first. Raises LinkError or BrokerRefused."""
        states = {source: await self._state(*queue_of(source)) for source in self._targets}
        self._known = await resume(self._broker, self._store, self._due_queues, states, self._level_ms)
        self._opened.set()

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as group:
            for source in self._targets:
                group.create_task(self._follow(source), name=f"follow {queue_of(source)}")
            group.create_task(self._tell(), name="progress")

    async def _follow(self, source: int) -> None:
        known = self._known.pop(source)
        due_queue = PARKED_MESSAGES if source == PARKED else DELAYS

        pause = ReadingPause(self._level_ms[source] if source < LEVELS_MAX else None)

        def take(pulled: Pulled) -> Awaitable[None] | None:
            entries = [
                entry_of(item, source, self._level_ms)
                for item in scan_items(pulled.records)
                if known.is_over or not known.holds(item[0])
            ]
            if source == TIMER:
                pause.read(entries, self._due_queues.now_ms(DELAYS))
                self._arm_timer(entries)
            else:
                self._due_queues.arm(entries, due_queue)
            self._armed()
            return None if self._has_room() else self._room()

        follower = Follower(
            self._store,
            queue_of(source),
            SCHEDULER_GROUP,
            take,
            rng=self._rng,
            pause_seconds=lambda: pause.seconds,
            next_range=known.next_range,
        )
        self._read.follow(source, follower.metrics)
        await follower.run(self._read.firsts[source])

    def _arm_timer(self, entries: Sequence[Entry]) -> None:
        """Sort messages of the timer queue into delays, instants and cancel records."""
        instants = [entry for entry in entries if entry.is_absolute and not entry.cancels]
        self._due_queues.arm(instants, INSTANTS)
        if len(instants) < len(entries):
            self._due_queues.arm([e for e in entries if not e.is_absolute and not e.cancels], DELAYS)
        self._cancels.noticed(entries)
        for entry in entries:
            if entry.cancels:
                self._cancels.take(entry)

    async def _state(self, topic: str, queue_id: int) -> QueueState:
        ranges: list[tuple[int, int]] = []
        first = max(self._held[topic, queue_id].cursor, 0)
        cursor, end = first, 0
        at: int | None = first
        while at is not None:
            header = SettledStateHeader(topic=topic, queue_id=queue_id, from_offset=at)
            answer = await self._store.ask(GantryCode.SETTLED_STATE, header)
            state = decode_json(answer.body, SettledStateBody)
            ranges += state.settled
            if at == first:
                cursor = max(cursor, state.cursor)
            end, at = state.max_offset, state.next
        return QueueState(cursor, end, ranges)

    def _has_room(self) -> bool:
        return self._due_queues.far.has_room and not self._due_queues.is_full

    async def _room(self) -> None:
        await self._due_queues.far.room()
        while self._due_queues.is_full:  # noqa: ASYNC110 - for seconds at most, until what is due was delivered
            await asyncio.sleep(FULL_SECONDS)

    async def _tell(self) -> None:
        began = asyncio.get_running_loop().time()
        while not self.is_complete:
            await asyncio.sleep(FULL_SECONDS)
            if asyncio.get_running_loop().time() - began > PROGRESS_SECONDS:
                began += PROGRESS_SECONDS
                done, total = self.progress
                _log.info("building the due index", broker=self._broker, read=done, of=total)
        self._due_queues.far.read_all()
        _log.info("due index complete", broker=self._broker, pending=self._due_queues.pending)
