"""A program that sends messages in transactions with the SDK's TransactionProducer. The seed decides about each."""

from __future__ import annotations

import random

from gantry_chassis.process import Life
from gantry_simulation.clients.ledger import Ledger
from gantry_simulation.processes.process import Process
from gantrymq import GantryError, Message, ReceivedMessage, TransactionProducer, TransactionState

COMMIT, ROLLBACK = TransactionState.COMMIT_MESSAGE, TransactionState.ROLLBACK_MESSAGE
UNKNOWN = TransactionState.UNKNOW
SEND_SECONDS = 2.0


class TransactionProgram:
    """Sends in one life of its process after the other. A message is forbidden in the ledger until its transaction is committed."""

    def __init__(self, process: Process, ledger: Ledger, nameservers: str, topic: str) -> None:
        self.process = process
        self.pause_seconds: float = 0.2
        """Mean pause between two transactions."""
        self.unknown_chance: float = 0.2
        """Chance that the listener cannot tell the outcome at once. The broker asks for it, if a txn-checker runs."""
        self.decided: dict[str, TransactionState] = {}
        """The decision of the listener, by the text of the message; UNKNOWN before there is one."""
        self._ledger, self._nameservers, self._topic = ledger, nameservers, topic
        self._outcomes: dict[str, TransactionState] = {}
        self._sent = 0

    def start(self) -> None:
        """Start it."""
        self.process.start(self._main)

    async def _main(self, life: Life) -> None:
        rng = self._ledger.world.rng(f"transactions of {self.process.name} in life {self.process.lives}")
        async with TransactionProducer(
            "payers",
            _Listener(self, rng),
            nameservers=self._nameservers,
            machine=life.environment,
            send_timeout=SEND_SECONDS,
            route_poll_interval=5.0,
        ) as producer:
            while not await life.sleep(rng.uniform(0, 2 * self.pause_seconds)):
                self._sent += 1
                text = f"{self.process.name}-{self._sent}"
                self._ledger.forbidden.add(text)
                try:
                    await producer.send_in_transaction(Message(self._topic, text.encode()))
                except GantryError:
                    continue

    def execute(self, text: str, rng: random.Random) -> TransactionState:
        """Run the transaction of a message; return what is known at once."""
        self._outcomes[text] = rng.choice((COMMIT, COMMIT, ROLLBACK))
        if rng.random() < self.unknown_chance:
            self.decided[text] = UNKNOWN
            return UNKNOWN
        return self.decide(text)

    def decide(self, text: str) -> TransactionState:
        """Return the outcome of a message's transaction."""
        outcome = self.decided[text] = self._outcomes.get(text, ROLLBACK)
        if outcome is COMMIT:
            self._ledger.forbidden.discard(text)
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
