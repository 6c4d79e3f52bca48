"""Bad input to calls that are not hot, unknown paths and late failures: always a problem, never a 500."""

from __future__ import annotations

import json

import pytest
from gateway_problem_check import check

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
PULL = "/v1/topics/orders/queues/broker-a/0/messages"
JSON = {"content-type": "application/json"}


@pytest.fixture
def system(refusing_system):
    return refusing_system


@pytest.fixture
def client(refusing_client):
    return refusing_client


OFFSET = {"topic": "orders", "broker": "broker-a", "queueId": 0, "offset": 0}
ADMIN = [
    ("PUT", "/v1/topics/t1", {"readQueues": 0}, "readQueues", ">= 1"),
    ("PUT", "/v1/topics/t1", {"readQueues": 1025}, "readQueues", "<= 1024"),
    ("PUT", "/v1/topics/t1", {"writeQueues": "8"}, "writeQueues", ""),
    ("PUT", "/v1/topics/t1", {"writeQueues": 2.5}, "writeQueues", ""),
    ("PUT", "/v1/topics/t1", {"perm": "x"}, "perm", "rw"),
    ("PUT", "/v1/topics/t1", {"perm": 6}, "perm", ""),
    ("PUT", "/v1/topics/t1", {"queues": 6}, "queues", ""),
    ("PUT", "/v1/topics/t1", [], "body", ""),
    ("PUT", "/v1/groups/g1", {"retryMaxTimes": -2}, "retryMaxTimes", ">= -1"),
    ("PUT", "/v1/groups/g1", {"retryMaxTimes": True}, "retryMaxTimes", ""),
    ("PUT", "/v1/groups/g1", {"retryQueues": 0}, "retryQueues", ">= 1"),
    ("PUT", "/v1/groups/g1", {"paused": "yes"}, "paused", ""),
    ("PUT", "/v1/groups/g1", {"nope": 1}, "nope", ""),
    ("PUT", "/v1/groups/g1/offsets", {}, "offsets", ""),
    ("PUT", "/v1/groups/g1/offsets", {"offsets": []}, "offsets", ">= 1"),
    ("PUT", "/v1/groups/g1/offsets", {"offsets": [{}]}, "offsets[0].topic", ""),
    ("PUT", "/v1/groups/g1/offsets", {"offsets": [OFFSET] * 1025}, "offsets", "<= 1024"),
    ("GET", "/v1/messages", None, "topic", ""),
    ("GET", "/v1/messages?topic=a.b", None, "topic", ""),
    ("GET", "/v1/messages?topic=orders&max=0", None, "max", "1…1024"),
    ("GET", "/v1/messages?topic=orders&max=1025", None, "max", "1…1024"),
    ("GET", "/v1/messages?topic=orders&from=yesterday", None, "from", "RFC 3339"),
    ("GET", "/v1/messages?topic=orders&to=2026-01-01T00:00:00", None, "to", "RFC 3339"),
    ("GET", "/v1/messages?topic=orders&key=a%20b", None, "key", ""),
    ("GET", "/v1/messages?topic=orders&key=" + "k" * 1025, None, "key", "<= 1024"),
    ("GET", "/v1/messages/%C3%A9", None, "id", ""),
    ("GET", "/v1/messages/" + "A" * 300, None, "id", "<= 255"),
    ("GET", "/v1/topics?system=maybe", None, "system", ""),
    ("GET", "/v1/topics?system=%ff", None, "query", ""),
    ("GET", "/v1/groups/a.b", None, "group", ""),
    ("GET", "/v1/groups/" + "g" * 121, None, "group", ""),
    ("GET", "/v1/groups/g1/lag?topic=a.b", None, "topic", ""),
    ("PUT", "/v1/definitions", {"topics": [{"topic": "a.b"}]}, "topics[0].topic", ""),
    ("PUT", "/v1/definitions", {"groups": [{"group": ""}]}, "groups[0].group", ""),
    ("PUT", "/v1/definitions", {"users": []}, "users", ""),
    ("GET", "/health/ready?brokers=0", None, "brokers", "1…1000"),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "limit"),
    ADMIN,
    ids=[f"{a[0]} {a[1][:40]} {n}" for n, a in enumerate(ADMIN)],
)
async def test_a_bad_field_of_any_other_call_is_named(client, method, path, body, field, limit):
    check(await client.request(method, path, json=body), 400, field, limit)


