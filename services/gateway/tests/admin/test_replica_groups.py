"""GET /v1/cluster: who leads a broker with replicas, as the nameservers and the replicas say."""

from __future__ import annotations

import pytest
from gateway_http_store import reply_of, store_that_replies

from gateway.admin.replica_groups import group_of
from gateway.stores.http_replicas import HttpReplicas

pytestmark = pytest.mark.anyio
A, B, C = "127.0.0.1:10911", "127.0.0.1:10921", "127.0.0.1:10931"


def leader(name="a", epoch=3, **more):
    return {
        "group": "broker-a", "name": name, "role": "leader", "epoch": epoch, "version": 7, "leader": name,
        "members": ["a", "b"], "minInSync": 2, "confirmOffset": 90, "endOffset": 100, "isServing": True,
        "acceptsSends": True, "hasLease": True, "leadsForMs": 5000, "registerFault": "",
        "replicas": [
            {"name": "b", "address": B, "endOffset": 100, "behindBytes": 0, "behindMs": 4, "isInSync": True},
            {"name": "c", "address": C, "endOffset": 40, "behindBytes": 60, "behindMs": None, "isInSync": False},
        ],
    } | more  # fmt: skip


def follower(name, epoch=3, **more):
    return {
        "group": "broker-a",
        "name": name,
        "role": "follower",
        "epoch": epoch,
        "leader": "a",
        "replicas": [],
    } | more


def test_a_leader_tells_how_far_the_others_are_behind():
    group = group_of("broker-a", {0: A, 1: B}, {A: leader(isFit=True), B: follower("b", isFit=False)})
    assert [one.is_fit for one in group.replicas] == [True, False, None]
    assert (group.leader, group.address, group.epoch, group.members) == ("a", A, 3, ["a", "b"])
    assert (group.min_in_sync, group.accepts_sends, group.has_lease) == (2, True, True)
    shown = [
        (one.name, one.broker_id, one.role, one.behind_bytes, one.behind_ms, one.in_sync)
        for one in group.replicas
    ]
    assert shown == [
        ("a", 0, "leader", 0, 0, True),
        ("b", 1, "follower", 0, 4, True),
        ("c", None, "unknown", 60, None, False),
    ]


def test_a_replica_that_registers_another_address_than_its_group_knows_is_shown_once():
    """In containers: it registers its own address, and the other replicas know it by the name of its container."""
    group = group_of(
        "broker-a",
        {0: A, 1: "172.18.0.4:10921"},
        {A: leader(), "172.18.0.4:10921": follower("b"), C: follower("c")},
    )
    shown = [(one.name, one.broker_id, one.address, one.behind_ms, one.in_sync) for one in group.replicas]
    assert shown == [
        ("a", 0, A, 0, True),
        ("b", 1, "172.18.0.4:10921", 4, True),
        ("c", None, C, None, False),
    ]


def test_of_two_leaders_the_later_epoch_leads():
    group = group_of("broker-a", {0: A, 1: B}, {A: leader(), B: leader("b", 4, replicas=[])})
    assert (group.leader, group.address, group.epoch) == ("b", B, 4)


@pytest.mark.parametrize(
    "said", [{}, {A: None, B: None}, {A: {"role": 5, "epoch": "x", "replicas": "no"}, B: {"role": True}}]
)
def test_replicas_that_say_nothing_readable_are_unknown(said):
    group = group_of("broker-a", {0: A, 1: B}, said)
    assert (group.leader, group.address, group.epoch, group.accepts_sends) == ("", A, None, None)
    assert [(one.name, one.role, one.in_sync) for one in group.replicas] == [("", "unknown", None)] * 2


def test_a_register_that_does_not_answer_is_shown():
    group = group_of("broker-a", {0: A}, {A: leader(registerFault="away for 3 s")})
    assert group.register_fault == "away for 3 s"


async def test_the_call_lists_the_brokers_with_replicas(client, system):
    assert (await client.get("/v1/cluster")).json()["groups"] == []
    system.add_replica("broker-a", B)
    system.replica_states = {system.stores["broker-a"].address: leader(), B: follower("b")}
    (group,) = (await client.get("/v1/cluster")).json()["groups"]
    assert (group["broker"], group["leader"], group["minInSync"]) == ("broker-a", "a", 2)
    assert group["leadsForMs"] == 5000
    assert [one["name"] for one in group["replicas"]] == ["a", "b", "c"]


async def test_replicas_that_no_nameserver_knows_are_asked_where_the_leader_knows_them(client, system):
    system.replica_states = {system.stores["broker-a"].address: leader(), B: follower("b")}
    (group,) = (await client.get("/v1/cluster")).json()["groups"]
    assert [(one["name"], one["role"], one["brokerId"]) for one in group["replicas"]] == [
        ("a", "leader", 0),
        ("b", "follower", None),
        ("c", "unknown", None),
    ]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b'{"role":"leader"}', {"role": "leader"}),
        (404, b"{}", None),
        (200, b"no", None),
        (200, b"[]", None),
    ],
)
async def test_a_store_is_asked_at_its_http_port(status, body, said):
    async with store_that_replies(reply_of(status, body)) as (address, asked):
        replicas = HttpReplicas(lambda request: b"Gantry " + request.encode())
        assert await replicas.state(address) == said
    assert asked[0].startswith(b"GET /v1/replication HTTP/1.1\r\n")
    assert b"authorization: Gantry GET /v1/replication\r\n" in asked[0]


async def test_a_store_that_refuses_connections_says_nothing():
    assert await HttpReplicas(None).state("127.0.0.1:1") is None
