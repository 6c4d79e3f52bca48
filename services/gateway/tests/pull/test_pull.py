"""GET …/queues/{broker}/{queueId}/messages over in-memory ports: shapes, waiting, filters, drain."""

from __future__ import annotations

import asyncio
import base64
import time

import pytest

from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import SYS_COMPRESSED, build_record
from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio
PULL = "/v1/topics/orders/queues/broker-a/0/messages"


async def put(system, *bodies, tag=None, **properties):
    store = system.stores["broker-a"]
    for body in bodies:
        named = {"UNIQ_KEY": f"id-{body!r}"} | ({"TAGS": tag} if tag else {}) | properties
        await store.put("orders", 0, body, format_properties(named).decode())


async def test_found_messages_have_the_documented_shape(client, system):
    await put(system, b"hi", tag="a", KEYS="o-1", x="1", CLUSTER="DefaultCluster", MSG_REGION="r")
    answer = await client.get(f"{PULL}?offset=0&max=32")
    assert answer.status_code == 200
    reply = answer.json()
    (message,) = reply.pop("messages")
    assert reply == {"status": "FOUND", "nextOffset": 1, "minOffset": 0, "maxOffset": 1}
    offset_id = message.pop("offsetMessageId")
    assert len(offset_id) == 32
    assert message == {
        "messageId": "id-b'hi'",
        "topic": "orders",
        "broker": "broker-a",
        "queueId": 0,
        "queueOffset": 0,
        "body": "hi",
        "tag": "a",
        "keys": ["o-1"],
        "properties": {"x": "1"},
        "bornTimestamp": "2026-01-01T00:00:00.000Z",
        "storeTimestamp": "2026-01-01T00:00:00.000Z",
        "reconsumeTimes": 0,
    }


async def test_a_message_sent_over_http_is_pulled_unchanged(client):
    sent = {
        "body": "zażółć",
        "tag": "t",
        "keys": ["a", "b"],
        "properties": {"Name": "ü"},
        "shardingKey": "s",
        "idempotencyKey": "k",
        "broker": "broker-a",
        "queueId": 0,
    }
    await client.post("/v1/topics/orders/messages", json={"messages": [sent]})
    (got,) = (await client.get(PULL)).json()["messages"]
    assert {name: got[name] for name in sent} == sent


async def test_bodies_that_are_not_utf8_are_base64_and_others_on_request(client, system):
    await put(system, b"\xff\x00", b"text")
    first, second = (await client.get(PULL)).json()["messages"]
    assert base64.b64decode(first["bodyBase64"]) == b"\xff\x00"
    assert "body" not in first
    assert second["body"] == "text"
    forced = (await client.get(f"{PULL}?encoding=base64")).json()["messages"]
    assert base64.b64decode(forced[1]["bodyBase64"]) == b"text"


async def test_an_empty_queue_answers_no_new_message(client):
    reply = (await client.get(PULL)).json()
    assert reply == {"status": "NO_NEW_MSG", "nextOffset": 0, "minOffset": 0, "maxOffset": 0, "messages": []}


async def test_an_offset_outside_the_queue_returns_the_next_valid_offset(client, system):
    await put(system, b"1", b"2")
    reply = (await client.get(f"{PULL}?offset=9")).json()
    assert (reply["status"], reply["nextOffset"], reply["maxOffset"]) == ("OFFSET_ILLEGAL", 2, 2)
    system.stores["broker-a"].min_offsets["orders", 0] = 1
    reply = (await client.get(f"{PULL}?offset=0")).json()
    assert (reply["status"], reply["nextOffset"], reply["minOffset"]) == ("OFFSET_ILLEGAL", 1, 1)


async def test_a_filter_excludes_other_tags(client, system):
    await put(system, b"1", tag="a")
    await put(system, b"2", tag="b")
    reply = (await client.get(f"{PULL}?filter=b%20%7C%7C%20c")).json()
    assert [m["body"] for m in reply["messages"]] == ["2"]
    reply = (await client.get(f"{PULL}?filter=zzz")).json()
    assert (reply["status"], reply["nextOffset"], reply["messages"]) == ("NO_MATCHED_MSG", 2, [])
    assert len((await client.get(f"{PULL}?filter=*")).json()["messages"]) == 2


async def test_tags_that_only_share_a_hash_are_excluded(client, system, monkeypatch):
    await put(system, b"1", tag="Aa")  # Java gives "Aa" and "BB" one hash
    store = system.stores["broker-a"]
    unfiltered = store.pull
    monkeypatch.setattr(store, "pull", lambda *args, **_named: unfiltered(*args[:5], ""))
    reply = (await client.get(f"{PULL}?filter=BB")).json()
    assert (reply["status"], reply["messages"]) == ("NO_MATCHED_MSG", [])


async def test_several_responses_of_the_store_are_joined(client, system):
    await put(system, *(str(n).encode() for n in range(100)))
    reply = (await client.get(f"{PULL}?max=80")).json()
    assert [m["queueOffset"] for m in reply["messages"]] == list(range(80))
    assert reply["nextOffset"] == 80
    rest = (await client.get(f"{PULL}?max=1024&offset=80")).json()
    assert (len(rest["messages"]), rest["nextOffset"]) == (20, 100)