@pytest.mark.parametrize(
    "body",
    [b"{", b"\xff", b'{"a":' * 50_000, b"[" * 100_000, b"NaN", b'{"readQueues":Infinity}', b"1" * 10_000],
)
@pytest.mark.parametrize(
    "path", ["/v1/topics/t1", "/v1/groups/g1", "/v1/groups/g1/offsets", "/v1/definitions"]
)
async def test_a_body_that_is_not_json_is_400_on_every_call(client, path, body):
    check(await client.put(path, content=body, headers=JSON), 400)


@pytest.mark.parametrize(
    "path", ["/v1/topics/t1", "/v1/groups/g1", "/v1/groups/g1/offsets", "/v1/definitions"]
)
async def test_another_media_type_is_415_on_every_call(client, path):
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "\xff", ""):
        headers = {"content-type": media_type.encode("latin-1")}
        answer = await client.put(path, content=b"{}", headers=headers)
        check(answer, 415, "Content-Type")


async def test_an_offset_outside_its_queue_is_400_naming_the_bounds(client):
    entry = {"topic": "orders", "broker": "broker-a", "queueId": 0, "offset": 5}
    check(
        await client.put("/v1/groups/g1/offsets", json={"offsets": [entry]}), 400, "offsets[0].offset", "0…0"
    )
    entry |= {"queueId": 9, "offset": 0}
    check(
        await client.put("/v1/groups/g1/offsets", json={"offsets": [entry]}), 400, "offsets[0].queueId", "0…3"
    )
    entry |= {"queueId": -1}
    check(
        await client.put("/v1/groups/g1/offsets", json={"offsets": [entry]}),
        400,
        "offsets[0].queueId",
        ">= 0",
    )


async def test_unknown_paths_and_methods_are_problems_too(client):
    check(await client.get("/v2/nothing"), 404)
    check(await client.get("/v1/topics/orders/nothing"), 404)
    check(await client.get("/v1/topics/a/b/c/d/e/f/g"), 404)
    wrong = {
        ("GET", ORDERS): "POST",
        ("POST", PULL): "GET",
        ("PATCH", "/v1/topics/orders"): "DELETE, GET, PUT",
        ("POST", "/v1/topics"): "GET",
        ("GET", "/v1/groups/g1:pause"): "POST",
        ("OPTIONS", "/v1/definitions"): "GET, PUT",
    }
    for (method, path), allowed in wrong.items():
        problem = await client.request(method, path)
        check(problem, 405)
        assert problem.headers["allow"] == allowed


async def test_a_missing_thing_is_404_and_named(client):
    check(await client.get("/v1/topics/none"), 404, "topic")
    check(await client.delete("/v1/topics/none"), 404, "topic")
    check(await client.get("/v1/groups/none"), 404, "group")
    check(await client.get("/v1/groups/none/lag"), 404, "group")
    check(await client.delete("/v1/groups/none"), 404, "group")
    check(await client.post("/v1/groups/none:pause"), 404, "group")
    check(await client.get("/v1/topics/none/queues/broker-a/0/messages"), 404, "topic")
    check(await client.get("/v1/topics/orders/queues/broker-z/0/messages"), 404, "broker")
    check(await client.get("/v1/messages?topic=none&key=k"), 404, "topic")


async def test_an_unexpected_failure_is_a_problem_without_internals(system, connect, monkeypatch):
    def burst(*_args, **_named):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(system.stores["broker-a"], "send", burst)
    async with connect(system.gateway()) as client:
        problem = check(await client.post(ORDERS, json={"messages": [{"body": "x"}]}), 500)
    assert "secret" not in json.dumps(problem)
