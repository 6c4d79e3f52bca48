"""POST /v1/topics/{topic}/messages over in-memory ports: shapes, routing, batches, retries, unknown results."""

from __future__ import annotations

import base64

import pytest

from gantry_wire.records.message_record import decode_record
from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"


def send_body(*messages):
    return {"messages": list(messages)}


async def test_one_message_has_the_documented_shape(client, system):
    answer = await client.post(
        ORDERS, json=send_body({"body": "hi", "tag": "a", "keys": ["o-1"], "properties": {"x": "1"}})
    )
    assert answer.status_code == 200
    (result,) = answer.json()["results"]
    assert set(result) == {
        "status",
        "messageId",
        "offsetMessageId",
        "broker",
        "queueId",
        "queueOffset",
        "durability",
    }
    assert (result["status"], result["broker"], result["queueOffset"], result["durability"]) == (
        "SEND_OK",
        "broker-a",
        0,
        "fsync",
    )
    record = decode_record(system.stores["broker-a"].queues["orders", result["queueId"]][0])
    assert record.body == b"hi"
    named = record.property_map()
    assert (named["TAGS"], named["KEYS"], named["x"], named["UNIQ_KEY"]) == (
        "a",
        "o-1",
        "1",
        result["messageId"],
    )
    assert record.message_id == result["offsetMessageId"]


async def test_async_flush_is_reported(client, system):
    system.stores["broker-a"].is_durable = False
    answer = await client.post(ORDERS, json=send_body({"body": "hi"}))
    assert answer.json()["results"][0]["durability"] == "written"


async def test_base64_bodies_arrive_as_bytes(client, system):
    await client.post(
        ORDERS, json=send_body({"bodyBase64": base64.b64encode(b"\x00\xff").decode(), "queueId": 2})
    )
    assert decode_record(system.stores["broker-a"].queues["orders", 2][0]).body == b"\x00\xff"


async def test_unrouted_messages_of_a_request_share_a_queue_and_the_next_request_takes_the_next(
    client, system
):
    first = (await client.post(ORDERS, json=send_body(*({"body": str(n)} for n in range(10))))).json()[
        "results"
    ]
    second = (await client.post(ORDERS, json=send_body({"body": "x"}))).json()["results"]
    assert [r["queueOffset"] for r in first] == list(range(10))
    assert len({r["queueId"] for r in first}) == 1
    assert second[0]["queueId"] != first[0]["queueId"]
    assert system.stores["broker-a"].calls.count("send_batch") == 1


