"""Topics: created, changed, listed, shown and deleted on every broker; every nameserver then has the route."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from gantry_wire import names as wire_names
from gantry_wire.codes import ResponseCode
from gateway.http.problems import away, forbidden, topic_missing
from gateway.ports.stores import (
    Broker,
    Clocks,
    Hints,
    Names,
    PeerAway,
    QueueBounds,
    QueueData,
    StoreRefused,
    Stores,
    TopicSettings,
)
from gateway.routing.fleet import Fleet, demand_all
from gateway.routing.holders import Holders
from gateway.routing.queue_lists import (
    ORDER_NAMESPACE,
    PREVIOUS_NAMESPACE,
    ListHistory,
    of_counts,
    previous_text,
)
from gateway.routing.route_cache import PERM_READ, PERM_WRITE, Route, RouteCache
from gateway.routing.topic_types import read_message_type

POLL_SECONDS = 0.02

_PERMS = {"rw": PERM_READ | PERM_WRITE, "r": PERM_READ, "w": PERM_WRITE}
_HIDDEN = frozenset(
    {
        wire_names.AUTO_CREATE_TOPIC,
        wire_names.SELF_TEST_TOPIC,
        wire_names.BENCHMARK_TOPIC,
        wire_names.OFFSET_MOVED_TOPIC,
        wire_names.SCHEDULE_TOPIC,
        wire_names.TRACE_TOPIC,
        wire_names.HALF_TOPIC,
        wire_names.OP_HALF_TOPIC,
        wire_names.TRANS_CHECK_MAX_TIME_TOPIC,
    }
)
_DERIVED_PREFIXES = (wire_names.RETRY_PREFIX, wire_names.DLQ_PREFIX)


class TopicView(NamedTuple):
    """A topic; the queues of `missing` brokers cannot be asked now."""

    topic: str
    message_type: str
    """RocketMQ's attribute; "" if it has none."""
    brokers: list[QueueData]
    bounds: list[tuple[str, QueueBounds]]
    missing: list[str]


