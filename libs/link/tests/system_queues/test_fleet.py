"""Stores join and leave as the nameservers list them. A nameserver that forgot a store does not remove it at once."""

import asyncio

import pytest
from scripted_broker import scripted

from gantry_link.clients.nameservers import NameserverClient
from gantry_link.system_queues.fleet import Fleet, StoreAt
from gantry_wire.bodies.cluster import BrokerData, ClusterInfo
from gantry_wire.bodies.json_body import encode_body

CLUSTER_INFO = 106


def fleet_of(names=None):
    events = []
    fleet = Fleet(
        names,
        lambda one: events.append(("+", *one)),
        lambda one: events.append(("-", *one)),
        forget_seconds=60,
    )
    return fleet, events


def test_a_new_store_joins_and_one_with_a_new_address_leaves_and_joins():
    fleet, events = fleet_of()
    fleet.take({"a": "h:1", "b": "h:2"}, 0.0)
    fleet.take({"a": "h:1", "b": "h:3"}, 1.0)
    assert events == [("+", "a", "h:1"), ("+", "b", "h:2"), ("-", "b", "h:2"), ("+", "b", "h:3")]
    assert fleet.stores["b"] == StoreAt("b", "h:3")


def test_a_store_that_is_no_longer_listed_stays_until_its_time_is_over():
    fleet, events = fleet_of()
    fleet.take({"a": "h:1"}, 0.0)
    fleet.take({}, 60.0)
    assert list(fleet.stores) == ["a"]
    fleet.take({}, 60.1)
    assert events[-1] == ("-", "a", "h:1")
    assert not fleet.stores


@pytest.mark.anyio
async def test_every_nameserver_is_asked_and_an_unreachable_one_changes_nothing():
    body = ClusterInfo(
        broker_addr_table={
            "a": BrokerData(broker_name="a", broker_addrs={0: "h:1", 1: "h:9"}),
            "slave": BrokerData(broker_name="slave", broker_addrs={1: "h:7"}),
        }
    )
    async with scripted({CLUSTER_INFO: (0, None, encode_body(body))}) as (_, address, pool):
        fleet, events = fleet_of(NameserverClient(pool, ["127.0.0.1:1", address]))
        await fleet.look()
        assert fleet.unanswered is None
        assert events == [("+", "a", "h:1")]


@pytest.mark.anyio
async def test_no_store_is_known_until_a_nameserver_answers():
    async with scripted() as (_, _address, pool):
        fleet, events = fleet_of(NameserverClient(pool, ["127.0.0.1:1"]))
        await fleet.look()
    assert fleet.unanswered is not None
    assert fleet.unanswered.startswith("no nameserver has answered yet (cannot connect to 127.0.0.1:1: ")
    assert not events


@pytest.mark.anyio
async def test_no_store_is_forgotten_while_no_nameserver_answers():
    long_ago = asyncio.get_running_loop().time() - 1000
    async with scripted({CLUSTER_INFO: (0, None, encode_body(ClusterInfo()))}) as (_, address, pool):
        fleet, events = fleet_of(NameserverClient(pool, ["127.0.0.1:1"]))
        fleet.take({"a": "h:1"}, long_ago)
        await fleet.look()
        assert fleet.unanswered
        fleet._names = NameserverClient(pool, [address])
        await fleet.look()
        assert fleet.unanswered is None
    assert events == [("+", "a", "h:1")], "its time starts only when a nameserver answers"
