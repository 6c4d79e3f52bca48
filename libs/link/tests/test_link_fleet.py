"""Stores come and go as nameservers say, and no nameserver that forgot them makes them go at once."""

import asyncio

import pytest
from scripted_broker import scripted

from gantry_link import NameserverClient
from gantry_link.fleet import Fleet, StoreAt
from gantry_wire.bodies import BrokerData, ClusterInfo, encode_body

CLUSTER_INFO = 106


def fleet_of(names=None):
    told = []
    fleet = Fleet(
        names, lambda one: told.append(("+", *one)), lambda one: told.append(("-", *one)), forget_seconds=60
    )
    return fleet, told


def test_what_is_named_first_joins_and_what_changed_its_address_leaves_and_joins():
    fleet, told = fleet_of()
    fleet.take({"a": "h:1", "b": "h:2"}, 0.0)
    fleet.take({"a": "h:1", "b": "h:3"}, 1.0)
    assert told == [("+", "a", "h:1"), ("+", "b", "h:2"), ("-", "b", "h:2"), ("+", "b", "h:3")]
    assert fleet.stores["b"] == StoreAt("b", "h:3")


def test_a_store_that_is_not_named_any_more_stays_until_its_time_is_over():
    fleet, told = fleet_of()
    fleet.take({"a": "h:1"}, 0.0)
    fleet.take({}, 60.0)
    assert list(fleet.stores) == ["a"]
    fleet.take({}, 60.1)
    assert told[-1] == ("-", "a", "h:1")
    assert not fleet.stores


@pytest.mark.anyio
async def test_every_nameserver_is_asked_and_one_that_is_away_changes_nothing():
    body = ClusterInfo(
        broker_addr_table={
            "a": BrokerData(broker_name="a", broker_addrs={0: "h:1", 1: "h:9"}),
            "slave": BrokerData(broker_name="slave", broker_addrs={1: "h:7"}),
        }
    )
    async with scripted({CLUSTER_INFO: (0, None, encode_body(body))}) as (_, address, pool):
        fleet, told = fleet_of(NameserverClient(pool, ["127.0.0.1:1", address]))
        await fleet.look()
        assert fleet.has_asked
        assert told == [("+", "a", "h:1")]


@pytest.mark.anyio
async def test_while_no_nameserver_answers_nothing_is_known():
    async with scripted() as (_, _address, pool):
        fleet, told = fleet_of(NameserverClient(pool, ["127.0.0.1:1"]))
        await fleet.look()
    assert not fleet.has_asked
    assert not told


@pytest.mark.anyio
async def test_while_no_nameserver_answers_any_more_nobody_is_forgotten():
    long_ago = asyncio.get_running_loop().time() - 1000
    async with scripted({CLUSTER_INFO: (0, None, encode_body(ClusterInfo()))}) as (_, address, pool):
        fleet, told = fleet_of(NameserverClient(pool, ["127.0.0.1:1"]))
        fleet.take({"a": "h:1"}, long_ago)
        await fleet.look()
        assert not fleet.has_asked
        fleet._names = NameserverClient(pool, [address])
        await fleet.look()
        assert fleet.has_asked
    assert told == [("+", "a", "h:1")], "its time begins when somebody can say whether it is there"