class TopicAdmin:
    """Changes and shows topics."""

    def __init__(
        self,
        fleet: Fleet,
        routes: RouteCache,
        names: Names,
        stores: Stores,
        hints: Hints,
        clocks: Clocks,
        *,
        window_ms: int,
        ready_seconds: float,
    ) -> None:
        self._fleet, self._routes, self._names, self._stores = fleet, routes, names, stores
        self._hints, self._clocks, self._holders = hints, clocks, Holders(fleet, routes)
        self._window_ms, self._ready_seconds = window_ms, ready_seconds

    async def put(self, settings: TopicSettings) -> list[str]:
        """Create or change a topic on every broker; return their names once every nameserver has the new route.

        503 names the brokers and nameservers that do not have it in time. Safe to repeat.
        """
        topic = settings.topic
        alive = await self.refuse_own([topic])
        _done, missing = await self._fleet.each(lambda store: store.put_topic(settings))
        missing += await self._write_list(topic, {broker.name: settings.write_queues for broker in alive})
        want = {
            QueueData(broker.name, settings.read_queues, settings.write_queues, settings.perm)
            for broker in alive
            if broker.name not in missing
        }
        waits = [self._wait_for_route(address, topic, want) for address in self._names.addresses]
        reached = await asyncio.gather(*waits)
        missing += [
            f"nameserver {address}"
            for address, ok in zip(self._names.addresses, reached, strict=True)
            if not ok
        ]
        self._changed(topic)
        demand_all(list(dict.fromkeys(missing)), f"topic {topic} is not everywhere yet")
        return sorted(broker.name for broker in alive)

    async def view(self, topic: str) -> TopicView:
        """Return a topic with the offsets of its queues; raise 404, or 503 if none of its brokers responds."""
        route = await self._routes.get(topic)
        holders = sorted(route.brokers.values())
        answers = await asyncio.gather(*(self._bounds(route, data.broker) for data in holders))
        bounds: list[tuple[str, QueueBounds]] = []
        missing: list[str] = []
        absent = await self._holders.missing(route)
        for data, answer in zip(holders, answers, strict=True):
            if answer is None:
                missing.append(data.broker)
            else:
                bounds += [(data.broker, queue) for queue in answer]
        if len(missing) == len(holders):
            self._routes.forget(topic)
            raise away(f"every broker of topic {topic} is away: {', '.join(missing)}")
        kind = await self.message_type(topic)
        return TopicView(topic, kind, holders, bounds, sorted({*missing, *absent}))

    async def message_type(self, topic: str) -> str:
        """Return the topic's attribute `message.type`; "" if it has none, or no broker responds. Raises 404, 503."""
        return await read_message_type(await self._routes.get(topic), self._stores) or ""

    async def all(self, *, with_system: bool) -> tuple[dict[str, dict[str, TopicSettings]], list[str]]:
        """Return every topic by name, with its settings by broker (none if only a nameserver knows it); and the missing brokers."""
        found, missing = await self._fleet.each(lambda store: store.topics())
        topics: dict[str, dict[str, TopicSettings]] = {name: {} for name in await self._names.topics()}
        for broker, held in found.items():
            for settings in held:
                topics.setdefault(settings.topic, {})[broker] = settings
        brokers, _gone = await self._fleet.brokers()
        own = {broker.name for broker in brokers} | {broker.cluster for broker in brokers}
        shown = {name: topics[name] for name in sorted(topics) if _is_shown(name, own, with_system)}
        return shown, sorted(set(missing))

    async def delete(self, topic: str) -> None:
        """Delete a topic from every broker and nameserver; raise 404 if none had it, 503 that names those that may still have it."""
        await self.refuse_own([topic])
        settings, missing = await self._fleet.each(lambda store: store.topics())
        holders = {name for name, held in settings.items() if any(one.topic == topic for one in held)}
        if not holders and not missing and await self._names.route(topic) is None:
            raise topic_missing(topic)
        absent = frozenset({int(ResponseCode.TOPIC_NOT_EXIST)})
        _done, missing = await self._fleet.each(lambda store: store.delete_topic(topic), absent=absent)
        left = set(await self._names.delete_topic(topic))
        for namespace in (ORDER_NAMESPACE, PREVIOUS_NAMESPACE):
            left.update(await self._names.delete_value(namespace, topic))
        self._changed(topic)
        missing += [f"nameserver {address}" for address in sorted(left)]
        demand_all(missing, f"topic {topic} is not deleted everywhere")

    async def refuse_own(self, topics: Collection[str]) -> list[Broker]:
        """Return the brokers; raise 403 if one of them, or its cluster, has one of these names."""
        alive, _gone = await self._fleet.brokers()
        own = {name for broker in alive for name in (broker.name, broker.cluster)}
        for topic in own.intersection(topics):
            raise forbidden(f"topic {topic} belongs to the system: a broker or cluster is called so", "topic")
        return alive

    async def _bounds(self, route: Route, broker: str) -> Sequence[QueueBounds] | None:
        address = route.addresses.get(broker)
        if address is None:
            return None
        try:
            return await self._stores.at(broker, address).queue_bounds(route.topic)
        except (PeerAway, StoreRefused):
            return None

    async def _write_list(self, topic: str, counts: dict[str, int]) -> list[str]:
        """Store the queue list that keyed sends hash over, and the previous one during the idempotency window."""
        new = of_counts(counts)
        if new is None:
            return []
        old = await self._routes.read_list(topic)
        if old is not None and old.current == new:
            return []
        left: set[str] = set()
        if old is not None:
            now_ms = self._clocks.wall_ms()
            before = ListHistory.in_use(old, now_ms, self._window_ms)
            left.update(await self._names.put_value(PREVIOUS_NAMESPACE, topic, previous_text(before, now_ms)))
        left.update(await self._names.put_value(ORDER_NAMESPACE, topic, new.text()))
        return [f"nameserver {address}" for address in sorted(left)]

    async def _wait_for_route(self, address: str, topic: str, want: set[QueueData]) -> bool:
        """Return whether one nameserver has this route, waiting briefly for it."""
        try:
            async with asyncio.timeout(self._ready_seconds):
                while True:
                    data = await self._names.route_at(address, topic)
                    if data is not None and want <= set(data.queues):
                        return True
                    await asyncio.sleep(POLL_SECONDS)
        except (PeerAway, TimeoutError):
            return False

    def _changed(self, topic: str) -> None:
        self._routes.forget(topic)
        self._hints.publish(f"gantry.route.{topic}")


def perm_bits(perm: str) -> int:
    """Return RocketMQ's bits for rw, r or w."""
    return _PERMS[perm]


def perm_name(bits: int) -> Literal["rw", "r", "w", "none"]:
    """Return rw, r, w or none for RocketMQ's bits."""
    match bits & (PERM_READ | PERM_WRITE):
        case 6:
            return "rw"
        case 4:
            return "r"
        case 2:
            return "w"
        case _:
            return "none"


def _is_shown(name: str, own: set[str], with_system: bool) -> bool:
    if name.startswith(wire_names.GANTRY_SYSTEM_PREFIX):
        return False
    return with_system or not (name in own or name.startswith(_DERIVED_PREFIXES) or is_system_topic(name))


def is_system_topic(name: str) -> bool:
    """Return whether a topic belongs to RocketMQ or to the broker: hidden from lists, neither changed nor deleted."""
    return (
        name in _HIDDEN
        or name.startswith((wire_names.SYSTEM_TOPIC_PREFIX, wire_names.GANTRY_SYSTEM_PREFIX))
        or name.endswith("_" + wire_names.REPLY_TOPIC_SUFFIX)
    )
