"""What type of messages a topic takes: RocketMQ's attribute `message.type`, asked of a broker once for each read of the route."""

import asyncio

from gateway.ports.stores import PeerAway, StoreRefused, Stores
from gateway.routing.route_cache import Route, RouteCache


async def read_message_type(route: Route, stores: Stores) -> str | None:
    """Return the attribute, of the first broker that shows the topic: "" if the topic has none, or every broker refuses; None if none responds."""
    found: str | None = None
    for broker, address in sorted(route.addresses.items()):
        try:
            return (await stores.at(broker, address).topic(route.topic)).message_type
        except StoreRefused:
            found = ""
        except PeerAway:
            continue
    return found


class TopicTypes:
    """The types of the topics in use. A change is known as soon as that of a route: by its hint, or the slow poll."""

    def __init__(self, routes: RouteCache, stores: Stores) -> None:
        self._routes, self._stores = routes, stores
        self._asking: dict[str, asyncio.Future[str]] = {}

    def known(self, topic: str) -> str | None:
        """Return the type if it is cached; the hot path calls this before `get`."""
        route = self._routes.fresh(topic)
        return None if route is None else route.message_type

    async def get(self, topic: str) -> str:
        """Return the type; "" if the topic has none, or no broker responds. Raises the problem of a missing route."""
        route = await self._routes.get(topic)
        if route.message_type is not None:
            return route.message_type
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.ensure_future(self._ask(route))
            asking.add_done_callback(lambda _done: self._asking.pop(topic))
        return await asyncio.shield(asking)

    async def _ask(self, route: Route) -> str:
        found = await read_message_type(route, self._stores)
        if found is not None:
            route.message_type = found
        return found or ""
