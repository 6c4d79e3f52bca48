"""GET /v1/messages/{id}/timeline: the events of a message, from its records and the stores."""

from __future__ import annotations

import pytest
from gateway_problem_check import check

from gantry_wire.messages.properties import format_properties
from gantry_wire.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import MessageEvent
from gateway.ports.stores import TopicSettings

pytestmark = pytest.mark.anyio
LIFE = "/v1/messages/m1/timeline?topic=orders"


def put(system, topic, queue_id=0, broker="broker-a", **properties):
    """Put a record of m1 into a topic, and let a second pass."""
    store = system.stores[broker]
    store.kept_topics.setdefault(topic, TopicSettings(topic, 32, 32, 6))
    named = format_properties({"UNIQ_KEY": "m1"} | {k: v for k, v in properties.items() if k != "DELAY"})
    stored = store._put(topic, queue_id, 0, b"x", named, strict=True)
    system.clocks.advance(1)
    return stored


async def events(client, url=LIFE):
    answer = await client.get(url)
    assert answer.status_code == 200, answer.text
    return answer.json()["events"]


async def test_a_plain_message_was_stored(client, system):
    stored = put(system, "orders", 2)
    (one,) = await events(client)
    assert one == {
        "event": "stored", "at": "2026-01-01T00:00:00.000Z", "broker": "broker-a", "topic": "orders", "queueId": 2,
        "queueOffset": 0, "offsetMessageId": stored.offset_message_id,
    }  # fmt: skip


async def test_a_delayed_message_was_scheduled_settled_and_delivered(client, system):
    put(system, TIMER_TOPIC, REAL_TOPIC="orders", REAL_QID="3", TIMER_OUT_MS="1767225601000")
    put(system, "orders", 3, __GANTRY_SETTLED=f"{TIMER_TOPIC}:0:0::1/1")
    system.known_events["broker-a", TIMER_TOPIC, 0, 0] = [
        MessageEvent("settled", time_ms=1_767_225_601_000, outcome="delivered")
    ]
    timeline = await events(client)
    assert [one["event"] for one in timeline] == ["scheduled", "settled", "delivered"]
    assert timeline[0]["detail"]["deliverAt"] == "2026-01-01T00:00:01.000Z"
    assert timeline[1]["detail"] == {"outcome": "delivered"}


async def test_a_cancelled_message_was_never_in_its_topic_and_still_has_a_timeline(client, system):
    put(system, TIMER_TOPIC, REAL_TOPIC="orders", REAL_QID="3", TIMER_OUT_MS="1767225601000")
    system.known_events["broker-a", TIMER_TOPIC, 0, 0] = [MessageEvent("settled", outcome="cancelled")]
    assert [one["event"] for one in await events(client)] == ["scheduled", "settled"]


async def test_retries_death_and_redrive_are_events_with_group_and_reason(client, system):
    put(system, "orders", 0)
    put(system, SCHEDULE_TOPIC, 2, REAL_TOPIC="%RETRY%g1", REAL_QID="0")
    put(system, "%RETRY%g1", 0, __GANTRY_SETTLED=f"{SCHEDULE_TOPIC}:2:0::1/1")
    put(system, "%DLQ%g1", 0, __GANTRY_DLQ_REASON="declined", __GANTRY_DLQ_ATTEMPTS="2")
    put(system, "%RETRY%g1", 0, __GANTRY_SETTLED="%DLQ%g1:0:0:GANTRY:1/1")
    timeline = await events(client)
    assert [one["event"] for one in timeline] == ["stored", "scheduled", "retried", "dead", "redriven"]
    assert [one.get("group") for one in timeline] == [None, "g1", "g1", "g1", "g1"]
    assert timeline[3]["detail"] == {"reason": "declined", "attempts": "2"}


async def test_leases_and_acknowledgements_are_events_from_the_store(client, system):
    put(system, "orders", 0)
    system.known_events["broker-a", "orders", 0, 0] = [
        MessageEvent("acked", time_ms=1_767_225_605_000, group="g1"),
        MessageEvent("leased", group="g2", detail={"attempt": "2"}),
    ]
    timeline = await events(client)
    assert [(one["event"], one.get("group")) for one in timeline] == [
        ("stored", None), ("acked", "g1"), ("leased", "g2"),
    ]  # fmt: skip
    assert timeline[2]["at"] is None


async def test_a_timeline_of_a_transaction_starts_with_its_half(client, system):
    put(system, HALF_TOPIC, REAL_TOPIC="orders", REAL_QID="1")
    put(system, "orders", 1, __GANTRY_SETTLED=f"{HALF_TOPIC}:0:0::1/2")
    assert [one["event"] for one in await events(client)] == ["half", "committed"]


async def test_a_message_of_another_topic_with_this_id_is_excluded(client, system):
    put(system, "orders", 0)
    put(system, TIMER_TOPIC, REAL_TOPIC="invoices", REAL_QID="0", TIMER_OUT_MS="1767225601000")
    assert len(await events(client)) == 1


@pytest.mark.parametrize("place", [0, 1])
async def test_an_offset_id_of_any_of_its_records_finds_it_without_topic(client, system, place):
    records = [
        put(system, TIMER_TOPIC, REAL_TOPIC="orders", REAL_QID="3", TIMER_OUT_MS="1767225601000"),
        put(system, "orders", 3, __GANTRY_SETTLED=f"{TIMER_TOPIC}:0:0::1/1"),
    ]
    answer = await client.get(f"/v1/messages/{records[place].offset_message_id}/timeline")
    assert (answer.json()["messageId"], answer.json()["topic"]) == ("m1", "orders")
    assert len(answer.json()["events"]) == 2


async def test_an_unknown_message_is_404_and_a_broker_that_is_away_named(pair_client, pair):
    check(await pair_client.get(LIFE), 404, "id")
    put(pair, "orders", 0)
    pair.kill("broker-b")
    answer = (await pair_client.get(LIFE)).json()
    assert (len(answer["events"]), answer["missing"]) == (1, ["broker-b"])
    check(await pair_client.get("/v1/messages/none/timeline?topic=orders"), 503)
