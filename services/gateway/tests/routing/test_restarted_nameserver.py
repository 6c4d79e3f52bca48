"""Alive brokers keep their queues while a nameserver restarts and they register with it one by one."""

from __future__ import annotations

import asyncio
from enum import Enum

from hypothesis import example, given
from hypothesis import strategies as st

from gateway.ports.stores import Broker, PeerAway, QueueData, RouteData
from gateway.routing.brokers import KnownBrokers
from gateway.routing.leaders import Leaders
from gateway.routing.queue_lists import ORDER_NAMESPACE
from gateway.routing.route_cache import RouteCache

SHARES = {name: QueueData(name, 4, 4, 6) for name in ("broker-a", "broker-b", "broker-c")}
ADDRESSES = {name: f"127.0.0.1:{port}" for port, name in enumerate(SHARES, 10911)}
LIST = ";".join(f"{name}:4" for name in SHARES)


class Event(Enum):
    """Events at a nameserver before its next request."""

    NOTHING = "nothing"
    RESTART = "restart"
    A = "broker-a"
    B = "broker-b"
    C = "broker-c"


class RestartingNames:
    """A nameserver that keeps queue lists and loses registrations at a restart.

    A process starts slower than a request arrives, so the request after a restart finds no broker.
    """

    def __init__(self) -> None:
        self.registered = set(SHARES)
        self.left: set[str] = set()
        self.events: list[Event] = []
        self.list: str | None = LIST

    async def _ask(self) -> None:
        await asyncio.sleep(0)
        event = self.events.pop(0) if self.events else Event.NOTHING
        if event is Event.RESTART:
            self.registered.clear()
            raise PeerAway("nameservers", False, "no nameserver answers")
        if event is not Event.NOTHING:
            self.registered.add(event.value)

    async def route(self, topic: str) -> RouteData | None:
        await self._ask()
        holders = sorted(self.registered - self.left)
        if not holders:
            return None
        return RouteData(tuple(SHARES[name] for name in holders), {name: ADDRESSES[name] for name in holders})

    async def brokers(self) -> list[Broker]:
        await self._ask()
        return [Broker(name, "DefaultCluster", ADDRESSES[name]) for name in sorted(self.registered)]

    async def value(self, namespace: str, key: str) -> str | None:
        await self._ask()
        return self.list if namespace == ORDER_NAMESPACE else None

    async def put_value(self, namespace: str, key: str, value: str) -> list[str]:
        self.list = value
        return []

    async def values(self, namespace: str) -> dict[str, str]:
        await self._ask()
        return {"orders": LIST}


ROUNDS = st.lists(st.lists(st.sampled_from(Event), max_size=8), min_size=1, max_size=6)


@given(ROUNDS)
@example([[Event.RESTART], [Event.A, Event.B]])
@example([[Event.RESTART], [Event.NOTHING, Event.A, Event.RESTART, Event.NOTHING]])
def test_every_broker_keeps_its_share_whenever_a_nameserver_restarts_and_brokers_register(
    rounds: list[list[Event]],
) -> None:
    async def scenario() -> None:
        names = RestartingNames()
        routes = RouteCache(names, KnownBrokers(600), Leaders(names, lambda _address: None), lambda: 0.0)  # type: ignore[arg-type]
        await routes.get("orders")
        for events in rounds:
            names.events = list(events)
            routes.forget("orders")  # the hint that a route changed
            route = await routes.get("orders")
            for broker, share in SHARES.items():
                assert route.share(broker) == share, broker
                assert route.address(broker) == ADDRESSES[broker]

    asyncio.run(scenario())


def test_a_queue_list_made_while_brokers_register_again_names_all_of_them() -> None:
    async def scenario() -> None:
        names = RestartingNames()
        names.list = None
        routes = RouteCache(names, KnownBrokers(600), Leaders(names, lambda _address: None), lambda: 0.0)  # type: ignore[arg-type]
        await routes.get("orders")
        names.registered = {"broker-a"}
        routes.forget("orders")
        assert (await routes.queue_list("orders")).current.text() == LIST
        assert names.list == LIST

    asyncio.run(scenario())


def test_a_broker_that_is_alive_without_the_topic_has_left_it() -> None:
    async def scenario() -> None:
        names = RestartingNames()
        routes = RouteCache(names, KnownBrokers(600), Leaders(names, lambda _address: None), lambda: 0.0)  # type: ignore[arg-type]
        await routes.get("orders")
        names.left = {"broker-b"}
        routes.forget("orders")
        route = await routes.get("orders")
        assert [name for name in SHARES if route.share(name) is None] == ["broker-b"]

    asyncio.run(scenario())
