"""The cause of a missing route, and races between reads and changes."""

from __future__ import annotations

import asyncio

import pytest

from gateway.http.problems import Problem
from gateway.ports.stores import Broker, QueueData, RouteData, Unusable
from gateway.routing.brokers import KnownBrokers
from gateway.routing.leaders import Leaders
from gateway.routing.queue_lists import PREVIOUS_NAMESPACE
from gateway.routing.route_cache import RouteCache

ROUTE = RouteData((QueueData("broker-a", 4, 4, 6),), {"broker-a": "127.0.0.1:10911"})


class Names:
    """Nameservers with scripted routes; the last response repeats."""

    def __init__(self, *routes: RouteData | None) -> None:
        self.routes = list(routes)

    async def route(self, topic: str) -> RouteData | None:
        return self.routes.pop(0) if len(self.routes) > 1 else self.routes[0]

    async def brokers(self) -> list[Broker]:
        return [Broker("broker-a", "DefaultCluster", "127.0.0.1:10911")]

    async def value(self, namespace: str, key: str) -> str | None:
        return "broker-a:4"

    async def values(self, namespace: str) -> dict[str, str]:
        return {"orders": "broker-a:4"}


class BrokenNames(Names):
    """Nameservers that, once broken, send unusable responses."""

    is_broken = True

    async def route(self, topic: str) -> RouteData | None:
        if self.is_broken:
            raise Unusable("nameservers", "the nameserver 127.0.0.1:9876 sent an unreadable answer")
        return await super().route(topic)

    async def value(self, namespace: str, key: str) -> str | None:
        return "broker-a:2147483648" if self.is_broken else await super().value(namespace, key)


class SlowNames(Names):
    """Nameservers whose response waits until the test releases it."""

    def __init__(self, *routes: RouteData | None) -> None:
        super().__init__(*routes)
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def route(self, topic: str) -> RouteData | None:
        found = await super().route(topic)
        self.asked.set()
        await self.go_on.wait()
        return found


def cache(*routes: RouteData | None) -> RouteCache:
    names = Names(*routes)
    return RouteCache(names, KnownBrokers(600), Leaders(names, lambda _address: None), lambda: 0.0)  # type: ignore[arg-type]


def test_a_broker_that_returns_between_two_reads_is_not_a_missing_topic() -> None:
    route = asyncio.run(cache(None, ROUTE).get("orders"))
    assert [broker for broker, _queue in route.writable] == ["broker-a"] * 4


def test_a_topic_that_no_living_broker_has_is_missing() -> None:
    with pytest.raises(Problem) as raised:
        asyncio.run(cache(None).get("orders"))
    assert (raised.value.status, raised.value.code) == (404, "TOPIC_NOT_EXIST")


def test_a_hint_that_overtakes_an_answer_is_not_lost() -> None:
    more = RouteData((QueueData("broker-a", 8, 8, 6),), ROUTE.addresses)

    async def scenario() -> int:
        names = SlowNames(ROUTE, more)
        routes = RouteCache(names, KnownBrokers(600), Leaders(names, lambda _address: None), lambda: 0.0)  # type: ignore[arg-type]
        first = asyncio.ensure_future(routes.get("orders"))
        await names.asked.wait()
        routes.forget("orders")  # the topic has just got more queues
        names.go_on.set()
        await first
        return len((await routes.get("orders")).writable)

    assert asyncio.run(scenario()) == 8


@pytest.mark.anyio
async def test_an_unusable_response_is_503_and_a_cached_route_stays():
    names = BrokenNames(ROUTE)
    routes = RouteCache(names, KnownBrokers(600), Leaders(names, lambda _address: None), lambda: 0.0)  # type: ignore[arg-type]
    with pytest.raises(Problem, match="unreadable answer") as failure:
        await routes.get("orders")
    assert (failure.value.status, failure.value.retryable) == (503, True)
    with pytest.raises(Problem, match="2147483648 queues") as failure:
        await routes.queue_list("orders")
    assert (failure.value.status, failure.value.retryable) == (503, True)
    names.is_broken = False
    route, history = await routes.get("orders"), await routes.queue_list("orders")
    names.is_broken = True
    routes.forget("orders")
    assert await routes.get("orders") is route
    assert await routes.queue_list("orders") is history


class SlowLists(Names):
    """Nameservers whose queue lists wait until the test releases them."""

    def __init__(self, *lists: str) -> None:
        super().__init__(ROUTE)
        self.lists = list(lists)
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def value(self, namespace: str, key: str) -> str | None:
        if namespace == PREVIOUS_NAMESPACE:
            return None
        found = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        self.asked.set()
        await self.go_on.wait()
        return found


@pytest.mark.anyio
async def test_a_queue_list_that_changed_during_its_read_is_read_again():
    names = SlowLists("broker-a:8", "broker-a:4")
    routes = RouteCache(names, KnownBrokers(600), Leaders(names, lambda _address: None), lambda: 0.0)  # type: ignore[arg-type]
    first = asyncio.ensure_future(routes.queue_list("orders"))
    await names.asked.wait()
    routes.forget("orders")  # the topic has just got fewer queues
    names.go_on.set()
    await first
    assert routes.listed("orders") is None
    assert len((await routes.queue_list("orders")).current.queues) == 4
    assert routes.listed("orders") is not None


@pytest.mark.anyio
async def test_an_older_queue_list_that_arrives_later_is_read_again():
    names = SlowLists("broker-a:8", "broker-a:4")
    routes = RouteCache(names, KnownBrokers(600), Leaders(names, lambda _address: None), lambda: 0.0)  # type: ignore[arg-type]
    first = asyncio.ensure_future(routes.queue_list("orders"))
    await names.asked.wait()
    old, names.go_on = names.go_on, asyncio.Event()
    names.go_on.set()
    routes.forget("orders")
    assert len((await routes.queue_list("orders")).current.queues) == 4
    old.set()
    await first
    assert len((await routes.queue_list("orders")).current.queues) == 4


class HungNames(Names):
    """Nameservers that, once hung, do not respond."""

    hung: asyncio.Event | None = None

    async def _wait(self) -> None:
        if self.hung is not None:
            await self.hung.wait()

    async def route(self, topic: str) -> RouteData | None:
        await self._wait()
        return await super().route(topic)

    async def value(self, namespace: str, key: str) -> str | None:
        await self._wait()
        return await super().value(namespace, key)


@pytest.mark.anyio
async def test_cached_routes_serve_while_a_hung_nameserver_is_asked_again():
    names = HungNames(ROUTE)
    routes = RouteCache(names, KnownBrokers(600), Leaders(names, lambda _address: None), lambda: 0.0)
    await routes.get("orders")
    await routes.queue_list("orders")
    names.hung = asyncio.Event()
    poll = asyncio.ensure_future(routes.refresh(600))
    for _ in range(20):
        await asyncio.sleep(0)
        assert routes.fresh("orders") is not None
        async with asyncio.timeout(60):
            assert await routes.get("orders")
            assert await routes.queue_list("orders")
            assert routes.listed("orders") is not None
    assert not poll.done()
    names.hung.set()
    async with asyncio.timeout(60):
        await poll
    assert routes.fresh("orders") is not None
    assert routes.listed("orders") is not None