async def test_results_come_in_input_order_across_queues(client):
    messages = [{"body": str(n), "queueId": n % 4} for n in range(12)]
    results = (await client.post(ORDERS, json=send_body(*messages))).json()["results"]
    assert [r["queueId"] for r in results] == [n % 4 for n in range(12)]
    assert [r["queueOffset"] for r in results] == [n // 4 for n in range(12)]


async def test_a_sharding_key_keeps_to_one_queue_and_makes_the_list(pair_client, pair):
    queues = set()
    for n in range(8):
        answer = await pair_client.post(ORDERS, json=send_body({"body": str(n), "shardingKey": "user-7"}))
        result = answer.json()["results"][0]
        queues.add((result["broker"], result["queueId"]))
    assert len(queues) == 1
    assert pair.kept_values["ORDER_TOPIC_CONFIG", "orders"] == "broker-a:4;broker-b:4"


async def test_keyed_sends_never_move_to_another_broker(pair_client, pair):
    answer = await pair_client.post(ORDERS, json=send_body({"body": "1", "shardingKey": "user-7"}))
    broker = answer.json()["results"][0]["broker"]
    pair.kill(broker)
    answer = await pair_client.post(ORDERS, json=send_body({"body": "2", "shardingKey": "user-7"}))
    assert answer.status_code == 503
    assert answer.json()["retryable"] is True
    again = await pair_client.post(ORDERS, json=send_body({"body": "3", "shardingKey": "user-7"}))
    assert again.status_code == 503


async def test_a_repeat_with_its_key_answers_the_first_message(client):
    message = {"body": "pay", "idempotencyKey": "k-1"}
    first = (await client.post(ORDERS, json=send_body(message))).json()["results"][0]
    second = (await client.post(ORDERS, json=send_body(message))).json()["results"][0]
    assert second == {**first, "duplicate": True}


async def test_a_known_key_with_other_content_is_422(client):
    await client.post(ORDERS, json=send_body({"body": "a", "idempotencyKey": "k-1"}))
    answer = await client.post(ORDERS, json=send_body({"body": "b", "idempotencyKey": "k-1"}))
    assert answer.status_code == 422
    assert answer.json()["code"] == "IDEMPOTENCY_CONFLICT"


async def test_a_conflict_among_several_is_an_item_and_not_the_request(client):
    await client.post(ORDERS, json=send_body({"body": "a", "idempotencyKey": "k-1"}))
    answer = await client.post(
        ORDERS, json=send_body({"body": "x", "queueId": 0}, {"body": "b", "idempotencyKey": "k-1"})
    )
    assert answer.status_code == 200
    first, second = answer.json()["results"]
    assert first["status"] == "SEND_OK"
    assert second["code"] == "IDEMPOTENCY_CONFLICT"
    assert second["retryable"] is False
    assert "status" not in second


async def test_queue_id_needs_a_broker_where_two_hold_the_topic(pair_client):
    answer = await pair_client.post(ORDERS, json=send_body({"body": "x", "queueId": 1}))
    assert answer.status_code == 422
    assert answer.json()["field"] == "messages[0].broker"
    named = await pair_client.post(ORDERS, json=send_body({"body": "x", "queueId": 1, "broker": "broker-b"}))
    assert named.json()["results"][0]["broker"] == "broker-b"


async def test_a_queue_beyond_the_topic_is_400_naming_the_limit(client):
    answer = await client.post(ORDERS, json=send_body({"body": "x", "queueId": 4}))
    assert (answer.status_code, answer.json()["field"], answer.json()["limit"]) == (
        400,
        "messages[0].queueId",
        "0…3",
    )


async def test_an_unknown_broker_is_404_and_a_known_one_away_503(pair_client, pair):
    body = send_body({"body": "x", "broker": "broker-z"})
    assert (await pair_client.post(ORDERS, json=body)).status_code == 404
    await pair_client.post(ORDERS, json=send_body({"body": "x", "broker": "broker-b"}))
    pair.kill("broker-b")
    for _ in range(3):
        answer = await pair_client.post(ORDERS, json=send_body({"body": "x", "broker": "broker-b"}))
        assert (answer.status_code, answer.json()["retryable"]) == (503, True)


async def test_a_missing_topic_is_404_and_asked_for_again(client, system):
    assert (await client.post("/v1/topics/none/messages", json=send_body({"body": "x"}))).status_code == 404
    system.add_topic("none")
    assert (await client.post("/v1/topics/none/messages", json=send_body({"body": "x"}))).status_code == 200


async def test_a_missing_topic_is_made_only_by_setting(system, connect):
    async with connect(system.gateway(auto_create_topic=True)) as client:
        answer = await client.post("/v1/topics/fresh/messages", json=send_body({"body": "x"}))
    assert answer.status_code == 200
    assert system.stores["broker-a"].kept_topics["fresh"].write_queues == 8


async def test_a_free_message_goes_to_another_broker_when_certainly_not_stored(pair_client, pair):
    pair.stores["broker-a"].away = PeerAway("broker-a", False, "refused")
    for _ in range(8):
        answer = await pair_client.post(ORDERS, json=send_body({"body": "x"}))
        assert answer.json()["results"][0]["broker"] == "broker-b"


async def test_a_free_message_goes_to_another_broker_when_the_first_is_busy(pair_client, pair):
    pair.stores["broker-a"].refuse = StoreRefused(2, "[TIMEOUT_CLEAN_QUEUE]broker busy")
    answers = [await pair_client.post(ORDERS, json=send_body({"body": "x"})) for _ in range(8)]
    assert {a.json()["results"][0]["broker"] for a in answers} == {"broker-b"}


async def test_an_unanswered_request_is_never_sent_to_another_broker(pair_client, pair):
    pair.stores["broker-a"].away = PeerAway("broker-a", True, "timed out")
    pair.stores["broker-b"].away = PeerAway("broker-b", True, "timed out")
    answer = await pair_client.post(ORDERS, json=send_body({"body": "x"}))
    assert (answer.status_code, answer.json()["code"]) == (504, "UNKNOWN_WHETHER_STORED")
    assert "retry with the same idempotency key" in answer.json()["detail"]
    assert sum(store.calls.count("send") for store in pair.stores.values()) == 1


@pytest.mark.parametrize("code", [1, 10, 11, 12])
async def test_an_unknown_result_is_never_success(client, system, code):
    system.stores["broker-a"].refuse = StoreRefused(code, "…")
    answer = await client.post(ORDERS, json=send_body({"body": "x"}))
    assert (answer.status_code, answer.json()["code"]) == (504, "UNKNOWN_WHETHER_STORED")


@pytest.mark.parametrize(
    ("code", "gantry_code", "status", "name"),
    [
        (2, "", 429, "SYSTEM_BUSY"),
        (13, "", 422, "MESSAGE_ILLEGAL"),
        (14, "", 503, "SERVICE_NOT_AVAILABLE"),
        (14, "DISK_FULL", 507, "DISK_FULL"),
        (14, "STORE_STOPPED", 503, "STORE_STOPPED"),
        (16, "", 403, "NO_PERMISSION"),
        (17, "", 404, "TOPIC_NOT_EXIST"),
        (29, "", 400, "INVALID_PARAMETER"),
    ],
)
async def test_refusals_of_the_store_have_their_status(client, system, code, gantry_code, status, name):
    system.stores["broker-a"].refuse = StoreRefused(code, "why", gantry_code)
    answer = await client.post(ORDERS, json=send_body({"body": "x"}))
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, name)
    assert problem["retryable"] is (status in {429, 503, 507})
    assert ("retryAfterMs" in problem) is problem["retryable"]


