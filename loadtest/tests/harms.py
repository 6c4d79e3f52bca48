"""Damage that a lossy gateway does to messages, one kind a class; each counts what a verdict must count."""

from __future__ import annotations

import json
import math
import threading
import time
import urllib.parse
from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import datetime
from typing import Any

from .lossy_gateway import Call, Forward, Honest, Message, Reply, mark_of


class _OfTransactions(Honest):
    """Maps transactions to their messages."""

    def __init__(self, seed: int, every: int = 5) -> None:
        super().__init__(seed, every)
        self._marks: dict[str, str] = {}

    def noted(self, call: Call, reply: Reply) -> Reply:
        """Record a transaction that began."""
        if call.kind == "begin" and reply.is_done:
            self._marks[reply.json["transactionId"]] = call.mark
        return reply

    def begun(self, transaction: str) -> str:
        """Return the message of a transaction."""
        return self._marks[transaction]


class _OfMessages(Honest, ABC):
    """Damages what readers receive."""

    def answer(self, call: Call, forward: Forward) -> Reply:
        reply = forward(call)
        if call.kind not in {"pull", "receive"} or not reply.is_done:
            return reply
        content = reply.json
        return reply.with_json({**content, "messages": self.given(call, content["messages"])})

    @abstractmethod
    def given(self, call: Call, messages: list[Message]) -> list[Message]:
        """Return the messages that the reader gets instead."""


class Drop(_OfMessages):
    """Removes messages from every response."""

    def given(self, call: Call, messages: list[Message]) -> list[Message]:
        kept: list[Message] = []
        for message in messages:
            mark = mark_of(message["body"])
            if self.picks(mark):
                self.did(call.reader, mark)
            else:
                kept.append(message)
        return kept


class Damage(_OfMessages):
    """Changes the last character of bodies."""

    def given(self, call: Call, messages: list[Message]) -> list[Message]:
        return [self._changed(call, message) for message in messages]

    def _changed(self, call: Call, message: Message) -> Message:
        mark = mark_of(message["body"])
        if not self.picks(mark):
            return message
        self.did(call.reader, mark)
        return {**message, "body": message["body"][:-1] + "y"}


class Hide(Honest):
    """One queue never returns a message: queue 1, or the only queue of one of many topics."""

    def __init__(self, seed: int, every: int = 5) -> None:
        super().__init__(seed, every)
        self._cursors: dict[tuple[str, str, str], int] = {}
        """How far each hidden queue has been read, so that no message counts twice."""

    def answer(self, call: Call, forward: Forward) -> Reply:
        if call.kind == "pull" and self.hides(call.names["topic"], int(call.names["queue"])):
            return self._pulled(call, forward)
        reply = forward(call)
        if call.kind != "receive" or not reply.is_done:
            return reply
        kept: list[Message] = []
        for message in reply.json["messages"]:
            if self.hides(message["topic"], message["queueId"]):
                self.did(call.reader, mark_of(message["body"]))
            else:
                kept.append(message)
        return reply.with_json({"messages": kept})

    def hides(self, topic: str, queue: int) -> bool:
        """Whether this is the queue."""
        return topic.endswith("-t2") or (topic.endswith("-t") and queue == 1)

    def _pulled(self, call: Call, forward: Forward) -> Reply:
        name = (call.names["topic"], call.names["broker"], call.names["queue"])
        path, _, query = call.path.partition("?")
        wanted = dict(urllib.parse.parse_qsl(query))
        asked, wanted["offset"] = wanted["offset"], str(self._cursors.get(name, 0))
        reply = forward(replace(call, path=f"{path}?{urllib.parse.urlencode(wanted)}"))
        if not reply.is_done:
            return reply
        content = reply.json
        for message in content["messages"]:
            self.did("pull", mark_of(message["body"]))
        self._cursors[name] = int(content["nextOffset"])
        return reply.with_json({**content, "status": "NO_NEW_MSG", "nextOffset": int(asked), "messages": []})


class HideAll(Hide):
    """No queue ever returns a message."""

    def hides(self, topic: str, queue: int) -> bool:
        return True


