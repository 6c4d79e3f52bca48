"""A refusal names the field as the client wrote it, and says what to do."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
GOOD = {"body": "x"}


@pytest.mark.parametrize(
    ("message", "status", "field"),
    [
        ({"delayLevel": 3, "delayMs": 5}, 400, "delayMs"),
        ({"delayLevel": 19}, 400, "delayLevel"),
        ({"deliverAt": "2030-01-01T00:00:00Z"}, 400, "deliverAt"),
        ({"broker": "nobody"}, 404, "broker"),
        ({"broker": "nobody", "queueId": 0}, 404, "broker"),
        ({"tag": "*"}, 400, "tag"),
        ({"tag": "a||b"}, 400, "tag"),
    ],
)
async def test_the_message_and_field_of_a_send_are_named(client, message, status, field):
    answer = await client.post(ORDERS, json={"messages": [GOOD, GOOD | message]})
    assert (answer.status_code, answer.json()["field"]) == (status, f"messages[1].{field}")


async def test_a_delay_in_a_header_is_named_as_that_header(client):
    headers = {"content-type": "text/plain", "mq-delay-ms": "3456000001"}
    answer = await client.post(ORDERS, content=b"x", headers=headers)
    assert (answer.status_code, answer.json()["field"]) == (400, "Mq-Delay-Ms")


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"ce-delaylevel": "19"}, "ce-delaylevel"),
        ({"ce-delayms": "-1"}, "ce-delayms"),
        ({"ce-type": "*"}, "ce-type"),
        ({"mq-tag": "*"}, "Mq-Tag"),
        ({"ce-deliverat": "2030-01-01T00:00:00Z"}, "ce-deliverat"),
    ],
)
async def test_a_field_of_an_event_is_named_as_its_attribute(client, headers, field):
    event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
    answer = await client.post(ORDERS, content=b"x", headers=event | headers)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_an_attribute_of_a_batch_is_named_with_its_place(client):
    good = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    answer = await client.post(
        ORDERS,
        json=[good, good | {"delaylevel": 77}],
        headers={"content-type": "application/cloudevents-batch+json"},
    )
    assert (answer.status_code, answer.json()["field"]) == (400, "[1].delaylevel")


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TRAN_MSG"])
async def test_properties_that_ask_for_delay_or_transaction_are_the_systems(client, name):
    answer = await client.post(ORDERS, json={"messages": [{"body": "x", "properties": {name: "1"}}]})
    assert (answer.status_code, answer.json()["field"]) == (400, f"messages[0].properties.{name}")
    assert ("delayMs" in answer.json()["detail"]) == (name != "TRAN_MSG")


@pytest.mark.parametrize(("change", "field"), [({"topic": "none"}, "topic"), ({"broker": "none"}, "broker")])
async def test_the_offset_that_names_something_unknown_is_named(client, change, field):
    good = {"topic": "orders", "broker": "broker-a", "queueId": 0, "offset": 0}
    answer = await client.put("/v1/groups/g1/offsets", json={"offsets": [good, good | change]})
    assert (answer.status_code, answer.json()["field"]) == (404, f"offsets[1].{field}")


async def test_the_headers_that_there_are_are_named(client):
    headers = {"content-type": "text/plain", "mq-tags": "a"}
    words = (await client.post(ORDERS, content=b"x", headers=headers)).json()["detail"]
    assert "Mq-Property-<name>" in words
    assert "body" not in words


@pytest.mark.parametrize("path", [ORDERS, "/v1/topics/other"])
async def test_half_a_surrogate_pair_is_said_to_be_one(client, path):
    body = b'{"messages":[{"body":"\\ud800"}]}'
    headers = {"content-type": "application/json"}
    method = "POST" if path == ORDERS else "PUT"
    answer = await client.request(method, path, content=body, headers=headers)
    assert answer.status_code == 400
    assert "surrogate" in answer.json()["detail"]


async def test_groups_with_the_systems_prefix_are_the_systems(client):
    assert (await client.put("/v1/groups/GANTRY_SYS_x", json={})).status_code == 403