async def test_messages_found_before_the_store_left_are_returned(client, system, monkeypatch):
    await put(system, *(str(n).encode() for n in range(100)))
    store = system.stores["broker-a"]
    first = store.pull

    async def once(*args, **_named):
        answer = await first(*args)
        store.away = PeerAway("broker-a", True, "gone")
        return answer

    monkeypatch.setattr(store, "pull", once)
    reply = (await client.get(f"{PULL}?max=80")).json()
    assert (len(reply["messages"]), reply["nextOffset"]) == (32, 32)


async def test_a_held_pull_returns_when_a_message_arrives(client, system):
    pull = asyncio.ensure_future(client.get(f"{PULL}?waitSeconds=20"))
    await asyncio.sleep(0.05)
    assert not pull.done()
    await put(system, b"now")
    answer = await asyncio.wait_for(pull, 60)
    assert answer.json()["messages"][0]["body"] == "now"


async def test_a_held_pull_without_messages_returns_after_its_time(client):
    started = time.monotonic()
    reply = (await client.get(f"{PULL}?waitSeconds=1")).json()
    assert reply["status"] == "NO_NEW_MSG"
    assert time.monotonic() - started >= 0.9


async def test_held_pulls_answer_at_once_at_shutdown_and_no_other_is_held(system, connect):
    gateway = system.gateway()
    async with connect(gateway) as client:
        pulls = [asyncio.ensure_future(client.get(f"{PULL}?waitSeconds=30")) for _ in range(3)]
        async with asyncio.timeout(30):
            while gateway.puller.held_count < 3:
                await asyncio.sleep(0.01)
        gateway.drain()
        answers = await asyncio.wait_for(asyncio.gather(*pulls), 20)
        assert [(a.status_code, a.json()["status"], a.json()["messages"]) for a in answers] == [
            (200, "NO_NEW_MSG", [])
        ] * 3
        late = await asyncio.wait_for(client.get(f"{PULL}?waitSeconds=30"), 20)
        assert late.json()["messages"] == []
        assert (await client.get("/health/ready")).status_code == 503


async def test_a_broker_that_is_away_is_503_also_right_after_its_death(pair_client, pair):
    assert (await pair_client.get(PULL)).status_code == 200
    pair.stores["broker-a"].away = PeerAway("broker-a", True, "connection lost")
    assert (await pair_client.get(PULL)).status_code == 503
    pair.registered.discard("broker-a")
    for _ in range(2):
        answer = await pair_client.get(PULL)
        assert (answer.status_code, answer.json()["retryable"]) == (503, True)


async def test_a_configured_broker_is_503_for_a_gateway_that_never_saw_it(pair, connect):
    pair.kept_values["ORDER_TOPIC_CONFIG", "orders"] = "broker-a:4;broker-b:4"
    pair.kill("broker-a")
    async with connect(pair.gateway()) as client:
        assert (await client.get(PULL)).status_code == 503
        assert (await client.get(PULL.replace("broker-a", "broker-q"))).status_code == 404


async def test_a_paused_group_or_forbidden_topic_is_403(client, system):
    system.stores["broker-a"].refuse = StoreRefused(16, "the topic[orders] pulling message is forbidden")
    assert (await client.get(PULL)).status_code == 403


async def test_damaged_records_are_never_shown(client, system):
    await put(system, b"good", b"bad")
    queue = system.stores["broker-a"].queues["orders", 0]
    queue[1] = queue[1][:60] + bytes([queue[1][60] ^ 1]) + queue[1][61:-3] + b"\xff\xff\xff"
    answer = await client.get(f"{PULL}?offset=1")
    assert answer.status_code == 503
    assert answer.json()["retryable"] is True


async def test_zlib_and_gzip_bodies_are_unpacked_and_others_named(client, system):
    import gzip
    import zlib

    store = system.stores["broker-a"]
    for flag, body in (
        (SYS_COMPRESSED, zlib.compress(b"packed")),
        (SYS_COMPRESSED | 0x100, b"lz4!"),
        (SYS_COMPRESSED, b"no zlib"),
        (SYS_COMPRESSED, gzip.compress(b"packed")),
        (SYS_COMPRESSED, gzip.compress(b"first") + gzip.compress(b"second")),
    ):
        record = build_record(b"orders", 0, 0, 0, body, b"", 0, flag, 1, store.host, 1, store.host)
        store.queues.setdefault(("orders", 0), []).append(record)
    first, second, third, fourth, fifth = (await client.get(PULL)).json()["messages"]
    assert first["body"] == fourth["body"] == "packed"
    assert (base64.b64decode(second["bodyBase64"]), second["bodyCompression"]) == (b"lz4!", "lz4")
    assert third["bodyCompression"] == fifth["bodyCompression"] == "zlib"


@pytest.mark.parametrize("stamp", [0, -5, 2**62, 1_767_225_600_123])
async def test_times_are_rfc3339_in_utc_with_milliseconds(client, system, stamp):
    import re

    from gateway.messages.message_view import rfc3339

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", rfc3339(stamp))
    assert rfc3339(1_767_225_600_123) == "2026-01-01T00:00:00.123Z"