class Duplicate(Honest):
    """Delivers messages twice: at once to clients that pull, after the acknowledgement to a group."""

    def __init__(self, seed: int, every: int = 5) -> None:
        super().__init__(seed, every)
        self._given: dict[str, tuple[str, Message]] = {}
        self._again: dict[tuple[str, int], list[Message]] = {}
        """Duplicates per group and connection: the message goes again to a client that acknowledged it, so the acknowledgement was received."""
        self._repeated: set[tuple[str, str]] = set()

    def answer(self, call: Call, forward: Forward) -> Reply:
        if call.kind == "ack":
            return self._acknowledged(call, forward)
        reply = forward(call)
        if call.kind not in {"pull", "receive"} or not reply.is_done:
            return reply
        content = reply.json
        give = self._pulled if call.kind == "pull" else self._received
        return reply.with_json({**content, "messages": give(call.reader, content["messages"])})

    def _pulled(self, reader: str, messages: list[Message]) -> list[Message]:
        found: list[Message] = []
        for message in messages:
            found.append(message)
            if self.picks(mark_of(message["body"])):
                self.did(reader, mark_of(message["body"]))
                found.append(message)
        return found

    def _received(self, group: str, messages: list[Message]) -> list[Message]:
        with self._lock:
            for message in messages:
                self._given[message["receiptHandle"]] = group, message
            again = self._again.pop((group, threading.get_ident()), [])
        for message in again:
            self.did(group, mark_of(message["body"]))
        return messages + again

    def _acknowledged(self, call: Call, forward: Forward) -> Reply:
        """Pass acknowledgements of the gateway's own deliveries on; acknowledge duplicates here."""
        content = call.json
        own = {
            name: [one for one in content[name] if "again" not in one["receiptHandle"]] for name in content
        }
        reply = forward(replace(call, body=json.dumps(own).encode())) if any(own.values()) else None
        if reply is not None and not reply.is_done:
            return reply
        results = iter(reply.json["results"] if reply is not None else [])
        found = [
            self._settled(one["receiptHandle"], results)
            for name in ("acks", "nacks")
            for one in content[name]
        ]
        return Reply.made(200, {"results": found})

    def _settled(self, handle: str, results: Any) -> dict[str, Any]:
        if "again" in handle:
            return {"status": "acked"}
        result = next(results)
        group, message = self._given[handle]
        name = (group, mark_of(message["body"]))
        with self._lock:
            if result.get("status") == "acked" and name not in self._repeated and self.picks(name[1]):
                self._repeated.add(name)
                later = {
                    "deliveryAttempt": message["deliveryAttempt"] + 1,
                    "receiptHandle": f"again {handle}",
                }
                self._again.setdefault((group, threading.get_ident()), []).append({**message, **later})
        return result


class Reorder(Honest):
    """Holds a message of a queue back until a later one is delivered."""

    def __init__(self, seed: int, every: int = 5) -> None:
        super().__init__(seed, every)
        self._held: dict[tuple[str, ...], Message] = {}

    def answer(self, call: Call, forward: Forward) -> Reply:
        reply = forward(call)
        if call.kind != "pull" or not reply.is_done:
            return reply
        content = reply.json
        return reply.with_json(
            {**content, "messages": self._given(tuple(call.names.values()), content["messages"])}
        )

    def _given(self, queue: tuple[str, ...], messages: list[Message]) -> list[Message]:
        held = self._held.pop(queue, None)
        if held is not None and not messages:
            return [held]  # no later message arrived
        given: list[Message] = []
        for message in messages:
            if held is None and self.picks(mark_of(message["body"])):
                held = message
                continue
            given.append(message)
            if held is not None:
                self.did("pull", mark_of(held["body"]))
                given.append(held)
                held = None
        if held is not None:
            self._held[queue] = held
        return given


class Swallow(_OfTransactions):
    """Acknowledges sends and commits that it does not pass on."""

    def answer(self, call: Call, forward: Forward) -> Reply:
        if call.kind == "send" and self.picks(call.mark):
            self.did("all", call.mark)
            stored = {
                "status": "SEND_OK",
                "messageId": "0",
                "broker": "broker-a",
                "queueId": 0,
                "queueOffset": 0,
            }
            return Reply.made(200, {"results": [stored]})
        if call.kind == "commit" and self.picks(mark := self.begun(call.names["transaction"])):
            self.did("all", mark)
            return Reply.made(200, {"status": "committed", "transactionId": call.names["transaction"]})
        return self.noted(call, forward(call))


