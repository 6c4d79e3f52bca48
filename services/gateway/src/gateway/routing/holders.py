"""Brokers that hold queues of a topic but are away: routes leave them out."""

from gateway.http.problems import Problem
from gateway.ports.stores import PeerAway
from gateway.routing.fleet import Fleet
from gateway.routing.route_cache import Route, RouteCache


class Holders:
    """Compares the route of a topic with the brokers known to hold it."""

    def __init__(self, fleet: Fleet, routes: RouteCache) -> None:
        self._fleet, self._routes = fleet, routes

    async def missing(self, route: Route) -> list[str]:
        """Return the brokers that are not in `route`, but hold queues of the topic, or held some recently.

        These are unregistered, or have registered since the route was read: then the next use has them. If no list names
        the topic's brokers, any broker that left recently may hold some of it.
        """
        try:
            alive, gone = await self._fleet.brokers()
            history = await self._routes.read_list(route.topic)
        except (Problem, PeerAway):
            return []  # without nameservers this is the old route, and its brokers are asked themselves
        holders = route.holders & set(gone)
        if history is None:
            holders |= set(gone)
        else:
            holders |= {name for name, _count in history.current.counts}
        names = {broker.name for broker in alive}
        absent = holders - names
        if not names <= set(route.brokers):
            absent |= names & await self._of_new_route(route.topic)
        return sorted(absent - set(route.brokers))

    async def _of_new_route(self, topic: str) -> set[str]:
        """Return the brokers of a topic by a route that is read now."""
        self._routes.forget(topic)
        try:
            return set((await self._routes.get(topic)).brokers)
        except Problem:
            return set()
