"""A nack of over 30 s: the message waits with the scheduler, holds nobody up meanwhile, and comes back once, not early."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

import pytest

NACK_SECONDS = 31
PATIENCE_SECONDS = 150


class Http:
    """The HTTP API of one system, for one group on one topic."""

    def __init__(self, base: str) -> None:
        self._base = base

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._base + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def receive(self, wait_seconds: int) -> list[dict[str, Any]]:
        asked = {"maxMessages": 10, "waitSeconds": wait_seconds, "invisibleSeconds": 120}
        return self.call("POST", "/v1/topics/books/groups/readers/messages:receive", asked)["messages"]

    def give_up(self, **handles: list[dict[str, Any]]) -> list[str]:
        answer = self.call("POST", "/v1/topics/books/groups/readers/messages:ack", handles)
        return [result["status"] for result in answer["results"]]

    def lag(self) -> int:
        return self.call("GET", "/v1/groups/readers/lag")["total"]


@pytest.mark.soak
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_nack_of_31_seconds_waits_with_the_scheduler_and_comes_back_once(new_system) -> None:
    http = Http(new_system()["http"])
    http.call("PUT", "/v1/topics/books", {"readQueues": 1, "writeQueues": 1, "perm": "rw"})
    sent = [{"body": "late", "keys": ["k-1"]}, {"body": "next"}]
    http.call("POST", "/v1/topics/books/messages", {"messages": sent})
    given: dict[str, dict[str, Any]] = {}
    until = time.monotonic() + PATIENCE_SECONDS
    while len(given) < 2 and time.monotonic() < until:
        given |= {message["body"]: message for message in http.receive(5)}
    late = given["late"]
    assert late["deliveryAttempt"] == 1
    nack = {"receiptHandle": late["receiptHandle"], "delaySeconds": NACK_SECONDS, "reason": "no paper"}
    nacked_at = time.time()
    assert http.give_up(acks=[{"receiptHandle": given["next"]["receiptHandle"]}], nacks=[nack]) == [
        "acked",
        "nacked",
    ]

    waiting = http.call("GET", "/v1/schedules")["schedules"]
    assert [one["keys"] for one in waiting] == [["k-1"]], "it waits with the scheduler, not in the queue"
    assert http.receive(0) == []

    came: list[dict[str, Any]] = []
    until = time.monotonic() + PATIENCE_SECONDS
    while not came and time.monotonic() < until:
        came = http.receive(10)
    came_at = time.time()
    (back,) = came
    assert came_at - nacked_at >= NACK_SECONDS, "early"
    assert (back["body"], back["keys"], back["deliveryAttempt"]) == ("late", ["k-1"], 2)
    assert http.give_up(acks=[{"receiptHandle": back["receiptHandle"]}]) == ["acked"]
    assert http.receive(3) == []
    assert http.lag() == 0
    assert http.call("GET", "/v1/schedules")["schedules"] == []
