"""Sends while another replica takes over a broker: which wait for it, which are repeated, which say that their result is unknown."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
HINT = "gantry.route.orders"
PLAIN, KEYED = {"body": "hi"}, {"body": "hi", "idempotencyKey": "k"}
NOT_SENT, UNANSWERED = PeerAway("broker-a", False, "refused"), PeerAway("broker-a", True, "no answer")


@pytest.fixture
def replica(system):
    return system.add_replica("broker-a", "127.0.0.1:20911")


async def sent(client, *messages):
    return asyncio.ensure_future(client.post(ORDERS, json={"messages": list(messages)}))


async def asked(store, count=1):
    """Wait until a store was sent to this often."""
    while sum(call.startswith("send") for call in store.calls) < count:
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("messages", [[PLAIN], [KEYED], [PLAIN, PLAIN]])
@pytest.mark.parametrize(
    "failure",
    [
        NOT_SENT,
        StoreRefused(14, "b leads", "NOT_LEADER"),
        StoreRefused(14, "starting", "NOT_SERVING"),
    ],
)
async def test_a_send_that_was_not_stored_waits_for_the_next_leader(
    client, system, replica, messages, failure
):
    old = system.stores["broker-a"]
    await client.post(ORDERS, json={"messages": [KEYED | {"idempotencyKey": "before"}]})
    old.away = failure
    sending = await sent(client, *messages)
    await asked(old, 2)
    assert not sending.done()
    system.lead(replica)
    answer = await sending
    assert answer.status_code == 200
    assert {one["broker"] for one in answer.json()["results"]} == {"broker-a"}
    assert replica.calls[-1].startswith("send")


async def test_a_keyed_send_without_an_answer_is_repeated_and_finds_its_original(client, system, replica):
    first = (await client.post(ORDERS, json={"messages": [KEYED]})).json()["results"][0]
    system.stores["broker-a"].away = UNANSWERED
    sending = await sent(client, KEYED)
    await asked(system.stores["broker-a"], 2)
    system.lead(replica)
    (again,) = (await sending).json()["results"]
    assert again.pop("duplicate")
    assert again == first


@pytest.mark.parametrize("messages", [[PLAIN], [PLAIN, PLAIN]])
async def test_a_plain_send_without_an_answer_says_so_and_is_not_repeated(client, system, replica, messages):
    old = system.stores["broker-a"]
    await client.post(ORDERS, json={"messages": [PLAIN]})
    old.away = UNANSWERED
    answer = await (await sent(client, *messages))
    problem = answer.json() if len(messages) == 1 else answer.json()["results"][0]
    assert problem["code"] == "UNKNOWN_WHETHER_STORED"
    assert not replica.calls


async def test_a_send_waits_while_no_replica_leads(client, system, replica):
    old = system.stores["broker-a"]
    await client.post(ORDERS, json={"messages": [PLAIN]})
    system.leaderless.add("broker-a")
    old.away = NOT_SENT
    sending = await sent(client, PLAIN)
    await asked(old, 2)
    system.lead(replica)
    assert (await sending).status_code == 200


async def test_a_gateway_that_knew_no_leader_asks_a_replica(client, system, replica):
    system.leaderless.add("broker-a")
    replica.refuse = StoreRefused(14, "none leads", "NOT_LEADER")
    sending = await sent(client, PLAIN)
    await asked(replica)
    replica.refuse = None
    system.lead(replica)
    assert (await sending).status_code == 200


async def test_a_send_that_waited_too_long_is_refused_as_before(system, replica):
    system.stores["broker-a"].away = NOT_SENT
    transport = httpx.ASGITransport(app=system.gateway(leader_wait_seconds=0).app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        answer = await client.post(ORDERS, json={"messages": [PLAIN]})
    assert (answer.status_code, answer.json()["code"]) == (503, "SERVICE_NOT_AVAILABLE")
    assert not replica.calls


async def test_a_broker_without_replicas_is_not_waited_for(client, system):
    system.stores["broker-a"].away = NOT_SENT
    assert (await client.post(ORDERS, json={"messages": [KEYED]})).status_code == 503
    assert system.stores["broker-a"].calls == ["send"]


async def test_a_replica_that_says_so_is_waited_for_also_where_no_route_names_another(client, system):
    """Nameservers need not know those that follow: what is not reached later belongs to a takeover, too."""
    old = system.stores["broker-a"]
    old.away = StoreRefused(14, "no leader is known yet", "NOT_LEADER")
    sending = await sent(client, PLAIN)
    await asked(old, 2)
    old.away = NOT_SENT
    await asked(old, 4)
    assert not sending.done()
    old.away = None
    assert (await sending).status_code == 200
