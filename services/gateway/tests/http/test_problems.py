"""Bad input, field by field: always a 4xx problem that names the field and the limit, never a 500."""

from __future__ import annotations

import json

import pytest
from gateway_problem_check import check

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
PULL = "/v1/topics/orders/queues/broker-a/0/messages"
JSON = {"content-type": "application/json"}
LONG = "x" * 40_000


@pytest.fixture
def system(refusing_system):
    return refusing_system


@pytest.fixture
def client(refusing_client):
    return refusing_client


def stored(system) -> int:
    """Return how many messages the store holds."""
    return sum(map(len, system.stores["broker-a"].queues.values()))


MESSAGE_FIELDS = [
    ({}, "messages[0].body", ""),
    ({"body": 1}, "messages[0].body", ""),
    ({"body": ["x"]}, "messages[0].body", ""),
    ({"body": "x", "bodyBase64": "eA=="}, "messages[0].bodyBase64", ""),
    ({"bodyBase64": "no base64!"}, "messages[0].bodyBase64", ""),
    ({"bodyBase64": 7}, "messages[0].bodyBase64", ""),
    ({"body": "x", "tag": ""}, "messages[0].tag", ">= 1"),
    ({"body": "x", "tag": 5}, "messages[0].tag", ""),
    ({"body": "x", "tag": "a\u0001b"}, "messages[0].tag", ""),
    ({"body": "x", "tag": LONG}, "messages[0].properties", "32255 bytes"),
    ({"body": "x", "keys": "k"}, "messages[0].keys", ""),
    ({"body": "x", "keys": ["a b"]}, "messages[0].keys[0]", "blanks"),
    ({"body": "x", "keys": ["ok", ""]}, "messages[0].keys[1]", ">= 1"),
    ({"body": "x", "keys": ["k"] * 65}, "messages[0].keys", "<= 64"),
    ({"body": "x", "keys": [1]}, "messages[0].keys[0]", ""),
    ({"body": "x", "keys": ["a\u0002"]}, "messages[0].keys", ""),
    ({"body": "x", "properties": []}, "messages[0].properties", ""),
    ({"body": "x", "properties": {"a": 1}}, "messages[0].properties[...]", ""),
    ({"body": "x", "properties": {"a": ""}}, "messages[0].properties[...]", ">= 1"),
    ({"body": "x", "properties": {"": "a"}}, "messages[0].properties", ">= 1"),
    ({"body": "x", "properties": {"a\u0001": "b"}}, "messages[0].properties", ""),
    ({"body": "x", "properties": {"a": LONG}}, "messages[0].properties", "32255 bytes"),
    ({"body": "x", "properties": {"é" * 11_000: "é" * 11_000}}, "messages[0].properties", "32255 bytes"),
    ({"body": "x", "properties": {"UNIQ_KEY": "1"}}, "messages[0].properties.UNIQ_KEY", ""),
    ({"body": "x", "properties": {"__x": "1"}}, "messages[0].properties.__x", ""),
    ({"body": "x", "shardingKey": ""}, "messages[0].shardingKey", ">= 1"),
    ({"body": "x", "shardingKey": 3}, "messages[0].shardingKey", ""),
    ({"body": "x", "queueId": -1}, "messages[0].queueId", ">= 0"),
    ({"body": "x", "queueId": 2**31}, "messages[0].queueId", "<= 2147483647"),
    ({"body": "x", "queueId": 10**40}, "messages[0].queueId", ""),
    ({"body": "x", "queueId": 1.5}, "messages[0].queueId", ""),
    ({"body": "x", "queueId": "1"}, "messages[0].queueId", ""),
    ({"body": "x", "queueId": 9}, "messages[0].queueId", "0…3"),
    ({"body": "x", "broker": ""}, "messages[0].broker", ">= 1"),
    ({"body": "x", "broker": 1}, "messages[0].broker", ""),
    ({"body": "x", "delayLevel": -1}, "messages[0].delayLevel", ">= 0"),
    ({"body": "x", "delayLevel": 19}, "messages[0].delayLevel", "<= 18"),
    ({"body": "x", "delayMs": -5}, "messages[0].delayMs", ">= 0"),
    ({"body": "x", "delayMs": 40 * 86_400_000 + 1}, "messages[0].delayMs", "<= 3456000000"),
    ({"body": "x", "deliverAt": "tomorrow"}, "messages[0].deliverAt", ""),
    ({"body": "x", "deliverAt": "2030-01-01T00:00:00"}, "messages[0].deliverAt", ""),
    ({"body": "x", "idempotencyKey": ""}, "messages[0].idempotencyKey", ">= 1"),
    ({"body": "x", "idempotencyKey": "k" * 101}, "messages[0].idempotencyKey", "<= 100"),
    ({"body": "x", "idempotencyKey": "é" * 51}, "messages[0].idempotencyKey", "100 bytes"),
    ({"body": "x", "idempotencyKey": "a\u0001"}, "messages[0].idempotencyKey", ""),
    ({"body": "x", "delayLevl": 1}, "messages[0].delayLevl", ""),
]


