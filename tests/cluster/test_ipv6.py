"""A whole system on an IPv6 address: every service starts, and every kind of message is delivered."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


def call(method: str, url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_a_system_on_an_ipv6_address_delivers_every_kind_of_message(new_system, gantry) -> None:
    system = new_system("--listen", "::1")
    http = system["http"]
    assert http.startswith("http://[::1]:")
    broker = system["brokers"][0]
    assert broker["address"].startswith("[::1]:")
    assert call("GET", f"{broker['http']}/health/ready")["ready"] is True
    topic = f"{http}/v1/topics/six"
    call("PUT", topic)
    messages = [{"body": "at once", "idempotencyKey": "k"}, {"body": "soon", "delayMs": 100}]
    sent = call("POST", f"{topic}/messages", {"messages": messages})["results"]
    assert [one["status"] for one in sent] == ["SEND_OK"] * 2
    assert call("GET", f"{http}/v1/messages/{sent[0]['offsetMessageId']}")["body"] == "at once"
    half = call("POST", f"{topic}/transactions", {"producerGroup": "p", "message": {"body": "decided"}})
    call("POST", f"{http}/v1/transactions/{half['transactionId']}:commit")
    given: dict[str, str] = {}
    for _ in range(20):
        asked = {"maxMessages": 8, "waitSeconds": 5, "invisibleSeconds": 600}
        answer = call("POST", f"{topic}/groups/g/messages:receive", asked)
        given |= {one["body"]: one["receiptHandle"] for one in answer["messages"]}
        if len(given) == 3:
            break
    assert set(given) == {"at once", "soon", "decided"}
    acks = [{"receiptHandle": handle} for handle in given.values()]
    results = call("POST", f"{topic}/groups/g/messages:ack", {"acks": acks})["results"]
    assert results == [{"status": "acked"}] * 3
    ran = gantry("doctor", "--data", system["data"])
    assert ran.returncode == 0, ran.stdout + ran.stderr