class _OfLaterArrivals(_OfTransactions, ABC):
    """Damages sends, and counts messages that readers get although they must not, or too early."""

    def __init__(self, seed: int, every: int = 5) -> None:
        super().__init__(seed, every)
        self._harmed: dict[str, float] = {}
        """The time before which each must not be stored, in ms since 1970."""

    def answer(self, call: Call, forward: Forward) -> Reply:
        reply = self.meddled(call, forward)
        if call.kind in {"pull", "receive"} and reply.is_done:
            for message in reply.json["messages"]:
                mark = mark_of(message["body"])
                stored = datetime.fromisoformat(message["storeTimestamp"]).timestamp() * 1000
                if stored < self._harmed.get(mark, 0.0):
                    self.did(call.reader, mark)
        return reply

    @abstractmethod
    def meddled(self, call: Call, forward: Forward) -> Reply:
        """Answer a call."""


class Hasten(_OfLaterArrivals):
    """Delivers delayed messages at once, and some half messages before the decision."""

    def meddled(self, call: Call, forward: Forward) -> Reply:
        if call.kind == "send" and self.picks(call.mark):
            (message,) = call.json["messages"]
            self._harmed[call.mark] = message.pop("deliverAt", 0.0)
            return forward(replace(call, body=json.dumps({"messages": [message]}).encode()))
        if call.kind == "begin" and call.mark.endswith("9"):  # its producer is lost; it is rolled back later
            self._harmed[call.mark] = math.inf
            leaked = json.dumps({"messages": [call.json["message"]]}).encode()
            reply = forward(call)
            forward(replace(call, path=call.path.replace("/transactions", "/messages"), body=leaked))
            return reply
        return forward(call)


class Deny(_OfLaterArrivals):
    """Refuses sends that it has stored, and commits instead of rolling back."""

    def meddled(self, call: Call, forward: Forward) -> Reply:
        if call.kind == "rollback":
            return self._rolled_back(call, forward)
        is_denied = call.kind == "send" and self.picks(call.mark)
        if is_denied:
            self._harmed[call.mark] = math.inf  # readers may get it before its sender gets the response
        reply = self.noted(call, forward(call))
        if is_denied and reply.is_done:
            return Reply.made(429, {"code": "SYSTEM_BUSY", "detail": "a proxy says so", "retryAfterMs": 10})
        return reply

    def _rolled_back(self, call: Call, forward: Forward) -> Reply:
        self._harmed[self.begun(call.names["transaction"])] = math.inf
        reply = forward(replace(call, path=call.path.replace(":rollback", ":commit")))
        return reply.with_json({**reply.json, "status": "rolledBack"}) if reply.is_done else reply


class Fail(Honest):
    """Answers 500 to sends and begins that it does not pass on."""

    def answer(self, call: Call, forward: Forward) -> Reply:
        if call.kind in {"send", "begin"} and self.picks(call.mark):
            self.did("all", call.mark)
            return Reply.made(500, {"code": "SYSTEM_ERROR", "detail": "a proxy says so"})
        return forward(call)


class Mute(Honest):
    """Hides some undecided transactions from the checks.

    It asks for as many as a gateway tells at once: those that are never decided come first every time.
    """

    CHECKS_MAX = 256

    def answer(self, call: Call, forward: Forward) -> Reply:
        if call.kind != "checks":
            return forward(call)
        reply = forward(replace(call, body=json.dumps({**call.json, "maxChecks": self.CHECKS_MAX}).encode()))
        if not reply.is_done:
            return reply
        kept: list[dict[str, Any]] = []
        for check in reply.json["checks"]:
            mark = mark_of(check["message"]["body"])
            if self.picks(mark):
                self.did("all", mark)
            else:
                kept.append(check)
        return reply.with_json({"checks": kept})


class Delay(_OfTransactions):
    """Delays the responses that a profile's own latency measures."""

    SECONDS = 2.5

    def __init__(self, seed: int, kinds: frozenset[str], every: int = 5) -> None:
        super().__init__(seed, every)
        self._kinds = kinds
        self._seen: set[tuple[str, str]] = set()

    def answer(self, call: Call, forward: Forward) -> Reply:
        reply = self.noted(call, forward(call))
        if call.kind not in self._kinds or not reply.is_done:
            return reply
        if call.kind in {"pull", "receive"}:
            marks = [mark_of(message["body"]) for message in reply.json["messages"]]
        else:
            marks = [self.begun(call.names["transaction"]) if "transaction" in call.names else call.mark]
        with self._lock:
            first = [mark for mark in marks if (call.reader, mark) not in self._seen]
            self._seen.update((call.reader, mark) for mark in marks)
        if any(self.picks(mark) for mark in first):
            for mark in first:
                self.did(call.reader, mark)
            time.sleep(self.SECONDS)
        return reply
