"""Types of topics are asked for once, and again when the route is read again."""

from __future__ import annotations

import asyncio

import pytest

from gateway.http.problems import Problem
from gateway.ports.stores import PeerAway, StoreRefused, TopicSettings
from gateway.routing.topic_types import TopicTypes

pytestmark = pytest.mark.anyio


@pytest.fixture
def types(system):
    system.stores["broker-a"].kept_topics["orders"] = TopicSettings("orders", 4, 4, 6, "FIFO")
    return TopicTypes(system.gateway().routes, system)


def asked(system) -> int:
    return system.stores["broker-a"].calls.count("topic")


async def test_many_callers_ask_a_broker_once(system, types):
    assert types.known("orders") is None
    assert await asyncio.gather(*(types.get("orders") for _ in range(5))) == ["FIFO"] * 5
    assert (types.known("orders"), await types.get("orders"), asked(system)) == ("FIFO", "FIFO", 1)


async def test_a_topic_without_a_type_is_asked_about_once(system, types):
    system.add_topic("plain")
    assert (await types.get("plain"), types.known("plain"), await types.get("plain")) == ("", "", "")
    assert asked(system) == 1


async def test_a_hint_about_the_route_is_one_about_the_type(system):
    gateway = system.gateway()
    types = TopicTypes(gateway.routes, system)
    assert await types.get("orders") == ""
    system.stores["broker-a"].kept_topics["orders"] = TopicSettings("orders", 4, 4, 6, "DELAY")
    gateway.routes.hinted("orders")
    assert types.known("orders") is None
    assert await types.get("orders") == "DELAY"


async def test_a_broker_that_is_away_is_asked_again(system, types):
    store = system.stores["broker-a"]
    store.away = PeerAway("broker-a", False, "not connected")
    assert (await types.get("orders"), types.known("orders")) == ("", None)
    store.away = None
    assert await types.get("orders") == "FIFO"


async def test_brokers_that_show_no_topics_are_asked_once(system, types):
    system.stores["broker-a"].refuse = StoreRefused(3, "request type 351 not supported")
    assert (await types.get("orders"), types.known("orders"), await types.get("orders")) == ("", "", "")
    assert asked(system) == 1


async def test_another_broker_shows_the_topic(pair):
    types = TopicTypes(pair.gateway().routes, pair)
    pair.stores["broker-a"].refuse = StoreRefused(17, "topic[orders] not exist")
    pair.stores["broker-b"].kept_topics["orders"] = TopicSettings("orders", 4, 4, 6, "FIFO")
    assert await types.get("orders") == "FIFO"


async def test_no_topic(types):
    with pytest.raises(Problem) as problem:
        await types.get("none")
    assert problem.value.code == "TOPIC_NOT_EXIST"
