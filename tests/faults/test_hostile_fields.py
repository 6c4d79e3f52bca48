"""The gateway from outside: every parameter and field of its OpenAPI with invalid values.

The response is always a 4xx problem that names the fault, never a 500, and the gateway keeps serving.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from .raw_http import JSON, ONE, ORDERS, TOPIC, HttpLine, check_refused, goes_on

pytestmark = [pytest.mark.crash, pytest.mark.cluster, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def described(system: dict[str, Any]) -> dict[str, Any]:
    with urlopen(f"{system['http']}/openapi.json", timeout=60) as answer:
        return json.load(answer)


# --- every parameter of the description ---------------------------------------------------------------------

PATH_VALUES = [
    "%00",
    "%FF%FE",
    "%C3%A9",
    "x" * 300,
    "%2e%2e",
    "a%2Fb",
    "-1",
    "9" * 40,
    "a%20b",
    "%F0%9F%98%80",
    "%0d%0aX:1",
    "1e3",
]
QUERY_VALUES = [
    "%00",
    "%FF",
    "x" * 9000,
    "-1",
    "9" * 40,
    "1.5",
    "NaN",
    "%C3%A9",
    "%0d%0a",
    "%5B%5D",
    "true%00",
]
GOOD = {
    "topic": TOPIC,
    "broker": "broker-a",
    "queueId": "0",
    "group": "hostile",
    "id": "x",
    "name": "now",
    "path": "report.html",
}


def calls(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            yield method.upper(), path, operation


def parameters(operation: dict[str, Any], place: str) -> list[str]:
    return [one["name"] for one in operation.get("parameters", []) if one["in"] == place]


def test_every_path_parameter_refuses_invalid_values(gateway_port: int, described: dict[str, Any]) -> None:
    tried = 0
    with HttpLine(gateway_port) as line:
        for method, path, operation in calls(described):
            for name, value in itertools.product(parameters(operation, "path"), PATH_VALUES):
                if (name, value) in {
                    ("topic", "-1"),
                    ("group", "-1"),
                    ("topic", "1e3"),
                    ("group", "1e3"),
                    ("topic", "9" * 40),
                    ("group", "9" * 40),
                } and method in ("PUT", "DELETE"):
                    continue  # a legal name
                target = path.replace("{" + name + "}", value).format(**GOOD)
                body = ONE if "requestBody" in operation else b""
                check_refused(line.call(method, target, body, JSON), (method, target))
                tried += 1
    assert tried > 150
    goes_on(gateway_port)


def test_every_query_parameter_refuses_invalid_values(gateway_port: int, described: dict[str, Any]) -> None:
    tried = 0
    with HttpLine(gateway_port) as line:
        for method, path, operation in calls(described):
            for name, value in itertools.product(parameters(operation, "query"), QUERY_VALUES):
                if name in ("key", "filter") and value not in ("%FF", "x" * 9000):
                    continue  # any text is a key or a tag
                if name == "sql" and value in ("NaN", "x" * 9000):
                    continue  # a condition: the property of this name is true
                if name in ("topic", "producerGroup", "broker", "group") and value in ("-1", "NaN", "9" * 40):
                    continue  # a legal name
                if (name, value) in {("from", "9" * 40), ("to", "-1")} and path == "/v1/messages":
                    pass
                target = f"{path.format(**GOOD)}?{name}={value}"
                check_refused(line.call(method, target), (method, target))
                tried += 1
    assert tried > 60
    goes_on(gateway_port)


# --- every field of every body --------------------------------------------------------------------------------

FIELD_VALUES: list[object] = [
    None,
    True,
    -1,
    1.5,
    2**31,
    10**30,
    "",
    "x" * 70_000,
    "\u0000",
    [],
    [1],
    {},
    {"a": 1},
    [[[[]]]],
]
BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("PUT", f"/v1/topics/{TOPIC}", {"readQueues": 2, "writeQueues": 2, "perm": "rw"}),
    ("PUT", "/v1/groups/hostile", {"retryMaxTimes": 3, "retryQueues": 1, "broadcast": True, "paused": False}),
    ("PUT", "/v1/groups/hostile/offsets", {"offsets": [{"topic": TOPIC, "broker": "broker-a", "queueId": 0, "offset": 0}]}),
    ("PUT", "/v1/definitions", {
        "topics": [{"topic": TOPIC, "readQueues": 2, "writeQueues": 2, "perm": "rw"}],
        "groups": [{"group": "hostile", "retryMaxTimes": 3, "retryQueues": 1, "broadcast": True, "paused": False}],
    }),
    ("POST", ORDERS, {"messages": [{
        "body": "x", "broker": "broker-a", "tag": "t", "keys": ["k"], "properties": {"p": "v"}, "shardingKey": "s",
        "queueId": 0, "delayLevel": 0, "delayMs": 0, "deliverAt": None, "idempotencyKey": None,
    }]}),
]  # fmt: skip


def mutations(document: Any) -> Iterator[tuple[str, Any]]:
    """(path of the field, the document with another value there), for every field and value."""
    if isinstance(document, dict):
        for name, value in document.items():
            for other in FIELD_VALUES:
                yield f".{name}={str(other)[:20]}", {**document, name: other}
            for path, inner in mutations(value):
                yield f".{name}{path}", {**document, name: inner}
        yield ".unknown", {**document, "unknown": 1}
    elif isinstance(document, list) and document:
        for path, inner in mutations(document[0]):
            yield f"[0]{path}", [inner, *document[1:]]


MEANINGFUL = (
    "paused=True", "broadcast=True", "retryMaxTimes=-1", "topics=[]", "groups=[]", "keys=[]", "properties={}",
    "body=", "=\x00", "body=" + "x" * 20,
)  # fmt: skip
"""Mutations that are valid requests."""


@pytest.mark.parametrize(("method", "target", "good"), BODIES, ids=[body[1] for body in BODIES])
def test_every_field_of_every_body_refuses_invalid_values(
    gateway_port: int, method: str, target: str, good: dict[str, Any]
) -> None:
    refused = 0
    with HttpLine(gateway_port) as line:
        taken = line.call(method, target, json.dumps(good).encode(), JSON)
        assert taken is not None
        assert taken.status == 200, taken.body
        for path, document in mutations(good):
            answer = line.call(method, target, json.dumps(document).encode(), JSON)
            assert answer is not None, path
            if answer.status == 200:
                is_absent = method == "POST" and path.endswith("=None")  # in a message null means absent
                assert is_absent or path.endswith(MEANINGFUL), f"{path!r} was taken"
                continue
            check_refused(answer, path)
            refused += 1
    assert refused > 20
    goes_on(gateway_port)


def test_offsets_outside_a_queue_get_the_next_valid_offset(gateway_port: int) -> None:
    goes_on(gateway_port)
    with HttpLine(gateway_port) as line:
        path = f"/v1/topics/{TOPIC}/queues/broker-a/0/messages"
        end = line.call("GET", f"{path}?offset=0")
        assert end is not None
        maximum = end.document["maxOffset"]
        for offset in (maximum + 1, 2**63 - 1):
            answer = line.call("GET", f"{path}?offset={offset}")
            assert answer is not None
            assert (answer.status, answer.document["status"], answer.document["nextOffset"]) == (
                200, "OFFSET_ILLEGAL", maximum
            )  # fmt: skip
        check_refused(line.call("GET", f"{path}?offset=-1"), "below")
        check_refused(line.call("GET", "/v1/topics/nobody-made-this/queues/broker-a/0/messages"), "no topic")
        check_refused(line.call("POST", "/v1/topics/nobody-made-this/messages", ONE, JSON), "no topic")


RAW_HEADERS = [
    "Mq-Queue-Id: -1", "Mq-Queue-Id: x", "Mq-Queue-Id: 99999999999", "Mq-Delay-Level: 19", "Mq-Delay-Ms: -1", "Mq-Delay-Ms: 1e9",
    "Mq-Deliver-At: yesterday", "Mq-Tag: a\x01b", "Mq-Idempotency-Key: " + "k" * 101, "Mq-Keys: " + "k " * 70, "Mq-Property-: x",
    "Mq-Unknown: 1", "Mq-Properties: no", "Mq-Broker: " + "b" * 300, "Mq-Property-a: " + "v" * 33_000,
    "Mq-Tag: \xff\xfe", "Content-Encoding: br", "Content-Encoding: gzip", "Content-Type: application/x-www-form-urlencoded",
    "ce-id: 1", "ce-specversion: 9.9",
]  # fmt: skip


@pytest.mark.parametrize("header", RAW_HEADERS, ids=[header[:30] for header in RAW_HEADERS])
def test_headers_of_a_raw_message_are_checked(gateway_port: int, header: str) -> None:
    with HttpLine(gateway_port) as line:
        check_refused(line.call("POST", ORDERS, b"raw", header), header)
