"""Asks producers about transactions that nobody decided: RecoverOrphanedTransactionCommand.

While producers of a topic are connected here, a request for the topic's checks is held at the checkers. The checkers ask again until a
transaction is decided, so nothing is lost if the producer that was asked dies. Each check goes to one of the gateways that wait for it.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final

from gantry_wire.private_requests.transactions import TakenCheck
from gateway.grpc.clients import Clients
from gateway.grpc.messages.accepted_types import accepted_types
from gateway.grpc.messages.delivered import message_of
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.enums import MessageType
from gateway.grpc.proto.telemetry import RecoverOrphanedTransactionCommand, TelemetryCommand
from gateway.http.problems import Problem
from gateway.transactions.transactions import Check, TopicRights, Transactions

LOOK_SECONDS: Final = 1.0
"""Interval at which topics are looked for that have got producers."""
HOLD_SECONDS: Final = 5.0
"""How long a request is held: a topic without producers is left after this time."""
CHECKS_AT_ONCE_MAX: Final = 32
TOPICS_MAX: Final = 2000
"""Topics whose checks are waited for at once: each is a request that is held. Producers may name topics that do not exist."""
PUSHED_MAX: Final = 10_000
"""Checks of a topic that are known as pushed, for a checker that did not take the note, or knows no such notes."""


class Orphans:
    """The checks of the topics whose producers are connected to this process."""

    def __init__(
        self, transactions: Transactions, clients: Clients, known_type: Callable[[str], str | None]
    ) -> None:
        """`known_type` returns a topic's attribute `message.type`, "" if it has none, None if that is not known."""
        self._transactions, self._clients, self._known_type = transactions, clients, known_type
        self._draining = asyncio.Event()
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._turns = count()
        self.pushed = 0
        """How many checks were passed to producers."""

    @property
    def topics(self) -> list[str]:
        """The topics whose checks are waited for."""
        return list(self._watches)

    def drain(self) -> None:
        """Wait for no checks from now on; `run` then ends."""
        self._draining.set()

    async def run(self) -> None:
        """Wait for the checks of all topics with connected producers, until drained."""
        async with asyncio.TaskGroup() as group:
            while not self._draining.is_set():
                for topic in filter(self._is_wanted, self._clients.topics_of_producers()):
                    if topic not in self._watches and len(self._watches) < TOPICS_MAX:
                        watch = self._watches[topic] = group.create_task(self._watch(topic))
                        watch.add_done_callback(lambda _done, topic=topic: self._watches.pop(topic))
                await self._pause(LOOK_SECONDS)
            for watch in self._watches.values():
                watch.cancel()

    async def _watch(self, topic: str) -> None:
        """Pass the checks of a topic on for as long as it has producers here."""
        rights = _only(topic)
        pushed: dict[str, int] = {}
        taken: list[TakenCheck] = []
        while self._clients.producers_of(topic) and self._is_wanted(topic) and not self._draining.is_set():
            try:
                checks = await self._transactions.receive_checks(
                    topic, CHECKS_AT_ONCE_MAX, HOLD_SECONDS, rights, taken
                )
            except Problem:  # no broker or nameserver answers
                await self._pause(LOOK_SECONDS)
                continue
            taken = []
            for check in checks:
                if pushed.get(check.transaction_id) == check.attempt or self._push(topic, check):
                    pushed[check.transaction_id] = check.attempt
                    taken.append(TakenCheck(key=check.key, broker=check.broker, attempt=check.attempt))
            while len(pushed) > PUSHED_MAX:
                del pushed[next(iter(pushed))]

    def _push(self, topic: str, check: Check) -> bool:
        """Ask the next producer of the topic, or another one if it does not take the question; False if none does."""
        command = TelemetryCommand(
            recover_orphaned_transaction_command=RecoverOrphanedTransactionCommand(
                message=message_of(check.record, Resource(name=topic)), transaction_id=check.transaction_id
            )
        )
        producers = self._clients.producers_of(topic)
        turn = next(self._turns)
        for n in range(len(producers)):
            if self._clients.push(producers[(turn + n) % len(producers)].id, command):
                self.pushed += 1
                return True
        return False

    def _is_wanted(self, topic: str) -> bool:
        """Whether the topic may have transactions; one whose type nobody has asked for may."""
        return MessageType.TRANSACTION in accepted_types(self._known_type(topic) or "")

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._draining.wait()
        except TimeoutError:
            pass


def _only(topic: str) -> TopicRights:
    """Return the right to decide about one topic: a producer group of RocketMQ's remoting clients may have the name of a topic."""

    def refuse(other: str) -> None:
        raise Problem(403, "NO_PERMISSION", f"topic {other} is none of producers of topic {topic}")

    rights = TopicRights(refuse)
    rights.permitted[topic] = None
    return rights
