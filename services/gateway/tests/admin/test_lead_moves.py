"""POST /v1/brokers/{broker}:moveLeader: asks the leader of a broker with replicas, and says why it does not hand over."""

from __future__ import annotations

import pytest
from gateway_http_store import reply_of, store_that_replies

from gateway.ports.stores import PeerAway
from gateway.stores.http_replicas import HttpReplicas

pytestmark = pytest.mark.anyio
B = "127.0.0.1:10921"
MOVE = "/v1/brokers/broker-a:moveLeader"


@pytest.fixture
def leader(system):
    """The address of the leader of a broker with two replicas."""
    system.add_replica("broker-a", B)
    address = system.stores["broker-a"].address
    system.replica_states = {
        address: {"name": "a", "role": "leader", "epoch": 3, "leader": "a"},
        B: {"name": "b", "role": "follower", "epoch": 3, "leader": "a"},
    }
    return address


@pytest.mark.parametrize(("query", "to"), [("", ""), ("?to=b", "b")])
async def test_the_leader_is_asked_to_hand_over(client, system, leader, query, to):
    answer = await client.post(MOVE + query)
    assert (answer.status_code, answer.json()) == (
        200,
        {"broker": "broker-a", "leader": "a", "epoch": 3, "to": to},
    )
    assert system.lead_moves == [(leader, to)]


async def test_the_reason_of_the_leader_is_passed_on(client, system, leader):
    system.move_refusal = "c is not in sync; these are: b"
    answer = await client.post(f"{MOVE}?to=c")
    assert (answer.status_code, answer.json()["code"]) == (409, "LEAD_CANNOT_MOVE")
    assert answer.json()["detail"] == "c is not in sync; these are: b"


async def test_a_replica_that_leads_is_no_target(client, system, leader):
    answer = await client.post(f"{MOVE}?to=a")
    assert (answer.status_code, answer.json()["code"]) == (409, "LEADS_ALREADY")
    assert system.lead_moves == []


async def test_a_broker_without_replicas_has_no_other_leader(client):
    answer = await client.post(MOVE)
    assert (answer.status_code, answer.json()["code"]) == (409, "NO_REPLICAS")


async def test_an_unknown_broker_is_not_found_and_a_wrong_name_is_refused(client, leader):
    assert (await client.post("/v1/brokers/nobody:moveLeader")).status_code == 404
    assert (await client.post(f"{MOVE}?to=b%20c")).status_code == 400


async def test_while_nobody_leads_the_call_may_be_repeated(client, system, leader):
    del system.replica_states[leader]
    answer = await client.post(MOVE)
    assert (answer.status_code, answer.json()["retryable"]) == (503, True)


async def test_without_an_answer_of_the_leader_it_is_not_known_who_leads(client, system, leader):
    system.replica_away = PeerAway(leader, True, "no answer")
    answer = await client.post(MOVE)
    assert (answer.status_code, answer.json()["retryable"]) == (503, True)
    assert "may hand over: GET /v1/cluster shows who leads" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("status", "body", "said"), [(202, b"", ""), (409, b'{"error":"b is not in sync"}', "b is not in sync")]
)
async def test_a_store_is_asked_at_its_http_port_with_a_proof_of_the_route(status, body, said):
    async with store_that_replies(reply_of(status, body)) as (address, asked):
        replicas = HttpReplicas(lambda request: b"Gantry " + request.encode())
        assert await replicas.move_leader(address, "b") == said
    assert asked[0].startswith(b"POST /v1/replication/move-leader?to=b HTTP/1.1\r\n")
    assert b"authorization: Gantry POST /v1/replication/move-leader\r\n" in asked[0]


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 403 x\r\n\r\n", b"HTTP/1.1 409 x\r\n\r\nno", b"no"])
async def test_an_answer_that_is_none_is_a_store_that_is_away(reply):
    async with store_that_replies(reply) as (address, _asked):
        with pytest.raises(PeerAway):
            await HttpReplicas(None).move_leader(address, "")