@pytest.mark.parametrize(
    ("message", "field", "limit"), MESSAGE_FIELDS, ids=[str(n) for n in range(len(MESSAGE_FIELDS))]
)
async def test_a_bad_field_of_a_message_is_named(client, system, message, field, limit):
    before = stored(system)
    check(await client.post(ORDERS, json={"messages": [message]}), 400, field, limit)
    assert stored(system) == before


async def test_one_bad_message_of_several_refuses_the_request_before_anything_is_stored(client, system):
    before = stored(system)
    answer = await client.post(ORDERS, json={"messages": [{"body": "ok"}, {"body": "x", "queueId": 99}]})
    check(answer, 400, "messages[1].queueId", "0…3")
    assert stored(system) == before


BODIES = [
    (b"", "body"),
    (b"{", "body"),
    (b"[]", "body"),
    (b"null", "body"),
    (b"\xff\xfe", "body"),
    (b'{"messages":[{"body":"\xff"}]}', "body"),
    (b'{"messages":[{"body":"\\ud800"}]}', "body"),
    (b'{"messages":[]}', "messages"),
    (b'{"messages":{}}', "messages"),
    (b'{"messages":null}', "messages"),
    (b"{}", "messages"),
    (b'{"messages":[1]}', "messages[0]"),
    (b'{"messages":' + b"[" * 100_000, "messages[0]"),
    (b"[" * 1_000_000, "body"),
    (b'{"a":' * 100_000, "a"),
    (b'{"messages":[{"body":"x"}]}{}', "body"),
    (json.dumps({"messages": [{"body": "x"}] * 1001}).encode(), "messages"),
]


@pytest.mark.parametrize(("body", "field"), BODIES, ids=[str(n) for n in range(len(BODIES))])
async def test_a_body_that_is_no_request_is_refused_by_name(client, body, field):
    check(await client.post(ORDERS, content=body, headers=JSON), 400, field)


RAW_HEADERS = [
    ({"Mq-Tag": b"\xff"}, "Mq-Tag"),
    ({"Mq-Tag": b""}, "Mq-Tag"),
    ({"Mq-Queue-Id": b"-1"}, "Mq-Queue-Id"),
    ({"Mq-Queue-Id": b"x"}, "Mq-Queue-Id"),
    ({"Mq-Queue-Id": b"99999999999999999999999"}, "Mq-Queue-Id"),
    ({"Mq-Queue-Id": b"2147483648"}, "Mq-Queue-Id"),
    ({"Mq-Queue-Id": b"7"}, "Mq-Queue-Id"),
    ({"Mq-Idempotency-Key": b"k" * 101}, "Mq-Idempotency-Key"),
    ({"Mq-Property-A": b""}, "Mq-Properties"),
    ({"Mq-Property-UNIQ_KEY": b"1"}, None),
    ({"Mq-Properties": b"a=%ff"}, "Mq-Properties"),
    ({"Mq-Properties": b"a=%zz"}, "Mq-Properties"),
    ({"Mq-Properties": b"a=50%"}, "Mq-Properties"),
    ({"Mq-Properties": b"novalue"}, "Mq-Properties"),
    ({"Mq-Properties": b"__a=1"}, "Mq-Properties.__a"),
    ({"Mq-Unknown": b"1"}, "mq-unknown"),
    ({"Mq-Delay-Level": b"77"}, "Mq-Delay-Level"),
    ({"Mq-Deliver-At": b"never"}, "Mq-Deliver-At"),
]


@pytest.mark.parametrize(("headers", "field"), RAW_HEADERS, ids=[str(n) for n in range(len(RAW_HEADERS))])
async def test_a_bad_header_of_a_raw_message_is_named(client, headers, field):
    named = {name.encode(): value for name, value in headers.items()}
    if field is None:  # header names lose capitals: uniq_key is not reserved
        assert (await client.post(ORDERS, content=b"x", headers=named)).status_code == 200
        return
    check(await client.post(ORDERS, content=b"x", headers=named), 400, field)


async def test_a_header_has_the_same_limit_text_as_its_field(client):
    answer = await client.post(ORDERS, content=b"x", headers={"Mq-Delay-Level": "19"})
    assert check(answer, 400, "Mq-Delay-Level")["limit"] == "<= 18"
    answer = await client.post(ORDERS, content=b"x", headers={"Mq-Deliver-At": "never"})
    assert "limit" not in check(answer, 400, "Mq-Deliver-At")


@pytest.mark.parametrize(
    ("topic", "remedy"),
    [("a%25b", "; create it with PUT /v1/topics/a%25b"), ("%25DLQ%25g", ""), ("%25RETRY%25g", "")],
)
async def test_the_remedy_for_a_missing_topic_is_a_valid_request(client, topic, remedy):
    answer = await client.post(f"/v1/topics/{topic}/messages", json={"messages": [{"body": "x"}]})
    assert check(answer, 404, "topic")["detail"].endswith(f"does not exist{remedy}")


