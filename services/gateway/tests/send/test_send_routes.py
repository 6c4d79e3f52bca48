"""Sends while routes change, brokers die and nameservers are away."""

from __future__ import annotations

import pytest

from gateway.ports.stores import TopicSettings

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"


def send_body(*messages):
    return {"messages": list(messages)}


async def test_a_cached_route_is_not_read_again(client, system):
    for _ in range(5):
        await client.post(ORDERS, json=send_body({"body": "x"}))
    assert system.route_calls == 1


async def test_sends_use_cached_routes_while_every_nameserver_is_away(system, connect):
    gateway = system.gateway()
    async with connect(gateway) as client:
        await client.post(ORDERS, json=send_body({"body": "x"}))
        system.silent_nameservers = set(system.nameservers)
        gateway.routes.forget("orders")
        assert (await client.post(ORDERS, json=send_body({"body": "x"}))).status_code == 200
        assert (
            await client.post("/v1/topics/other/messages", json=send_body({"body": "x"}))
        ).status_code == 503


async def test_a_topic_whose_only_broker_died_is_503_and_not_404(client, system):
    await client.post(ORDERS, json=send_body({"body": "x"}))
    system.kill("broker-a")
    for _ in range(3):
        answer = await client.post(ORDERS, json=send_body({"body": "x"}))
        assert (answer.status_code, answer.json()["retryable"]) == (503, True)


async def test_sends_continue_while_a_restarted_nameserver_knows_no_broker(system, connect):
    gateway = system.gateway()
    async with connect(gateway) as client:
        await client.post(ORDERS, json=send_body({"body": "x"}))
        system.registered.clear()
        await gateway.routes.refresh(600)
        for _ in range(2):
            gateway.routes.forget("orders")
            assert (await client.post(ORDERS, json=send_body({"body": "x"}))).status_code == 200


async def test_keyed_sends_continue_while_a_restarted_nameserver_knows_one_of_two_brokers(pair, connect):
    gateway = pair.gateway()
    keyed = send_body(*({"body": "x", "idempotencyKey": f"k-{n}"} for n in range(16)))
    async with connect(gateway) as client:
        assert (await client.post(ORDERS, json=keyed)).status_code == 200
        pair.registered.discard("broker-b")
        await gateway.routes.refresh(600)
        answer = await client.post(ORDERS, json=keyed)
        assert {result["broker"] for result in answer.json()["results"]} == {"broker-a", "broker-b"}
        path = "/v1/topics/orders/queues/broker-b/0/messages?offset=0"
        assert (await client.get(path)).status_code == 200


async def test_keyed_sends_continue_while_every_nameserver_is_away(system, connect):
    gateway = system.gateway()
    keyed = send_body({"body": "x", "idempotencyKey": "k"})
    async with connect(gateway) as client:
        assert (await client.post(ORDERS, json=keyed)).status_code == 200
        system.silent_nameservers = set(system.nameservers)
        await gateway.routes.refresh(600)
        assert (await client.post(ORDERS, json=keyed)).status_code == 200


async def test_a_broker_that_left_the_topic_is_not_tried(pair, connect):
    gateway = pair.gateway()
    async with connect(gateway) as client:
        await client.post(ORDERS, json=send_body({"body": "x"}))
        del pair.stores["broker-b"].kept_topics["orders"]
        await gateway.routes.refresh(600)
        answer = await client.post(ORDERS, json=send_body({"body": "x", "broker": "broker-b"}))
        assert answer.status_code == 503
        assert "send" not in pair.stores["broker-b"].calls[-1:]


async def test_a_topic_deleted_by_another_gateway_is_404(system, connect):
    gateway = system.gateway()
    async with connect(gateway) as client:
        await client.post(ORDERS, json=send_body({"body": "x"}))
        del system.stores["broker-a"].kept_topics["orders"]
        await gateway.routes.refresh(600)
        assert (await client.post(ORDERS, json=send_body({"body": "x"}))).status_code == 404


async def test_the_slow_poll_finds_a_shrunk_route(system, connect):
    gateway = system.gateway()
    async with connect(gateway) as client:
        await client.post(ORDERS, json=send_body({"body": "x"}))
        system.stores["broker-a"].kept_topics["orders"] = TopicSettings("orders", 1, 1, 6)
        await gateway.routes.refresh(600)
        answers = [await client.post(ORDERS, json=send_body({"body": "x"})) for _ in range(4)]
        assert {a.json()["results"][0]["queueId"] for a in answers} == {0}
