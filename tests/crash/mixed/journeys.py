"""Traffic of every kind over HTTP, each journey in a thread of its own, telling the books what was promised.

Every send carries an idempotency key and is repeated until its answer is definite; so are decisions, acks and cancels.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from .books import Books, Fate
from .system import Http

TOPICS = ("mixed-due", "mixed-txn", "mixed-work", "mixed-poison")
PRODUCERS = "mixed-producers"
WORKERS, POISONED = "mixed-workers", "mixed-poisoned"
ATTEMPTS_MAX = 3
PAUSE_SECONDS = 0.02


def milliseconds(text: str) -> int:
    """Of an RFC 3339 time."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


class Journey(threading.Thread):
    """Repeats `step` until told to stop; an exception ends it and is raised by `finish`."""

    def __init__(self, base: str, books: Books, seed: int, run: str) -> None:
        super().__init__(daemon=True)
        self.http, self.books, self.dice, self.run_name = Http(base), books, random.Random(seed), run
        self.stopping = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for number in itertools.count():
                if self.stopping:
                    return
                self.step(f"{type(self).__name__}-{self.run_name}-{number}")
                time.sleep(PAUSE_SECONDS)
        except BaseException as error:  # noqa: BLE001 - told to the test by finish()
            self.failure = error
        finally:
            self.http.close()

    def step(self, name: str) -> None:
        raise AssertionError("a journey has steps")

    def finish(self) -> None:
        self.stopping = True
        self.join(300)
        assert not self.is_alive(), f"{type(self).__name__} hangs"
        if self.failure is not None:
            raise self.failure

    def send(self, topic: str, name: str, kind: str, **more: object) -> dict[str, Any]:
        """Send one keyed message; returns its result."""
        item = self.books.attempt(name, kind)
        message = {"body": name, "idempotencyKey": name, **more}
        status, answer = self.http.insist("POST", f"/v1/topics/{topic}/messages", {"messages": [message]})
        assert status == 200, f"send of {name}: {status} {answer}"
        result = answer["results"][0]
        item.is_acknowledged = True
        if result.get("deliverAt"):
            item.due_ms = milliseconds(result["deliverAt"])
        return result


class Delays(Journey):
    """Levels and instants, a quarter of them cancelled, some of those too late."""

    def step(self, name: str) -> None:
        delay: dict[str, object] = (
            {"delayLevel": self.dice.choice((1, 1, 2))}
            if self.dice.random() < 0.4
            else {"delayMs": self.dice.randrange(50, 4000)}
        )
        result = self.send("mixed-due", name, "delay", **delay)
        if self.dice.random() < 0.25:
            if self.dice.random() < 0.3:
                time.sleep(1.0)
            self._cancel(name, result["messageId"])

    def _cancel(self, name: str, message_id: str) -> None:
        item = self.books.items[name]
        item.fate = Fate.OPEN
        status, answer = self.http.insist("DELETE", f"/v1/schedules/{message_id}")
        if status == 200:
            item.fate = Fate.NEVER
        elif status == 409:
            item.fate = Fate.ONCE
        else:
            # A repeat of a cancel whose answer was lost may find nothing any more; that it was there, its send was told.
            assert status == 404, f"cancel of {name}: {status} {answer}"


class Transactions(Journey):
    """Begun, then committed, rolled back, or forgotten by their producer; forgotten ones are decided by `Answers`."""

    def step(self, name: str) -> None:
        item = self.books.attempt(name, "transaction")
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
    """Answers the checks of forgotten transactions as their producer would: by what the message itself says."""

    def step(self, name: str) -> None:
        path = f"/v1/producerGroups/{PRODUCERS}/checks:receive"
        status, answer = self.http.call("POST", path, {"waitSeconds": 2})
        for check in answer.get("checks", []) if status == 200 else []:
            wish = check["message"]["properties"]["wish"]
            status, decided = self.http.insist("POST", f"/v1/transactions/{check['transactionId']}:{wish}")
            assert status in {200, 404}, f"{wish} of a check: {status} {decided}"


class Work(Journey):
    """Sends what `Workers` consume."""

    def step(self, name: str) -> None:
        self.send("mixed-work", name, "work")


class Poison(Journey):
    """Sends what no consumer can do: it must end in the dead letters, once."""

    def step(self, name: str) -> None:
        self.send("mixed-poison", name, "poison")
        time.sleep(0.2)


class Workers(Journey):
    """Receives, acknowledges; sometimes lets a lease run out or gives a message back for a while."""

    topic, group = "mixed-work", WORKERS

    def step(self, name: str) -> None:
        base = f"/v1/topics/{self.topic}/groups/{self.group}/messages"
        status, answer = self.http.call(
            "POST", f"{base}:receive", {"maxMessages": 16, "waitSeconds": 1, "invisibleSeconds": 10}
        )
        messages = answer.get("messages", []) if status == 200 else []
        for message in messages:
            self.books.received(message["body"])
        if messages:
            self.settle(base, messages)

    def settle(self, base: str, messages: list[dict[str, Any]]) -> None:
        """Decide about what was received."""
        acks, nacks = list[dict[str, Any]](), list[dict[str, Any]]()
        for message in messages:
            chance = self.dice.random()
            if chance < 0.90:
                acks.append(message)
            elif chance < 0.97:
                nacks.append(message)
        self._tell(base, acks, nacks, lambda: self.dice.choice((0, 1)))

    def _tell(
        self, base: str, acks: list[dict[str, Any]], nacks: list[dict[str, Any]], delay: Callable[[], int]
    ) -> None:
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
            if result.get("status") == "acked":  # one that its broker could not take has a code instead
                self.books.acked(message["body"])


class Poisoned(Workers):
    """Refuses everything, so that all of it dies after its attempts."""

    topic, group = "mixed-poison", POISONED

    def settle(self, base: str, messages: list[dict[str, Any]]) -> None:
        self._tell(base, [], messages, lambda: 0)


ALL: tuple[type[Journey], ...] = (Delays, Transactions, Answers, Work, Workers, Poison, Poisoned)
