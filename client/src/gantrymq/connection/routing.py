"""Routes of topics and brokers: queries the nameservers, caches the answers, and queries every 30 s and at once for unknown topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gantry_link.clients.nameservers import NameserverClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.bodies.cluster import BrokerData, TopicRouteData
from gantry_wire.codes import ResponseCode
from gantry_wire.limits import TOPIC_QUEUES_DEFAULT
from gantry_wire.names import AUTO_CREATE_TOPIC, DLQ_PREFIX, RETRY_PREFIX
from gantrymq.connection import routes
from gantrymq.errors import ConnectionFailed, NoRoute, Refused, sdk_error
from gantrymq.message import MessageQueue

log: logging.Logger = logging.getLogger("gantrymq")


class Routing:
    """The routes of all requested topics. `changed` callbacks get each topic whose route changed, `moved` ones each broker with another master, and the replaced one's address."""

    def __init__(self, nameservers: NameserverClient) -> None:
        self.nameservers = nameservers
        self.changed: list[Callable[[str], None]] = []
        self.moved: list[Callable[[str, str], None]] = []
        self._routes: dict[str, TopicRouteData] = {}
        self._with_followers: set[str] = set()
        self._brokers: dict[str, BrokerData] = {}
        self._asking: dict[str, asyncio.Future[TopicRouteData]] = {}
        self._templates: set[str] = set()

    async def route(self, topic: str, *, fresh: bool = False) -> TopicRouteData:
        """Return a topic's route; NoRoute if no nameserver knows it, ConnectionFailed if none answers."""
        known = None if fresh else self._routes.get(topic)
        return known if known is not None else await self._ask_once(topic)

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages of a topic go to, those of the template for a topic that does not exist yet; or NoRoute."""
        try:
            route = await self.route(topic)
        except NoRoute:
            route = await self._template(topic)
        queues = routes.publish_queues(topic, route)
        if not queues:
            route = await self.route(topic, fresh=True)
            queues = routes.publish_queues(topic, route)
        if not queues:
            raise NoRoute(
                f"topic {topic} has no writable queue now: its master is down, or it lacks permission"
            )
        return queues

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic; NoRoute if no nameserver knows the topic."""
        return routes.subscribe_queues(topic, await self.route(topic))

    def has_template(self, topic: str) -> bool:
        """Whether the route is the template's, because the topic does not exist yet."""
        return topic in self._templates

    def brokers(self) -> list[str]:
        """Return the names of all known brokers."""
        return list(self._brokers)

    def addresses(self, broker: str, *, slaves: bool) -> list[str]:
        """Return the addresses of a broker: the master's first, with `slaves` also those of its slaves."""
        data = self._brokers.get(broker)
        if data is None:
            return []
        return [
            data.broker_addrs[number]
            for number in sorted(data.broker_addrs)
            if slaves or number == routes.MASTER
        ]

    def address_of(self, broker: str, broker_id: int) -> str | None:
        """Return one address of a broker, None if it has none with this id; 0 is the master's."""
        data = self._brokers.get(broker)
        return None if data is None else data.broker_addrs.get(broker_id)

    def broker_of(self, address: str) -> str | None:
        """Return the name of the broker at an address, None if it is unknown."""
        for name, data in self._brokers.items():
            if address in data.broker_addrs.values():
                return name
        return None

    def replicated(self) -> list[str]:
        """Return the brokers that have slaves, or lost their master to one."""
        return [name for name in self._brokers if self.is_replicated(name)]

    def is_replicated(self, broker: str) -> bool:
        """Whether another replica of the broker may lead it next: routes name slaves of it, or one said that it does not lead."""
        data = self._brokers.get(broker)
        return broker in self._with_followers or (data is not None and routes.has_slaves(data))

    def does_not_lead(self, broker: str) -> None:
        """Note that a replica of this broker said that it does not lead: nameservers need not name those that follow."""
        self._with_followers.add(broker)

    def is_leaderless(self, topic: str) -> bool:
        """Whether the topic's known route names brokers with replicas, none of which leads."""
        route = self._routes.get(topic)
        return route is not None and any(
            routes.MASTER not in data.broker_addrs and data.broker_addrs for data in route.broker_datas
        )

    async def look_for_master(self, broker: str) -> None:
        """Query the route of one of a broker's topics; if its master moved, those of all topics. Never raises."""
        before = self.address_of(broker, routes.MASTER)
        topic = next(
            (
                topic
                for topic, route in self._routes.items()
                if any(data.broker_name == broker for data in route.broker_datas)
            ),
            None,
        )
        if topic is None:
            return
        try:
            await self._ask_once(topic)
        except (NoRoute, ConnectionFailed, Refused) as error:
            log.debug("cannot query the master of %s: %s", broker, error)
            return
        if self.address_of(broker, routes.MASTER) not in {before, None}:
            await self.poll()

    async def poll(self) -> None:
        """Query every known topic again. Routes that cannot be queried stay."""
        unknown: set[str] = set()
        for topic in list(self._routes):
            try:
                await self._ask_once(topic)
            except NoRoute:
                unknown.add(topic)
                if topic not in self._templates:
                    log.warning("topic %s is no longer known to the nameservers", topic)
            except (ConnectionFailed, Refused) as error:
                log.warning("cannot query the routes: %s", error)
                return
        # Drops brokers that no route names any more. The last address of a broker counts, so deleted topics, whose routes are old, come first.
        by_age = sorted(self._routes.items(), key=lambda item: item[0] not in unknown)
        self._brokers = routes.broker_table(route for _, route in by_age)

    async def _template(self, topic: str) -> TopicRouteData:
        try:
            template = await self.route(AUTO_CREATE_TOPIC)
        except NoRoute as error:
            raise NoRoute(
                f"no nameserver knows topic {topic}, and brokers do not create topics: {how_it_is_created(topic)}"
            ) from error
        route = routes.template_route(template, TOPIC_QUEUES_DEFAULT)
        self._templates.add(topic)
        self._keep(topic, route)
        return route

    async def _ask_once(self, topic: str) -> TopicRouteData:
        """Query one topic; concurrent callers share the query."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = asyncio.ensure_future(self._ask(topic))
            self._asking[topic] = asking
            asking.add_done_callback(lambda done: self._asked(topic, done))
        await asyncio.wait([asking])  # the shared query continues if this caller is cancelled
        if asking.cancelled():
            raise ConnectionFailed(f"the client was closed before the route of {topic} was known", sent=False)
        return asking.result()

    def _asked(self, topic: str, done: asyncio.Future[TopicRouteData]) -> None:
        self._asking.pop(topic, None)
        if not done.cancelled():
            done.exception()  # the callers may have stopped waiting

    async def _ask(self, topic: str) -> TopicRouteData:
        try:
            route = await self.nameservers.route(topic)
        except BrokerRefused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise NoRoute(f"no nameserver knows topic {topic}: {how_it_is_created(topic)}") from error
            raise sdk_error(error, f"querying the route of {topic}") from error
        except LinkError as error:
            raise ConnectionFailed(
                f"no nameserver answered the query for topic {topic} ({error}): is the address right, and does it run?",
                sent=False,
            ) from error
        self._templates.discard(topic)
        self._keep(topic, route)
        return route

    def _keep(self, topic: str, route: TopicRouteData) -> None:
        if routes.same_route(self._routes.get(topic), route):
            return
        self._routes[topic] = route
        table = routes.broker_table([route])  # only this route: there may be thousands
        gone = routes.replaced_masters(self._brokers, table)
        self._brokers.update(table)
        for callback in self.changed:
            callback(topic)
        for broker, address in gone.items():
            for callback in self.moved:
                callback(broker, address)

    async def close(self) -> None:
        """Cancel queries in progress."""
        asking = list(self._asking.values())
        for question in asking:
            question.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


def how_it_is_created(topic: str) -> str:
    """Return how a topic is created, as advice in an error."""
    if topic.startswith(RETRY_PREFIX):
        group = topic.removeprefix(RETRY_PREFIX)
        return f"brokers create it when a consumer of group {group} joins; check the name of the group"
    if topic.startswith(DLQ_PREFIX):
        group = topic.removeprefix(DLQ_PREFIX)
        return f"brokers create it with the first dead letter of group {group}: there is none, or the name is wrong"
    return "create it first, or check its name"