async def test_a_topic_without_write_permission_is_403(client, system):
    system.add_topic("orders", perm=4)
    answer = await client.post(ORDERS, json=send_body({"body": "x"}))
    assert answer.status_code == 403


@pytest.mark.parametrize("topic", ["GANTRY_SYS_PROBE", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"])
async def test_system_topics_are_refused(client, topic):
    answer = await client.post(f"/v1/topics/{topic}/messages", json=send_body({"body": "x"}))
    assert (answer.status_code, answer.json()["code"]) == (403, "NO_PERMISSION")


async def test_a_list_that_changed_keeps_keyed_sends_where_they_were_until_the_window_is_over(
    pair_client, pair
):
    message = {"body": "x", "shardingKey": "s-3"}
    before = (await pair_client.post(ORDERS, json=send_body(message))).json()["results"][0]
    answer = await pair_client.put("/v1/topics/orders", json={"readQueues": 64, "writeQueues": 64})
    assert answer.status_code == 200, answer.text
    during = (await pair_client.post(ORDERS, json=send_body(message))).json()["results"][0]
    assert (during["broker"], during["queueId"]) == (before["broker"], before["queueId"])
    pair.clocks.advance(601)
    keys = [f"s-{n}" for n in range(40)]
    after = [
        (await pair_client.post(ORDERS, json=send_body({"body": "x", "shardingKey": key}))).json()["results"][
            0
        ]
        for key in keys
    ]
    assert any(result["queueId"] >= 4 for result in after)


async def test_a_list_that_shrank_uses_no_queue_that_is_gone(client, system):
    await client.put("/v1/topics/orders", json={"readQueues": 4, "writeQueues": 4})
    await client.put("/v1/topics/orders", json={"readQueues": 4, "writeQueues": 1})
    for n in range(12):
        answer = await client.post(ORDERS, json=send_body({"body": "x", "shardingKey": f"s-{n}"}))
        assert answer.json()["results"][0]["queueId"] == 0


async def test_messages_of_one_queue_are_one_batch_while_a_frame_holds_them(client, system):
    mib = 1024 * 1024
    sizes = [mib, mib, mib, mib, 4 * mib, 10, mib, 3 * mib]
    answer = await client.post(ORDERS, json=send_body(*({"body": "x" * size} for size in sizes)))
    results = answer.json()["results"]
    assert [r["queueOffset"] for r in results] == list(range(len(sizes)))
    assert len({r["queueId"] for r in results}) == 1
    (queue,) = [q for q in system.stores["broker-a"].queues.values() if q]
    assert [len(decode_record(record).body) for record in queue] == sizes
    calls = [call for call in system.stores["broker-a"].calls if call.startswith("send")]
    assert calls == ["send_batch"]


FILLS_A_FRAME = [4 * 1024 * 1024] * 3 + [2 * 1024 * 1024, 2 * 1024 * 1024 - 60_000]
"""Bodies of one request of just under 16 MiB, which exceed a batch with its overhead."""


async def test_messages_too_large_for_one_batch_go_in_order_to_one_queue(client, system):
    answer = await client.post(ORDERS, json=send_body(*({"body": "x" * size} for size in FILLS_A_FRAME)))
    results = answer.json()["results"]
    assert [r["queueOffset"] for r in results] == list(range(5))
    assert len({r["queueId"] for r in results}) == 1
    calls = [call for call in system.stores["broker-a"].calls if call.startswith("send")]
    assert calls == ["send_batch", "send"]


async def test_nothing_is_sent_after_a_refused_part(client, system, monkeypatch):
    store = system.stores["broker-a"]
    first = store.send_batch

    def once(*args, **more):
        *asked, on_result = args

        def then_full(outcome):
            store.refuse = StoreRefused(14, "the disk is full", "DISK_FULL")
            on_result(outcome)

        first(*asked, then_full, **more)

    monkeypatch.setattr(store, "send_batch", once)
    body = send_body(*({"body": "x" * size, "queueId": 1} for size in FILLS_A_FRAME))
    results = (await client.post(ORDERS, json=body)).json()["results"]
    assert [r.get("status", r.get("code")) for r in results] == ["SEND_OK"] * 4 + ["DISK_FULL"]
    assert len(store.queues["orders", 1]) == 4
