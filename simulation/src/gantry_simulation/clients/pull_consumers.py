"""Programs that ask for their messages: with the SDK's LitePullConsumer as members of a group, and with its PullConsumer alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from gantry_chassis.process import Life
from gantry_simulation.clients.program import Program
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.ledger.offsets import Cell
from gantry_simulation.ledger.places import Place
from gantry_simulation.processes.process import Process
from gantry_wire.bodies.clients import ConsumeFromWhere
from gantrymq import GantryError, LitePullConsumer, MessageQueue, PullConsumer, PullStatus, ReceivedMessage

POLL_SECONDS = 1.0
HANDLE_SECONDS = (0.0, 0.3)
STALL_CHANCE, STALL_SECONDS = 0.05, (0.5, 3.0)
COMMIT_CHANCE = 0.5
BATCH_MAX = 8


class PollingProgram(Program):
    """A member of a group that shares the queues of a topic. `stop` closes its consumer."""

    def __init__(self, process: Process, ledger: Ledger, nameservers: str, group: str, topic: str) -> None:
        super().__init__(process, ledger)
        self._nameservers, self._group, self._topic = nameservers, group, topic
        self._consumer: LitePullConsumer | None = None

    def start(self) -> None:
        """Start it."""
        self._consumer = None
        super().start()

    @property
    def queues(self) -> Sequence[MessageQueue]:
        """The queues that it has now; none while it does not run."""
        if self._consumer is None or not self.process.is_running:
            return ()
        return self._consumer.assignment

    async def _main(self, life: Life) -> None:
        rng = self.rng("polls")
        consumer = LitePullConsumer(
            self._group,
            nameservers=self._nameservers,
            machine=life.environment,
            auto_commit=False,
            start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            rebalance_interval=5.0,
            hold_seconds=5.0,
            route_poll_interval=5.0,
        )
        consumer.subscribe(self._topic)
        async with consumer:
            self._consumer = consumer
            while not life.stopping.is_set():
                for message in await consumer.poll(POLL_SECONDS, max_messages=rng.randint(1, BATCH_MAX)):
                    await _handle(rng)
                    self._consumed(message)
                await self._commit(consumer, rng)
            self._consumer = None

    def _consumed(self, message: ReceivedMessage) -> None:
        text = message.body.decode()
        place = Place(message.broker, message.stored_topic, message.queue_id, message.queue_offset)
        self.read(text, place, message.record.store_timestamp)
        self.ledger.groups.succeeded(self._group, text, place)

    async def _commit(self, consumer: LitePullConsumer, rng: random.Random) -> None:
        """Commit what was consumed, often enough. What fails is committed with what follows."""
        if rng.random() < COMMIT_CHANCE:
            try:
                await consumer.commit()
            except GantryError:
                await asyncio.sleep(POLL_SECONDS)


class PullingProgram(Program):
    """Pulls all queues of a topic and commits where it continues after its next start."""

    def __init__(self, process: Process, ledger: Ledger, nameservers: str, group: str, topic: str) -> None:
        super().__init__(process, ledger)
        self._nameservers, self._group, self._topic = nameservers, group, topic

    async def _main(self, life: Life) -> None:
        rng = self.rng("pulls")
        async with PullConsumer(
            self._group, nameservers=self._nameservers, machine=life.environment, route_poll_interval=5.0
        ) as consumer:
            offsets: dict[MessageQueue, int] = {}
            while not await life.sleep(rng.uniform(*HANDLE_SECONDS)):
                try:
                    for queue in await consumer.queues(self._topic):
                        if queue not in offsets:
                            offsets[queue] = await self._committed(consumer, queue)
                        offsets[queue] = await self._pull(consumer, queue, offsets[queue], rng)
                except GantryError:
                    continue

    def _cell(self, queue: MessageQueue) -> Cell:
        return Cell(queue.broker, self._group, queue.topic, queue.queue_id)

    async def _committed(self, consumer: PullConsumer, queue: MessageQueue) -> int:
        """Return where it continues: its last commit, as the ledger knows it."""
        began_ns = self.ledger.offsets.now_ns()
        offset = await consumer.committed(queue)
        self.ledger.offsets.read(self._cell(queue), offset, began_ns)
        return offset or 0

    async def _pull(
        self, consumer: PullConsumer, queue: MessageQueue, offset: int, rng: random.Random
    ) -> int:
        """Consume what there is from an offset on, commit it, and return the next offset."""
        pulled = await consumer.pull(
            queue, offset, max_messages=rng.randint(1, BATCH_MAX), wait=rng.choice((0.0, 0.5))
        )
        if pulled.status is not PullStatus.FOUND:
            return pulled.next_offset
        await _handle(rng)
        may_lack = (
            self.ledger.losses.is_doubtful(queue.broker)
            or queue.broker in self.ledger.messages.damaged_stores
        )
        for expected, message in enumerate(pulled.messages, offset):
            if message.queue_offset != expected and not may_lack:
                self.violate(
                    f"a pull of {queue} from {offset} has {message.queue_offset} instead of {expected}"
                )
            place = Place(queue.broker, message.stored_topic, queue.queue_id, message.queue_offset)
            self.read(message.body.decode(), place, message.record.store_timestamp)
            self.ledger.groups.succeeded(self._group, message.body.decode(), place)
        commit = self.ledger.offsets.begin(self._cell(queue), pulled.next_offset)
        await consumer.commit(queue, pulled.next_offset)
        self.ledger.offsets.answered(commit)
        return pulled.next_offset


async def _handle(rng: random.Random) -> None:
    """Take the time that a program needs for its messages."""
    await asyncio.sleep(rng.uniform(*(STALL_SECONDS if rng.random() < STALL_CHANCE else HANDLE_SECONDS)))
