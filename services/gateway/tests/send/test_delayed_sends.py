"""Delayed messages: stored records, replies, refusals."""

from __future__ import annotations

import pytest
from gateway_problem_check import check

from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.records.message_record import decode_record

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
NOW = "2026-01-01T00:00:00.000Z"
DAY_MS = 86_400_000


def send_body(*messages):
    return {"messages": list(messages)}


def scheduled(system):
    return [decode_record(one) for one in system.stores["broker-a"].queues.get((SCHEDULE_TOPIC, 0), [])]


@pytest.mark.parametrize(
    ("field", "name", "value", "deliver_at"),
    [
        ({"delayLevel": 3}, "DELAY", "3", "2026-01-01T00:00:10.000Z"),
        ({"delayMs": 1500}, "TIMER_DELAY_MS", "1500", "2026-01-01T00:00:01.500Z"),
        ({"delayMs": 40 * DAY_MS}, "TIMER_DELAY_MS", "3456000000", "2026-02-10T00:00:00.000Z"),
        ({"deliverAt": "2026-01-02T01:00:00.250+01:00"}, "TIMER_DELIVER_MS", "1767312000250", "2026-01-02T00:00:00.250Z"),
        ({"deliverAt": 1767312000250}, "TIMER_DELIVER_MS", "1767312000250", "2026-01-02T00:00:00.250Z"),
    ],
)  # fmt: skip
async def test_a_delay_is_stored_and_answered_with_its_target_queue_and_time(
    client, system, field, name, value, deliver_at
):
    answer = await client.post(ORDERS, json=send_body({"body": "x", "queueId": 2} | field))
    assert answer.status_code == 200, answer.text
    (result,) = answer.json()["results"]
    assert (result["status"], result["queueId"], result["queueOffset"]) == ("SEND_OK", 2, None)
    assert result["deliverAt"] == deliver_at
    (record,) = scheduled(system)
    assert record.property_map()[name] == value


@pytest.mark.parametrize(
    "field", [{"deliverAt": "1999-01-01T00:00:00Z"}, {"deliverAt": 0}, {"deliverAt": NOW}]
)
async def test_a_message_with_a_past_time_is_delivered_at_once(client, system, field):
    (result,) = (await client.post(ORDERS, json=send_body({"body": "x"} | field))).json()["results"]
    assert result["queueOffset"] == 0
    assert "deliverAt" not in result
    assert not scheduled(system)


@pytest.mark.parametrize("field", [{"delayLevel": 0}, {"delayMs": 0}, {"deliverAt": None}])
async def test_zero_is_no_delay(client, system, field):
    (result,) = (await client.post(ORDERS, json=send_body({"body": "x"} | field))).json()["results"]
    assert result["queueOffset"] == 0
    assert not scheduled(system)


@pytest.mark.parametrize(
    ("field", "named", "limit"),
    [
        ({"deliverAt": "2026-02-10T00:00:00.001Z"}, "deliverAt", "2026-02-10T00:00:00.000Z"),
        ({"deliverAt": 2**63 - 1}, "deliverAt", "2026-02-10"),
        ({"deliverAt": -1}, "deliverAt", ">= 0"),
        ({"deliverAt": True}, "deliverAt", ""),
        ({"delayMs": "5"}, "delayMs", ""),
        ({"delayMs": 1, "deliverAt": NOW}, "deliverAt", "one of"),
        ({"delayLevel": 1, "delayMs": 1}, "delayMs", "one of"),
    ],
)
async def test_a_time_out_of_bounds_is_refused_and_nothing_is_stored(client, system, field, named, limit):
    answer = await client.post(ORDERS, json=send_body({"body": "x"}, {"body": "x"} | field))
    check(answer, 400, f"messages[1].{named}", limit)
    assert not system.stores["broker-a"].queues


async def test_the_horizon_is_a_setting(system, connect):
    async with connect(system.gateway(delay_horizon_seconds=60)) as client:
        assert (
            await client.post(ORDERS, json=send_body({"body": "x", "delayMs": 60_000}))
        ).status_code == 200
        answer = await client.post(ORDERS, json=send_body({"body": "x", "delayMs": 60_001}))
        check(answer, 400, "messages[0].delayMs", "<= 60000")


async def test_delayed_and_plain_messages_of_one_request_have_their_own_results(client, system):
    messages = [{"body": str(n)} | ({"delayMs": 1000 * n} if n % 2 else {}) for n in range(10)]
    results = (await client.post(ORDERS, json=send_body(*messages))).json()["results"]
    assert [result["queueOffset"] is None for result in results] == [bool(n % 2) for n in range(10)]
    assert len({result["queueId"] for result in results}) == 1
    assert sorted(one.body for one in scheduled(system)) == [b"1", b"3", b"5", b"7", b"9"]


@pytest.mark.parametrize(
    ("headers", "name", "value"),
    [
        ({"Mq-Delay-Level": "2"}, "DELAY", "2"),
        ({"Mq-Delay-Ms": "2000"}, "TIMER_DELAY_MS", "2000"),
        ({"Mq-Deliver-At": "2026-01-01T00:00:02Z"}, "TIMER_DELIVER_MS", "1767225602000"),
        ({"Mq-Deliver-At": "1767225602000"}, "TIMER_DELIVER_MS", "1767225602000"),
    ],
)
@pytest.mark.parametrize("is_event", [False, True])
async def test_headers_delay_raw_bodies_and_events(client, system, headers, name, value, is_event):
    event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"} if is_event else {}
    answer = await client.post(ORDERS, content=b"x", headers=headers | event)
    assert answer.json()["results"][0]["deliverAt"]
    (record,) = scheduled(system)
    assert record.property_map()[name] == value


@pytest.mark.parametrize(
    ("attribute", "name", "value"),
    [
        ({"delaylevel": 2}, "DELAY", "2"),
        ({"delayms": 2000}, "TIMER_DELAY_MS", "2000"),
        ({"deliverat": "2026-01-01T00:00:02Z"}, "TIMER_DELIVER_MS", "1767225602000"),
    ],
)
async def test_attributes_delay_an_event_and_are_not_kept(client, system, attribute, name, value):
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"} | attribute
    answer = await client.post(ORDERS, json=event, headers={"content-type": "application/cloudevents+json"})
    assert answer.json()["results"][0]["deliverAt"]
    (record,) = scheduled(system)
    named = record.property_map()
    assert named[name] == value
    assert not any(key.startswith("ce_del") for key in named)


async def test_a_free_delayed_message_avoids_a_broker_that_is_away(pair_client, pair):
    for _ in range(2):
        await pair_client.post(ORDERS, json=send_body({"body": "x"}))
    pair.kill("broker-a")
    pair.registered.add("broker-a")
    for _ in range(4):
        (result,) = (await pair_client.post(ORDERS, json=send_body({"body": "x", "delayMs": 50}))).json()[
            "results"
        ]
        assert (result["broker"], result["queueOffset"]) == ("broker-b", None)
