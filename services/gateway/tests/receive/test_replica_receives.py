"""Receives while another replica takes over: within their time they wait for a leader with a lease, and then for messages."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio
RECEIVE = "/v1/topics/orders/groups/g1/messages:receive"
AWAY = PeerAway("broker-a", True, "left")
NOT_LEADER, NO_LEASE = StoreRefused(14, "b leads", "NOT_LEADER"), StoreRefused(2, "no lease", "NO_LEASE")


@pytest.fixture
def gateway(system):
    return system.gateway()


@pytest.fixture
async def client(gateway):
    transport = httpx.ASGITransport(app=gateway.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        await http.post("/v1/topics/orders/messages", json={"messages": [{"body": "hi"}]})
        yield http


async def until(is_true):
    while not is_true():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("failure", [AWAY, NOT_LEADER])
async def test_a_receive_continues_at_the_next_leader(client, gateway, system, failure):
    replica = system.add_replica("broker-a", "127.0.0.1:20911")
    gateway.routes.forget("orders")
    old = system.stores["broker-a"]
    old.away = failure
    receiving = asyncio.ensure_future(client.post(RECEIVE, json={"waitSeconds": 20}))
    await until(lambda: old.calls.count("receive") >= 2)
    assert not receiving.done()
    system.lead(replica)
    gateway.routes.hinted("orders")
    (message,) = (await receiving).json()["messages"]
    assert message["body"] == "hi"


async def test_a_receive_waits_for_the_lease_of_its_leader(client, system):
    leader = system.stores["broker-a"]
    leader.refuse = NO_LEASE
    receiving = asyncio.ensure_future(client.post(RECEIVE, json={"waitSeconds": 20}))
    await until(lambda: leader.calls.count("receive") >= 2)
    leader.refuse = None
    (message,) = (await receiving).json()["messages"]
    assert message["body"] == "hi"


async def test_a_receive_waits_while_the_route_names_no_leader(client, gateway, system):
    replica = system.add_replica("broker-a", "127.0.0.1:20911")
    system.leaderless.add("broker-a")
    gateway.routes.forget("orders")
    receiving = asyncio.ensure_future(client.post(RECEIVE, json={"waitSeconds": 20}))
    before = system.route_calls
    await until(lambda: system.route_calls > before + 1)
    assert not receiving.done()
    system.lead(replica)
    assert (await receiving).json()["messages"]


@pytest.mark.parametrize("failure", [NOT_LEADER, NO_LEASE])
async def test_without_time_to_wait_it_says_to_try_again(client, system, failure):
    system.stores["broker-a"].refuse = failure
    answer = await client.post(RECEIVE, json={"waitSeconds": 0})
    assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (
        503,
        failure.gantry_code,
        True,
    )
