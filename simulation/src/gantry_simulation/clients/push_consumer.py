"""A program that consumes with the SDK's PushConsumer. Its listener fails and stalls by the seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from gantry_chassis.process import Life
from gantry_simulation.clients.program import Program
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.ledger.ordering import Call, OrderlyQueues, Queue
from gantry_simulation.ledger.places import Place
from gantry_simulation.processes.process import Process
from gantry_wire.bodies.clients import ConsumeFromWhere
from gantrymq import ConsumeResult, MessageQueue, PushConsumer, ReceivedMessage


class ListenerFails(Exception):
    """The listener fails, as the seed wants."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What happens to a listener. Chances are 0 to 1, ranges seconds (least, most)."""

    fail_chance: float = 0.05
    stall_chance: float = 0.05
    stall_seconds: tuple[float, float] = (0.001, 2.0)


class ConsumingProgram(Program):
    """A member of a group, in one life of its process after the other. `stop` closes the consumer."""

    def __init__(
        self,
        process: Process,
        ledger: Ledger,
        nameservers: str,
        group: str,
        topic: str,
        *,
        orderly: bool,
        trouble: Trouble,
    ) -> None:
        super().__init__(process, ledger)
        self.trouble = trouble
        self.group = group
        self._nameservers, self._topic = nameservers, topic
        self._orderly: OrderlyQueues | None = ledger.groups.in_order(group) if orderly else None
        self._consumer: PushConsumer | None = None

    def start(self) -> None:
        """Start it."""
        self._consumer = None
        super().start()

    @property
    def queues(self) -> Sequence[MessageQueue]:
        """The queues that it has now, without those of its retry topic; none while it does not run."""
        consumer = self._consumer
        if consumer is None or not self.process.is_running:
            return ()
        return [queue for queue in consumer.queues if queue.topic == self._topic]

    async def _main(self, life: Life) -> None:
        consumer = PushConsumer(
            self.group,
            nameservers=self._nameservers,
            machine=life.environment,
            orderly=self._orderly is not None,
            start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            rebalance_interval=5.0,
            commit_interval=1.0,
            hold_seconds=5.0,
            suspend_seconds=0.2,
            consume_timeout=10.0,
            route_poll_interval=5.0,
        )
        consumer.subscribe(self._topic)
        number = self.process.lives
        rng = self.rng("listener")

        def is_alive() -> bool:
            return self.process.is_running and self.process.lives == number

        async def listen(messages: list[ReceivedMessage]) -> ConsumeResult | None:
            call = Call(self.process.name, number, is_alive, messages[0].queue_offset)
            return await self._listen(messages, call, rng)

        consumer.on_messages(listen)
        async with consumer:
            self._consumer = consumer
            await life.stopping.wait()
            self._consumer = None

    async def _listen(
        self, messages: Sequence[ReceivedMessage], call: Call, rng: random.Random
    ) -> ConsumeResult | None:
        placed = [(one.body.decode(), _place(one)) for one in messages]
        for (text, place), message in zip(placed, messages, strict=True):
            self.read(text, place, message.record.store_timestamp)
        queue, orderly = self._orderly_queue(placed[0][1])
        if orderly is not None:
            orderly.begin(queue, call)
        success = False
        try:
            if rng.random() < self.trouble.stall_chance:
                await asyncio.sleep(rng.uniform(*self.trouble.stall_seconds))
            success = rng.random() >= self.trouble.fail_chance
        finally:
            if orderly is not None:
                orderly.end(queue, call, success=success)
        if not success:
            self.ledger.groups.failed += 1
            if rng.random() < 0.5:
                raise ListenerFails
            return ConsumeResult.RECONSUME_LATER
        for text, place in placed:
            self.ledger.groups.succeeded(self.group, text, place)
        return None

    def _orderly_queue(self, place: Place) -> tuple[Queue, OrderlyQueues | None]:
        """Return the queue of a place, and its order if the store promises one."""
        is_ordered = place.topic == self._topic and not self.ledger.losses.is_doubtful(place.store)
        return (place.store, place.queue), self._orderly if is_ordered else None


def _place(message: ReceivedMessage) -> Place:
    return Place(message.broker, message.stored_topic, message.queue_id, message.queue_offset)
