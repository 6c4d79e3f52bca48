"""Pulls of a broker with replicas: from its master, from the slave that it suggests, from any while none leads."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.ports.stores import PeerAway, Pulled, StoreRefused

pytestmark = pytest.mark.anyio
MESSAGES = "/v1/topics/orders/messages"
QUEUE = "/v1/topics/orders/queues/broker-a/0/messages"
AWAY = PeerAway("broker-a", False, "refused")


@pytest.fixture
def gateway(system):
    return system.gateway()


@pytest.fixture
async def client(gateway):
    transport = httpx.ASGITransport(app=gateway.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        yield http


@pytest.fixture
async def replica(client, system):
    await client.post(MESSAGES, json={"messages": [{"body": "hi", "queueId": 0, "broker": "broker-a"}]})
    return system.add_replica("broker-a", "127.0.0.1:20911")


async def pull(client, offset=0, **query):
    answer = await client.get(QUEUE, params={"offset": offset, **query})
    assert answer.status_code == 200, answer.text
    return [one["body"] for one in answer.json()["messages"]]


async def until(is_true):
    while not is_true():
        await asyncio.sleep(0.001)


async def test_a_pull_reads_from_the_master(client, system, replica):
    assert await pull(client) == ["hi"]
    assert "pull" not in replica.calls


async def test_a_route_without_a_master_lets_pulls_go_to_a_slave(client, gateway, system, replica):
    master = system.stores["broker-a"]
    system.leaderless.add("broker-a")
    gateway.routes.forget("orders")
    assert await pull(client) == ["hi"]
    assert "pull" in replica.calls
    assert "pull" not in master.calls


async def test_a_suggested_slave_is_read_until_it_suggests_the_master_or_fails(
    client, gateway, system, replica, monkeypatch
):
    gateway.routes.forget("orders")
    master, suggested = system.stores["broker-a"], {"id": 1}
    for store in (master, replica):

        async def suggesting(*args, inner=store.pull, **more) -> Pulled:
            return (await inner(*args, **more))._replace(suggested_broker_id=suggested["id"])

        monkeypatch.setattr(store, "pull", suggesting)
    for _ in range(3):
        assert await pull(client) == ["hi"]
    assert (master.calls.count("pull"), replica.calls.count("pull")) == (1, 2)
    suggested["id"] = 0
    for _ in range(2):
        await pull(client)
    assert (master.calls.count("pull"), replica.calls.count("pull")) == (2, 3)
    suggested["id"] = 1
    await pull(client)
    replica.away = AWAY
    await pull(client)
    assert master.calls.count("pull") == 4


@pytest.mark.parametrize(
    "failure", [AWAY, PeerAway("broker-a", True, "left"), StoreRefused(14, "", "NOT_LEADER")]
)
async def test_a_pull_is_repeated_at_the_next_leader(client, gateway, system, replica, failure):
    gateway.routes.forget("orders")
    old = system.stores["broker-a"]
    old.away = failure
    pulling = asyncio.ensure_future(pull(client, waitSeconds=20))
    await until(lambda: "pull" in old.calls)
    system.lead(replica)
    gateway.routes.hinted("orders")
    assert await pulling == ["hi"]


async def test_a_broker_without_replicas_is_503_at_once(client, system):
    system.stores["broker-a"].away = AWAY
    answer = await client.get(QUEUE, params={"offset": 0, "waitSeconds": 20})
    assert (answer.status_code, answer.json()["code"]) == (503, "SERVICE_NOT_AVAILABLE")
    assert system.stores["broker-a"].calls == ["pull"]
