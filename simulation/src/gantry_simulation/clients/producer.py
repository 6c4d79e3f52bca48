"""A program that sends numbered messages with the SDK's Producer: plain ones, keyed ones, batches, and some in order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from gantry_chassis.process import Life
from gantry_simulation.clients.program import Program
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.ledger.places import Place
from gantry_simulation.processes.process import Process
from gantry_wire.messages.properties import GANTRY_KEY
from gantrymq import GantryError, Message, MessageQueue, Producer, SendResult
from gantrymq.producer.batching.batches import BatchIncomplete

SEND_SECONDS = 2.0
KEYED_TRIES = 4
"""How often a keyed message is sent until its outcome is known."""
BURST_MAX = 4
SHARDING_KEYS = 3


class SendingProgram(Program):
    """Sends in one life of its process after the other; numbers continue. `stop` ends it after outstanding sends."""

    def __init__(
        self, process: Process, ledger: Ledger, nameservers: str, topic: str, orderly_topic: str
    ) -> None:
        super().__init__(process, ledger)
        self.is_sending: bool = True
        """Set it to False to send nothing further."""
        self.pause_seconds: float = 0.2
        """Mean pause between two bursts."""
        self._nameservers = nameservers
        self._topic, self._orderly_topic = topic, orderly_topic
        self._sent = 0

    async def _main(self, life: Life) -> None:
        rng = self.rng("sends")
        async with Producer(
            "senders",
            nameservers=self._nameservers,
            machine=life.environment,
            send_timeout=SEND_SECONDS,
            route_poll_interval=5.0,
        ) as producer:
            kinds = (self._plain, self._keyed, self._batch, self._in_order)
            while not await life.sleep(rng.uniform(0, 2 * self.pause_seconds)):
                self._is_working = self.is_sending
                try:
                    if self.is_sending:
                        await rng.choice(kinds)(producer, rng)
                except GantryError:
                    continue
                finally:
                    self._is_working = False

    def _text(self) -> str:
        self._sent += 1
        text = f"{self.process.name}-{self._sent}"
        self.ledger.messages.sent.add(text)
        return text

    def _message(self, topic: str, **options: str) -> Message:
        return Message(topic, self._text().encode(), **options)  # pyright: ignore[reportArgumentType]

    def _may_repeat(self, messages: Sequence[Message]) -> None:
        """Record that the SDK sends these again when no answer comes."""
        self.ledger.messages.may_repeat.update(message.body.decode() for message in messages)

    async def _plain(self, producer: Producer, rng: random.Random) -> None:
        messages = [self._message(self._topic) for _ in range(rng.randint(1, BURST_MAX))]
        self._may_repeat(messages)
        sent = [producer.send_soon(message) for message in messages]
        results = await asyncio.gather(*sent, return_exceptions=True)
        self._note(messages, results)

    async def _keyed(self, producer: Producer, _rng: random.Random) -> None:
        text = self._text()
        self.ledger.messages.key_of[text] = text
        message = Message(self._topic, text.encode(), properties={GANTRY_KEY: text})
        queues = await producer.queues(self._topic)
        for _ in range(KEYED_TRIES):
            try:
                self._note([message], [await producer.send(message, queue=queues[0])])
            except GantryError:
                continue
            return

    async def _batch(self, producer: Producer, rng: random.Random) -> None:
        messages = [self._message(self._topic) for _ in range(rng.randint(2, BURST_MAX))]
        self._may_repeat(messages)
        try:
            self._note(messages, await producer.send_batch(messages))
        except BatchIncomplete as incomplete:
            self._note(messages, incomplete.results)

    async def _in_order(self, producer: Producer, rng: random.Random) -> None:
        """Send with one sharding key. It moves to another queue when a store leaves, or comes back."""
        key = f"key {rng.randrange(SHARDING_KEYS)}"
        latest: dict[MessageQueue, int] = {}
        for _ in range(rng.randint(1, BURST_MAX)):
            message = self._message(self._orderly_topic, sharding_key=key)
            self._may_repeat([message])
            result = await producer.send(message)
            self._note([message], [result])
            before = latest.get(result.queue, -1)
            if result.queue_offset <= before:
                words = (
                    f"{message.body.decode()} is stored at {result.queue_offset}, the one before at {before}"
                )
                self.violate(words)
            latest[result.queue] = result.queue_offset

    def _note(self, messages: Sequence[Message], results: Sequence[SendResult | BaseException]) -> None:
        for message, result in zip(messages, results, strict=True):
            if isinstance(result, SendResult):
                queue = result.queue
                place = Place(queue.broker, message.topic, queue.queue_id, result.queue_offset)
                self.stored(message.body.decode(), place)
            elif not isinstance(result, GantryError):
                raise result
