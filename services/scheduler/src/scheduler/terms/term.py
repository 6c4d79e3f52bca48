"""One term: the time between getting and losing the claims on a store's delayed messages.

Composes the parts that work during it. A term builds all of them new and drops them at its end, because state of a
paused or replaced process is stale. Only the file of far messages stays; the next term takes what the store confirms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from gantry_chassis.machine.environment import Environment
from gantry_link.clients.store import StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.system_queues.claims import Held, QueueKey
from gantry_wire.codes import GantryCode
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import CLAIM_QUEUES_MAX, StoreTimeReplyHeader
from scheduler.delivering.cancel_records import CancelRecords
from scheduler.delivering.deliveries import Deliveries, Pace
from scheduler.delivering.rolling import Rolling
from scheduler.delivering.settler import Settler
from scheduler.filling.catching_up import CatchingUp
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import LEVELS_MAX, PARKED, TIMER, queue_of
from scheduler.index.kept_rows import made_for
from scheduler.index.read_offsets import ReadOffsets
from scheduler.index.sqlite_index import SqliteIndex
from scheduler.index.store_clock import StoreClock
from scheduler.metrics import SchedulerMetrics
from scheduler.system_names import PARKED_TOPIC, TASKS_TOPIC
from scheduler.tasks.desk import Desk, Work

CLOCK_SECONDS = 1.0
OTHER_QUEUES = ((TIMER_TOPIC, 0), (PARKED_TOPIC, 0), (TASKS_TOPIC, 0))
"""The queues that a scheduler claims of each store, beside those of the delay levels."""
assert LEVELS_MAX + len(OTHER_QUEUES) <= CLAIM_QUEUES_MAX


def claimed_queues(level_count: int) -> list[QueueKey]:
    """Return the queues a scheduler claims of a store."""
    levels = [(SCHEDULE_TOPIC, queue_id) for queue_id in range(level_count)]
    return [*levels, *OTHER_QUEUES]


class StoreToServe(NamedTuple):
    """A store and its properties."""

    broker: str
    client: StoreClient
    level_ms: tuple[int, ...]


class TermContext(NamedTuple):
    """What a term needs besides its store."""

    metrics: SchedulerMetrics
    pace: Pace
    work: dict[str, Work]
    """The work of each kind of task."""
    environment: Environment


class Term:
    """Works on one store until cancelled."""

    def __init__(
        self,
        store: StoreToServe,
        held: Mapping[QueueKey, Held],
        index_file: Path,
        around: TermContext,
        fenced: Callable[[str], None],
    ) -> None:
        metrics, environment = around.metrics, around.environment
        self._steady = environment.steady
        self.broker, self.client = store.broker, store.client
        self.level_ms = store.level_ms
        self.held = held
        self.clock = StoreClock()
        for claim in held.values():
            self.clock.heard(claim.store_time_ms, self._steady())
        self.settler = Settler(store.client, held, self.clock, self._steady, fenced)
        sources = [*range(len(store.level_ms)), TIMER, PARKED]
        read = ReadOffsets({source: max(held[queue_of(source)].cursor, 0) for source in sources})
        self.due_queues = DueQueues(
            SqliteIndex(
                index_file,
                environment.workers,
                made_for(store.broker, store.level_ms, environment),
            ),
            self.clock,
            self._steady,
            read,
        )
        self.deliveries = Deliveries(self.due_queues, self.settler, self.clock, metrics, around.pace)
        self.cancel_records = CancelRecords(self.due_queues, self.settler, metrics)
        self.rolling = Rolling(self.due_queues, self.settler, metrics, sources)
        self.catching_up = CatchingUp(
            store.broker,
            store.client,
            held,
            store.level_ms,
            self.due_queues,
            self.deliveries.wake,
            self.cancel_records,
            environment.rng,
        )
        tasks = held[TASKS_TOPIC, 0]
        self.desk = Desk(
            store.broker, store.client, tasks, self.settler, around.work, environment.wall_ms, environment.rng
        )

    async def run(self) -> None:
        """Work until cancelled. Raises fatal errors, and then deletes the index unless the store was away."""
        is_sound = True
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask_time(), name="store time")
                group.create_task(self.due_queues.far.run(), name="due index")
                group.create_task(self.desk.run(), name="tasks")
                await self.catching_up.resume()
                group.create_task(self.deliveries.run(), name="deliveries")
                group.create_task(self.cancel_records.run(), name="cancel records")
                group.create_task(self.rolling.run(), name="rolling")
                group.create_task(self.catching_up.run(), name="catching up")
        except ExceptionGroup as failed:
            is_sound = failed.split((BrokerRefused, LinkError))[1] is None
            raise
        finally:
            await self.due_queues.far.close(keep=is_sound)

    async def _ask_time(self) -> None:
        while True:
            try:
                answer = await self.client.ask(GantryCode.STORE_TIME)
            except (BrokerRefused, LinkError):
                pass  # a store that is away reports no time, so nothing becomes due meanwhile
            else:
                times = answer.read(StoreTimeReplyHeader)
                self.clock.heard(times.store_time_ms, self._steady(), times.wall_time_ms)
                if times.roll_below:
                    self.rolling.ask(times.roll_below)
                self.deliveries.wake()
            await asyncio.sleep(CLOCK_SECONDS)
