"""Traffic of every kind over HTTP, each journey in its own thread, reported to the ledger.

Every send has an idempotency key and is repeated until its answer is definite; so are decisions, acks and cancels.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from gantry_loadtest.mixed.calling import Http
from gantry_loadtest.mixed.ledger import Fate, Item, Ledger

TOPICS = ("mixed-due", "mixed-txn", "mixed-work", "mixed-poison")
PRODUCERS = "mixed-producers"
WORKERS, POISONED = "mixed-workers", "mixed-poisoned"
ATTEMPTS_MAX = 3
PAUSE_SECONDS = 0.02


def milliseconds(text: str) -> int:
    """Return an RFC 3339 time as milliseconds since 1970."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


class Journey(threading.Thread):
    """Repeats `step` until stopped; `finish` re-raises an exception that ended it."""

    pause_seconds = PAUSE_SECONDS
    is_sender = False
    """Whether it sends messages: senders end first, consumers when all is done."""

    def __init__(self, base: str, ledger: Ledger, seed: int, run: str) -> None:
        super().__init__(daemon=True, name=type(self).__name__)
        self.http, self.ledger, self.run_name = Http(base), ledger, run
        self.dice = random.Random(seed)  # noqa: S311 - to see the same run again, not to be secret
        self.stopping = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Repeat the step; keep the exception that ends it for `finish`."""
        try:
            for number in itertools.count():
                if self.stopping:
                    return
                self.step(f"{type(self).__name__}-{self.run_name}-{number}")
                time.sleep(self.pause_seconds)
        except BaseException as error:  # noqa: BLE001 - finish() reports it to the test
            self.failure = error
        finally:
            self.http.close()

    def step(self, name: str) -> None:  # noqa: ARG002 - not each journey sends
        """Do one piece of traffic; its message has this name."""
        raise AssertionError("a journey has steps")

    def finish(self) -> None:
        """Stop it and wait for its end; raise the exception that ended it before."""
        self.stopping = True
        self.join(300)
        assert not self.is_alive(), f"{type(self).__name__} hangs"
        if self.failure is not None:
            raise self.failure

    def send(self, topic: str, name: str, kind: str, **more: object) -> tuple[Item, dict[str, Any]]:
        """Send one keyed message; return its item and its result."""
        item = self.ledger.attempt(name, kind)
        item.is_consumed = kind == "work"
        message = {"body": name, "idempotencyKey": name, **more}
        status, answer = self.http.insist("POST", f"/v1/topics/{topic}/messages", {"messages": [message]})
        assert status == 200, f"send of {name}: {status} {answer}"
        result = answer["results"][0]
        if result.get("deliverAt"):
            item.due_ms = milliseconds(result["deliverAt"])
        item.is_acknowledged = True
        return item, result


class Delays(Journey):
    """Levels and instants; a quarter of them is cancelled, some too late."""

    is_sender = True
    longest_ms = 4000

    def step(self, name: str) -> None:  # noqa: D102 - see the base class
        delay: dict[str, object] = (
            {"delayLevel": self.dice.choice((1, 1, 2))}
            if self.dice.random() < 0.4
            else {"delayMs": self.dice.randrange(50, self.longest_ms)}
        )
        is_cancelled = self.dice.random() < 0.25
        if is_cancelled:
            self.ledger.attempt(name, "delay").fate = Fate.OPEN  # until its cancel is answered
        item, result = self.send("mixed-due", name, "delay", **delay)
        if is_cancelled:
            if self.dice.random() < 0.3:
                time.sleep(1.0)
            self._cancel(name, item, result["messageId"])

    def _cancel(self, name: str, item: Item, message_id: str) -> None:
        status, answer = self.http.insist("DELETE", f"/v1/schedules/{message_id}")
        if status == 200:
            item.fate = Fate.NEVER
        elif status == 409:
            item.fate = Fate.ONCE
        else:
            # A repeat of a cancel whose answer was lost may find nothing; the send proved that the message existed.
            assert status == 404, f"cancel of {name}: {status} {answer}"


class Transactions(Journey):
    """Begun, then committed, rolled back, or abandoned by their producer; `Answers` decides abandoned ones."""

    is_sender = True

    def step(self, name: str) -> None:  # noqa: D102 - see the base class
        item = self.ledger.attempt(name, "transaction")
        item.fate = Fate.OPEN
        fate = self.dice.choice(("commit", "commit", "rollback", "forget"))
        properties = {"wish": "rollback" if fate == "rollback" else "commit"}
        body = {
            "producerGroup": PRODUCERS,
            "message": {"body": name, "idempotencyKey": name, "properties": properties},
        }
        status, answer = self.http.insist("POST", "/v1/topics/mixed-txn/transactions", body)
        assert status == 200, f"begin of {name}: {status} {answer}"
        item.is_acknowledged = True
        item.fate = Fate.NEVER if fate == "rollback" else Fate.ONCE
        if fate != "forget":
            status, answer = self.http.insist("POST", f"/v1/transactions/{answer['transactionId']}:{fate}")
            assert status == 200, f"{fate} of {name}: {status} {answer}"


class Answers(Journey):
    """Answers the checks of abandoned transactions as their producer would: by the content of the message."""

    def step(self, name: str) -> None:  # noqa: ARG002, D102 - see the base class
        path = f"/v1/producerGroups/{PRODUCERS}/checks:receive"
        status, answer = self.http.call("POST", path, {"waitSeconds": 2})
        for check in answer.get("checks", []) if status == 200 else []:
            wish = check["message"]["properties"]["wish"]
            status, decided = self.http.insist("POST", f"/v1/transactions/{check['transactionId']}:{wish}")
            assert status in {200, 404}, f"{wish} of a check: {status} {decided}"


class Work(Journey):
    """Sends messages for `Workers`."""

    is_sender = True

    def step(self, name: str) -> None:  # noqa: D102 - see the base class
        self.send("mixed-work", name, "work")


class Poison(Journey):
    """Sends messages no consumer can process: each must be dead-lettered, once."""

    is_sender = True

    def step(self, name: str) -> None:  # noqa: D102 - see the base class
        self.send("mixed-poison", name, "poison")
        time.sleep(0.2)


class Workers(Journey):
    """Receives and acknowledges; sometimes lets a lease run out or returns a message."""

    topic, group = "mixed-work", WORKERS
    lease_seconds = 10

    def step(self, name: str) -> None:  # noqa: ARG002, D102 - see the base class
        base = f"/v1/topics/{self.topic}/groups/{self.group}/messages"
        status, answer = self.http.call(
            "POST",
            f"{base}:receive",
            {"maxMessages": 16, "waitSeconds": 1, "invisibleSeconds": self.lease_seconds},
        )
        messages = answer.get("messages", []) if status == 200 else []
        for message in messages:
            self.ledger.received(message["body"])
        if messages:
            self.settle(base, messages)

    def settle(self, base: str, messages: list[dict[str, Any]]) -> None:
        """Settle the received messages."""
        acks, nacks = list[dict[str, Any]](), list[dict[str, Any]]()
        for message in messages:
            rng = self.dice.random()
            if rng < 0.90:
                acks.append(message)
            elif rng < 0.97:
                nacks.append(message)
        self.tell(base, acks, nacks, lambda: self.dice.choice((0, 1)))

    def tell(
        self, base: str, acks: list[dict[str, Any]], nacks: list[dict[str, Any]], delay: Callable[[], int]
    ) -> None:
        """Acknowledge some messages, and return the others for redelivery after this many seconds."""
        body = {
            "acks": [{"receiptHandle": message["receiptHandle"]} for message in acks],
            "nacks": [
                {"receiptHandle": message["receiptHandle"], "delaySeconds": delay(), "reason": "tried"}
                for message in nacks
            ],
        }
        if not acks and not nacks:
            return
        status, answer = self.http.insist("POST", f"{base}:ack", body)
        assert status == 200, f"ack: {status} {answer}"
        for message, result in zip(acks, answer["results"], strict=False):
            if result.get("status") == "acked":  # a message its broker could not take has a code instead
                self.ledger.acked(message["body"])


class Poisoned(Workers):
    """Refuses everything, so that all messages are dead-lettered."""

    topic, group = "mixed-poison", POISONED

    def settle(self, base: str, messages: list[dict[str, Any]]) -> None:  # noqa: D102 - see the base class
        self.tell(base, [], messages, lambda: 0)


ALL: tuple[type[Journey], ...] = (Delays, Transactions, Answers, Work, Workers, Poison, Poisoned)
