"""POST /v1/groups/{group}/offsets:reset: to an end, a time or an offset; also as a dry run."""

from __future__ import annotations

import pytest
from gateway_problem_check import check

from gateway.ports.stores import StoreRefused

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
RESET = "/v1/groups/g1/offsets:reset"


async def fill(client, clocks, count=10, queue_id=0, **more):
    for n in range(count):
        message = {"body": str(n), "queueId": queue_id} | more
        assert (await client.post(ORDERS, json={"messages": [message]})).status_code == 200
        clocks.advance(1)


def offset(system, queue_id=0, broker="broker-a"):
    return system.stores[broker].offsets.get(("g1", "orders", queue_id))


@pytest.mark.parametrize(
    ("to", "end"),
    [
        ("earliest", 0),
        ("latest", 10),
        (3, 3),
        ("3", 3),
        (3.0, 3),
        (99, 10),
        ("2026-01-01T00:00:04Z", 4),
        ("2026-01-01T01:00:03.5+01:00", 4),
        ("1999-01-01T00:00:00Z", 0),
        ("2099-01-01T00:00:00Z", 10),
    ],
)
async def test_a_reset_moves_the_group_to_the_target(client, system, to, end):
    await fill(client, system.clocks)
    system.stores["broker-a"].offsets["g1", "orders", 0] = 6
    answer = await client.post(RESET, json={"topic": "orders", "to": to})
    assert answer.status_code == 200, answer.text
    reply = answer.json()
    assert reply["queues"][0] == {"topic": "orders", "broker": "broker-a", "queueId": 0, "from": 6, "to": end}
    assert (reply["skipped"], reply["replayed"]) == (max(end - 6, 0), max(6 - end, 0))
    assert offset(system) == end


async def test_a_dry_run_shows_the_result_and_changes_nothing(client, system):
    await fill(client, system.clocks)
    system.stores["broker-a"].offsets["g1", "orders", 0] = 6
    reply = (await client.post(RESET, json={"topic": "orders", "to": "latest", "dryRun": True})).json()
    assert (reply["dryRun"], reply["skipped"], reply["replayed"]) == (True, 4, 0)
    assert offset(system) == 6
    assert "reset_offset" not in system.stores["broker-a"].calls


@pytest.mark.parametrize("is_dry", [True, False])
async def test_messages_acknowledged_out_of_order_count_as_delivered_again(client, system, is_dry):
    await fill(client, system.clocks)
    store = system.stores["broker-a"]
    store.offsets["g1", "orders", 0], store.given_again = 6, 3
    body = {"topic": "orders", "to": 4, "queueId": 0, "dryRun": is_dry}
    reply = (await client.post(RESET, json=body)).json()
    assert (reply["skipped"], reply["replayed"]) == (0, 5)
    assert offset(system) == (6 if is_dry else 4)


async def test_expired_messages_count_as_neither_skipped_nor_replayed(client, system):
    await fill(client, system.clocks)
    system.stores["broker-a"].min_offsets["orders", 0] = 7
    system.stores["broker-a"].offsets["g1", "orders", 0] = 2
    reply = (await client.post(RESET, json={"topic": "orders", "to": "earliest"})).json()
    assert (reply["queues"][0]["from"], reply["queues"][0]["to"]) == (2, 7)
    assert (reply["skipped"], reply["replayed"]) == (0, 0)


