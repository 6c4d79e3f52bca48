"""Calls to an old leader end soon after another replica leads, and every route with the old one is read again."""

from __future__ import annotations

import asyncio

import pytest
from gateway_memory import MemorySystem

from gateway.routing import leaders as leaders_module
from gateway.routing.brokers import KnownBrokers
from gateway.routing.leaders import Leaders
from gateway.routing.route_cache import RouteCache

pytestmark = pytest.mark.anyio
OLD, NEW = "127.0.0.1:10911", "127.0.0.1:20911"


@pytest.fixture
def pieces(monkeypatch):
    monkeypatch.setattr(leaders_module, "LEAVE_SECONDS", 0.01)
    system = MemorySystem()
    system.add_topic("orders")
    system.add_topic("others")
    replica = system.add_replica("broker-a", NEW)
    routes = RouteCache(system, KnownBrokers(600), Leaders(system, system.leave), system.clocks.monotonic)
    return system, replica, routes


async def until(is_true):
    while not is_true():
        await asyncio.sleep(0.001)


async def test_one_hint_ends_the_calls_to_the_old_leader_and_renews_every_route(pieces):
    system, replica, routes = pieces
    assert (await routes.get("orders")).addresses == (await routes.get("others")).addresses
    system.lead(replica)
    for _ in range(5):
        routes.hinted("orders")
    await until(lambda: system.left)
    assert system.left == [OLD]
    assert routes.fresh("others") is None
    route = await routes.get("others")
    assert (route.addresses, route.slaves) == ({"broker-a": NEW}, {"broker-a": {1: OLD}})


async def test_the_poll_finds_a_leader_whose_hint_was_lost(pieces):
    system, replica, routes = pieces
    await routes.get("orders")
    system.lead(replica)
    routes.look_at_leaders()
    await until(lambda: system.left)
    assert routes.fresh("orders") is None


async def test_the_poll_asks_nothing_without_replicas(pieces):
    system, _replica, routes = pieces
    system.slaves.clear()
    await routes.get("orders")
    routes.look_at_leaders()
    assert routes._leaders._looking is None


async def test_a_leader_that_is_back_at_once_keeps_its_calls(pieces):
    system, replica, routes = pieces
    old = system.stores["broker-a"]
    await routes.get("orders")
    system.lead(replica)
    routes.forget("orders")
    await routes.get("orders")
    system.lead(old)
    routes.forget("orders")
    await routes.get("orders")
    await until(lambda: system.left)
    assert system.left == [NEW]


async def test_a_wait_ends_with_the_hint(pieces):
    _system, _replica, routes = pieces
    await routes.get("orders")
    waiting = asyncio.ensure_future(routes.wait_for_hint("orders", 600))
    await asyncio.sleep(0)
    routes.hinted("orders")
    await waiting
