"""How a missing route is meant."""

from __future__ import annotations

import asyncio

import pytest

from gateway.brokers import KnownBrokers
from gateway.ports import Broker, QueueData, RouteData
from gateway.problems import Problem
from gateway.route_cache import RouteCache

ROUTE = RouteData((QueueData("broker-a", 4, 4, 6),), {"broker-a": "127.0.0.1:10911"})


class Names:
    """Nameservers that answer routes by a script, then stay at the last answer."""

    def __init__(self, *routes: RouteData | None) -> None:
        self.routes = list(routes)

    async def route(self, topic: str) -> RouteData | None:
        return self.routes.pop(0) if len(self.routes) > 1 else self.routes[0]

    async def brokers(self) -> list[Broker]:
        return [Broker("broker-a", "DefaultCluster", "127.0.0.1:10911")]

    async def value(self, namespace: str, key: str) -> str | None:
        return "broker-a:4"


class SlowNames(Names):
    """Nameservers whose answer is on its way until it is let go."""

    def __init__(self, *routes: RouteData | None) -> None:
        super().__init__(*routes)
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def route(self, topic: str) -> RouteData | None:
        found = await super().route(topic)
        self.asked.set()
        await self.go_on.wait()
        return found


def cache(*routes: RouteData | None) -> RouteCache:
    return RouteCache(Names(*routes), KnownBrokers(600), lambda: 0.0)  # type: ignore[arg-type]


def test_a_broker_that_comes_back_between_two_questions_is_no_missing_topic() -> None:
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
        routes = RouteCache(names, KnownBrokers(600), lambda: 0.0)  # type: ignore[arg-type]
        first = asyncio.ensure_future(routes.get("orders"))
        await names.asked.wait()
        routes.forget("orders")  # the topic has just got more queues
        names.go_on.set()
        await first
        return len((await routes.get("orders")).writable)

    assert asyncio.run(scenario()) == 8