async def test_a_long_name_is_not_repeated_whole(client):
    answer = await client.post(ORDERS, json={"messages": [{"body": "x", "broker": "b" * 100_000}]})
    assert len(check(answer, 404, "messages[0].broker")["detail"]) < 300


async def test_an_empty_raw_body_is_refused_with_an_explanation(client):
    check(await client.post(ORDERS, content=b"", headers={"Mq-Tag": "a"}), 400, "body")


EVENTS = [
    ({}, "id"),
    ({"id": "1", "source": "s", "type": "t"}, "specversion"),
    ({"id": "1", "source": "s", "type": "t", "specversion": "0.3"}, "specversion"),
    ({"id": "", "source": "s", "type": "t", "specversion": "1.0"}, "id"),
    ({"id": "1", "source": "s", "type": "t", "specversion": "1.0", "Big": "x"}, "Big"),
    ({"id": "1", "source": "s", "type": "t", "specversion": "1.0", "a": [1]}, "a"),
    ({"id": "1", "source": "s", "type": "t", "specversion": "1.0", "data_base64": "?"}, "data_base64"),
    (
        {"id": "1", "source": "s", "type": "t", "specversion": "1.0", "data": 1, "data_base64": "YQ=="},
        "data_base64",
    ),
    ({"id": "1", "source": "s", "type": "a\u0001", "specversion": "1.0"}, None),
]


@pytest.mark.parametrize(("event", "field"), EVENTS, ids=[str(n) for n in range(len(EVENTS))])
async def test_a_bad_cloud_event_is_named(client, event, field):
    headers = {"content-type": "application/cloudevents-batch+json"}
    answer = await client.post(ORDERS, content=json.dumps([event]), headers=headers)
    check(answer, 400, f"[0].{field}" if field else None)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"[1]", b"\xff", b"[" * 100_000, b'[{"data":' + b"[" * 100_000]
)
async def test_a_batch_that_is_not_a_list_is_refused(client, body):
    headers = {"content-type": "application/cloudevents-batch+json"}
    check(await client.post(ORDERS, content=body, headers=headers), 400)


async def test_an_unknown_cloudevents_type_is_415(client):
    check(
        await client.post(ORDERS, content=b"x", headers={"content-type": "application/cloudevents+xml"}),
        415,
        "Content-Type",
    )


@pytest.mark.parametrize(
    ("topic", "field"),
    [
        ("a b", "topic"),
        ("%C3%A9", "topic"),
        ("%FF", "topic"),
        ("x" * 128, "topic"),
        ("a.b", "topic"),
        ("a%00", "topic"),
    ],
)
async def test_an_illegal_topic_is_400_everywhere(client, topic, field):
    one = {"messages": [{"body": "x"}]}
    check(await client.post(f"/v1/topics/{topic}/messages", json=one), 400, field)
    check(await client.get(f"/v1/topics/{topic}/queues/broker-a/0/messages"), 400, field)
    check(await client.get(f"/v1/topics/{topic}"), 400, field)
    check(await client.put(f"/v1/topics/{topic}", json={}), 400, field)
    check(await client.delete(f"/v1/topics/{topic}"), 400, field)


PULL_QUERIES = [
    ("offset=-1", "offset", "0…"),
    ("offset=x", "offset", "0…"),
    ("offset=9223372036854775808", "offset", "0…"),
    ("offset=1.5", "offset", ""),
    ("offset=", "offset", ""),
    ("max=0", "max", "1…1024"),
    ("max=1025", "max", "1…1024"),
    ("max=-3", "max", "1…1024"),
    ("max=abc", "max", "1…1024"),
    ("waitSeconds=31", "waitSeconds", "0…30"),
    ("waitSeconds=-1", "waitSeconds", "0…30"),
    ("waitSeconds=%C3%A9", "waitSeconds", "0…30"),
    ("waitSeconds=٣", "waitSeconds", "0…30"),
    ("filter=%7C%7C", "filter", ""),
    ("filter=" + "a" * 5000, "filter", "4096"),
    ("filter=%ff", "query", ""),
    ("encoding=hex", "encoding", "base64"),
    ("&".join(f"a{n}=1" for n in range(100)), "query", "64"),
]


@pytest.mark.parametrize(
    ("query", "field", "limit"), PULL_QUERIES, ids=[str(n) for n in range(len(PULL_QUERIES))]
)
async def test_a_bad_parameter_of_a_pull_is_named(client, query, field, limit):
    check(await client.get(f"{PULL}?{query}"), 400, field, limit)


@pytest.mark.parametrize("queue", ["-1", "x", "2147483648", "9" * 30, "%F0%9F%98%80"])
async def test_a_bad_queue_id_of_a_pull_is_named(client, queue):
    check(await client.get(f"/v1/topics/orders/queues/broker-a/{queue}/messages"), 400, "queueId")


async def test_an_unknown_queue_is_400_and_named(client):
    check(await client.get("/v1/topics/orders/queues/broker-a/77/messages"), 400, "queueId")
