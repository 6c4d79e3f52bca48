"""A program that sends messages in transactions with the SDK's TransactionProducer. The seed decides about each."""

from __future__ import annotations

import random

from gantry_chassis.process import Life
from gantry_simulation.clients.program import Program
from gantry_simulation.ledger import transactions as known
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.processes.process import Process
from gantrymq import GantryError, Message, ReceivedMessage, TransactionProducer, TransactionState

COMMIT, ROLLBACK = TransactionState.COMMIT_MESSAGE, TransactionState.ROLLBACK_MESSAGE
UNKNOWN = TransactionState.UNKNOW
SEND_SECONDS = 2.0


class TransactionProgram(Program):
    """Sends messages whose transactions it commits, rolls back, or leaves to a check."""

    def __init__(self, process: Process, ledger: Ledger, nameservers: str, topic: str) -> None:
        super().__init__(process, ledger)
        self.is_sending: bool = True
        """Set it to False to send nothing further."""
        self.pause_seconds: float = 0.2
        """Mean pause between two transactions."""
        self.unknown_chance: float = 0.2
        """Chance that the listener cannot tell the outcome at once. The broker asks for it, if a txn-checker runs."""
        self._nameservers, self._topic = nameservers, topic
        self._outcomes: dict[str, TransactionState] = {}
        self._sent = 0

    async def _main(self, life: Life) -> None:
        rng = self.rng("transactions")
        async with TransactionProducer(
            "payers",
            _Listener(self, rng),
            nameservers=self._nameservers,
            machine=life.environment,
            send_timeout=SEND_SECONDS,
            route_poll_interval=5.0,
        ) as producer:
            while not await life.sleep(rng.uniform(0, 2 * self.pause_seconds)):
                self._is_working = self.is_sending
                try:
                    if self.is_sending:
                        await self._send(producer)
                except GantryError:
                    continue
                finally:
                    self._is_working = False

    async def _send(self, producer: TransactionProducer) -> None:
        self._sent += 1
        text = f"{self.process.name}-{self._sent}"
        self.ledger.messages.sent.add(text)
        self.ledger.transactions.begin(text, self._topic)
        self.ledger.transactions.requested(text, known.ROLLBACK)  # the SDK does, after a failed flush
        message = Message(self._topic, text.encode())
        store = (await producer.send_in_transaction(message)).result.queue.broker
        if not self.ledger.losses.is_doubtful(store):
            self.ledger.transactions.acknowledged(text, store, message.unique_id or "")

    def execute(self, text: str, rng: random.Random) -> TransactionState:
        """Run the transaction of a message; return what is known at once."""
        self._outcomes[text] = rng.choice((COMMIT, COMMIT, ROLLBACK))
        return UNKNOWN if rng.random() < self.unknown_chance else self.decide(text)

    def decide(self, text: str) -> TransactionState:
        """Return the outcome of a message's transaction."""
        outcome = self._outcomes.get(text, ROLLBACK)
        if outcome is COMMIT:
            self.ledger.transactions.requested(text, known.COMMIT)
        return outcome


class _Listener:
    """What the SDK calls."""

    def __init__(self, program: TransactionProgram, rng: random.Random) -> None:
        self._program, self._rng = program, rng

    async def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
        del argument
        return self._program.execute(message.body.decode(), self._rng)

    async def check_local_transaction(self, message: ReceivedMessage) -> TransactionState:
        return self._program.decide(message.body.decode())
