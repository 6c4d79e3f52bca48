"""Sends that are not JSON messages: raw bodies with Mq-* headers, CloudEvents, compressed requests, trace context."""

from __future__ import annotations

import gzip
import json

import pytest

from gantry_wire.records.message_record import decode_record

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"


def send_body(*messages):
    return {"messages": list(messages)}


async def test_a_raw_body_is_one_message_with_its_fields_in_headers(client, system):
    headers = {
        "content-type": "text/plain",
        "Mq-Tag": "a",
        "Mq-Keys": "k-1 k-2",
        "Mq-Property-Color": "red",
        "Mq-Properties": "Size=9&note=%C3%A9",
        "Mq-Queue-Id": "3",
    }
    answer = await client.post(ORDERS, content=b"\x01raw", headers=headers)
    assert answer.status_code == 200, answer.text
    record = decode_record(system.stores["broker-a"].queues["orders", 3][0])
    named = record.property_map()
    assert record.body == b"\x01raw"
    assert (named["TAGS"], named["KEYS"], named["color"], named["Size"], named["note"]) == (
        "a",
        "k-1 k-2",
        "red",
        "9",
        "é",
    )


async def test_a_form_is_415_naming_the_header_to_add(client):
    answer = await client.post(ORDERS, data={"a": "b"})
    assert answer.status_code == 415
    assert "Content-Type: application/json" in answer.json()["detail"]


async def test_a_cloud_event_in_headers_becomes_a_message(client, system):
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "7",
        "ce-source": "/shop",
        "ce-type": "order.created",
        "ce-subject": "o%201",
        "content-type": "application/json",
    }
    for _ in range(2):
        answer = await client.post(ORDERS, content=b'{"total":12}', headers=headers)
    assert answer.json()["results"][0]["duplicate"] is True
    (queue,) = [q for q in system.stores["broker-a"].queues.values() if q]
    record = decode_record(queue[0])
    named = record.property_map()
    assert record.body == b'{"total":12}'
    assert (named["TAGS"], named["KEYS"], named["ce_id"]) == ("order.created", "o 1", "7")
    assert named["ce_datacontenttype"] == "application/json"


async def test_a_batch_of_cloud_events_becomes_messages_in_order(client, system):
    events = [
        {
            "specversion": "1.0",
            "id": str(n),
            "source": "/s",
            "type": "t",
            "partitionkey": "p",
            "data": {"n": n},
        }
        for n in range(3)
    ]
    headers = {"content-type": "application/cloudevents-batch+json"}
    answer = await client.post(ORDERS, content=json.dumps(events), headers=headers)
    assert [r["queueOffset"] for r in answer.json()["results"]] == [0, 1, 2]
    (queue,) = [q for q in system.stores["broker-a"].queues.values() if q]
    assert decode_record(queue[2]).body == b'{"n":2}'


async def test_a_structured_cloud_event_is_taken_too(client, system):
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data_base64": "AP8="}
    headers = {"content-type": "application/cloudevents+json; charset=utf-8"}
    assert (await client.post(ORDERS, content=json.dumps(event), headers=headers)).status_code == 200
    (queue,) = [q for q in system.stores["broker-a"].queues.values() if q]
    assert decode_record(queue[0]).body == b"\x00\xff"


async def test_traceparent_is_kept_as_a_property_and_a_broken_one_stops_nothing(client, system):
    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for given in (good, "nonsense"):
        await client.post(ORDERS, json=send_body({"body": "x", "queueId": 0}), headers={"traceparent": given})
    first, second = (decode_record(r).property_map() for r in system.stores["broker-a"].queues["orders", 0])
    assert first["traceparent"] == good
    assert "traceparent" not in second


async def test_a_compressed_request_is_decompressed(client, system):
    body = gzip.compress(json.dumps(send_body({"body": "x" * 5000, "queueId": 0})).encode())
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert (await client.post(ORDERS, content=body, headers=headers)).status_code == 200
    assert len(decode_record(system.stores["broker-a"].queues["orders", 0][0]).body) == 5000