@pytest.mark.parametrize("is_dry", [True, False])
@pytest.mark.parametrize("to", ["earliest", 2, "2026-01-01T00:00:02Z"])
async def test_a_reset_to_what_expires_meanwhile_moves_to_the_beginning(
    client, system, monkeypatch, to, is_dry
):
    await fill(client, system.clocks)
    store = system.stores["broker-a"]
    store.offsets["g1", "orders", 0] = 9
    right = store.reset_offset

    async def expire(group, topic, queue_id, offset, *, dry):
        store.min_offsets["orders", 0] = 7
        low, high = store.min_offsets.get((topic, queue_id), 0), len(store.queues.get((topic, queue_id), []))
        if not low <= offset <= high:
            raise StoreRefused(29, f"Target offset {offset} not in consume queue range [{low}-{high}]")
        return await right(group, topic, queue_id, offset, dry=dry)

    monkeypatch.setattr(store, "reset_offset", expire)
    answer = await client.post(RESET, json={"topic": "orders", "to": to, "dryRun": is_dry})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["queues"][0]["to"], answer.json()["replayed"]) == (7, 2)
    assert offset(system) == (9 if is_dry else 7)


async def test_every_queue_of_every_broker_is_reset(pair_client, pair):
    await fill(pair_client, pair.clocks, 4, 1, broker="broker-a")
    await fill(pair_client, pair.clocks, 4, 2, broker="broker-b")
    reply = (await pair_client.post(RESET, json={"topic": "orders", "to": "latest"})).json()
    assert len(reply["queues"]) == 8
    assert reply["skipped"] == 8
    assert (offset(pair, 1), offset(pair, 2, "broker-b"), offset(pair, 0)) == (4, 4, 0)


async def test_one_queue_of_one_broker_is_reset_alone(pair_client, pair):
    await fill(pair_client, pair.clocks, 4, 1, broker="broker-a")
    body = {"topic": "orders", "to": 2, "broker": "broker-a", "queueId": 1}
    reply = (await pair_client.post(RESET, json=body)).json()
    assert [(one["broker"], one["queueId"], one["to"]) for one in reply["queues"]] == [("broker-a", 1, 2)]
    check(await pair_client.post(RESET, json=body | {"to": 5}), 400, "to", "0…4")
    check(await pair_client.post(RESET, json=body | {"queueId": 9}), 400, "queueId")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"to": -1}, 400, "to"),
        ({"to": "-1"}, 400, "to"),
        ({"to": "soon"}, 400, "to"),
        ({"to": "2026-01-01T00:00:00"}, 400, "to"),
        ({"to": None}, 400, "to"),
        ({"to": 1.5}, 400, "to"),
        ({}, 400, "to"),
        ({"to": "latest", "topic": "none"}, 404, "topic"),
        ({"to": "latest", "broker": "none"}, 404, "broker"),
        ({"to": "latest", "queueId": -1}, 400, "queueId"),
        ({"to": "latest", "dry": True}, 400, "dry"),
    ],
)
async def test_a_bad_reset_is_refused_by_name_and_changes_nothing(client, system, body, status, field):
    answer = await client.post(RESET, json={"topic": "orders"} | body)
    check(answer, status, field)
    assert not system.stores["broker-a"].offsets


async def test_an_unknown_group_is_404_and_one_of_the_system_403(client):
    check(await client.post("/v1/groups/none/offsets:reset", json={"topic": "orders", "to": 0}), 404, "group")
    check(
        await client.post("/v1/groups/CID_RMQ_SYS_TRANS/offsets:reset", json={"topic": "orders", "to": 0}),
        403,
        "group",
    )


async def test_a_broker_that_is_away_is_named_and_nothing_is_reset(pair_client, pair):
    await pair_client.get("/v1/brokers")
    pair.kill("broker-b")
    problem = check(await pair_client.post(RESET, json={"topic": "orders", "to": "latest"}), 503)
    assert (problem["missing"], problem["retryable"]) == (["broker-b"], True)
    assert not pair.stores["broker-a"].offsets
    body = {"topic": "orders", "to": "latest", "broker": "broker-a"}
    assert (await pair_client.post(RESET, json=body)).status_code == 200
    check(await pair_client.post(RESET, json=body | {"broker": "broker-b"}), 503)


async def test_the_problem_of_a_bad_number_describes_the_number(client):
    answer = await client.post(RESET, json={"topic": "orders", "to": -1})
    assert check(answer, 400, "to")["limit"] == ">= 0"
