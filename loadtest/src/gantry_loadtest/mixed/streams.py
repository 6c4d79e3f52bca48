"""More journeys for long runs: batches, unkeyed sends, ordered sends, and consumers that are too slow."""

from __future__ import annotations

import itertools
import time
from typing import Any

from gantry_loadtest.mixed.journeys import Journey, Workers
from gantry_loadtest.mixed.key_order import KeyOrder
from gantry_loadtest.mixed.ledger import Ledger

PLAIN, KEYED, ORDERED = "mixed-plain", "mixed-keyed", "mixed-order"
ORDERLY, SLOW = "mixed-orderly", "mixed-slow"
SHARDING_KEYS = 16


class Batches(Journey):
    """Sends requests of many messages; names are numbered over all of them."""

    is_sender = True
    topic, kind, count = "", "", 10

    def __init__(self, base: str, ledger: Ledger, seed: int, run: str) -> None:
        super().__init__(base, ledger, seed, run)
        self._numbers = itertools.count()

    def names(self) -> list[str]:
        """Return the names of the next request."""
        sender = f"{type(self).__name__}.{self.run_name}"
        return [f"{sender}-{next(self._numbers)}" for _ in range(self.count)]

    def send_all(self, messages: list[dict[str, Any]]) -> None:
        """Send keyed messages, and repeat those without a definite answer, in order."""
        left = messages
        while left:
            status, answer = self.http.insist("POST", f"/v1/topics/{self.topic}/messages", {"messages": left})
            assert status == 200, f"send of {left[0]['body']}: {status} {answer}"
            again: list[dict[str, Any]] = []
            for message, result in zip(left, answer["results"], strict=True):
                if result.get("status") == "SEND_OK":
                    self.ledger.attempt(message["body"], self.kind).is_acknowledged = True
                else:
                    assert result.get("retryable"), f"send of {message['body']}: {result}"
                    again.append(message)
            left = again
            if left:
                time.sleep(0.1)


class Plain(Batches):
    """Messages without a key, sent once: an unacknowledged one may be stored or not."""

    topic, kind, count, pause_seconds = PLAIN, "plain", 20, 0.2

    def step(self, name: str) -> None:  # noqa: ARG002, D102 - see the base class
        names = self.names()
        items = [self.ledger.attempt(one, self.kind) for one in names]
        body = {"messages": [{"body": one} for one in names]}
        status, answer = self.http.call("POST", f"/v1/topics/{self.topic}/messages", body)
        if status == 200:
            for item, result in zip(items, answer["results"], strict=True):
                item.is_acknowledged = result.get("status") == "SEND_OK"


class Keyed(Batches):
    """Messages with idempotency keys, repeated until acknowledged: stored once."""

    topic, kind, count, pause_seconds = KEYED, "keyed", 10, 0.2

    def step(self, name: str) -> None:  # noqa: ARG002, D102 - see the base class
        names = self.names()
        for one in names:
            self.ledger.attempt(one, self.kind)
        self.send_all([{"body": one, "idempotencyKey": one} for one in names])


class Orderly(Batches):
    """Messages of a few sharding keys; the next of a key is sent once the one before is acknowledged."""

    topic, kind, count, pause_seconds = ORDERED, "orderly", SHARDING_KEYS, 0.8

    def step(self, name: str) -> None:  # noqa: ARG002, D102 - see the base class
        names = self.names()
        for one in names:
            self.ledger.attempt(one, self.kind).is_consumed = True
        self.send_all(
            [
                {"body": one, "idempotencyKey": one, "shardingKey": f"{self.run_name}-{place}"}
                for place, one in enumerate(names)
            ]
        )


class OrderlyWorkers(Workers):
    """Consumes them in a group that keeps the order of each key, and reports disorder."""

    topic, group, pause_seconds = ORDERED, ORDERLY, 0.05

    def __init__(self, base: str, ledger: Ledger, seed: int, run: str) -> None:
        super().__init__(base, ledger, seed, run)
        self._order = KeyOrder(SHARDING_KEYS)

    def settle(self, base: str, messages: list[dict[str, Any]]) -> None:
        """Acknowledge most, return some; the next of a key may arrive only after the acknowledged one."""
        for message in messages:
            if not self._order.is_next(message["shardingKey"], number_of(message)):
                self.ledger.disordered(message["body"])
        acks = [message for message in messages if self.dice.random() < 0.95]
        nacks = [message for message in messages if message not in acks]
        if nacks:
            self.tell(base, [], nacks, lambda: 0)
        is_repeat = False
        while acks:
            repeats = self.http.repeats
            body = {"acks": [{"receiptHandle": message["receiptHandle"]} for message in acks]}
            status, answer = self.http.insist("POST", f"{base}:ack", body)
            assert status == 200, f"ack: {status} {answer}"
            is_repeat = is_repeat or self.http.repeats > repeats
            acks = self._take_results(acks, answer["results"], is_repeat=is_repeat)
            if acks:
                is_repeat = True
                time.sleep(0.2)

    def _take_results(
        self, acks: list[dict[str, Any]], results: list[dict[str, Any]], *, is_repeat: bool
    ) -> list[dict[str, Any]]:
        """Record the results of acknowledgements; return those to repeat: their broker is down, only a repeat tells what happened."""
        again: list[dict[str, Any]] = []
        for message, result in zip(acks, results, strict=True):
            if result.get("status") == "acked":
                self._order.done(message["shardingKey"], number_of(message))
                self.ledger.acked(message["body"])
            elif "code" in result:
                again.append(message)
            elif is_repeat:
                self._order.perhaps_done(message["shardingKey"], number_of(message))
        return again


def number_of(message: dict[str, Any]) -> int:
    """Return the number at the end of a message's name."""
    return int(message["body"].rpartition("-")[2])


class SlowWorkers(Workers):
    """Consumes too slowly and falls behind, until retention deletes unread messages."""

    topic, group, pause_seconds = KEYED, SLOW, 1.0

    def __init__(self, base: str, ledger: Ledger, seed: int, run: str) -> None:
        super().__init__(base, ledger, seed, run)
        self.taken = 0
        """How many it acknowledged."""

    def step(self, name: str) -> None:  # noqa: ARG002, D102 - see the base class
        base = f"/v1/topics/{self.topic}/groups/{self.group}/messages"
        status, answer = self.http.call(
            "POST", f"{base}:receive", {"maxMessages": 16, "waitSeconds": 5, "invisibleSeconds": 30}
        )
        messages = answer.get("messages", []) if status == 200 else []
        if not messages:
            return
        time.sleep(self.dice.uniform(0.0, 1.0))
        body = {"acks": [{"receiptHandle": message["receiptHandle"]} for message in messages]}
        status, answer = self.http.insist("POST", f"{base}:ack", body)
        assert status == 200, f"ack: {status} {answer}"
        for result in answer["results"]:
            self.taken += result.get("status") == "acked"


LONG: tuple[type[Journey], ...] = (Plain, Keyed, Orderly, OrderlyWorkers, SlowWorkers)
