"""Turns routes into queues: those to publish to and those to read from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gantry_wire.bodies.cluster import BrokerData, QueueData, TopicRouteData
from gantrymq.message import MessageQueue

PERM_READ, PERM_WRITE = 4, 2
MASTER = 0
QUEUES_MAX = 65_536
"""The most queues of a topic; a route with more is wrong."""


def publish_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return the queues that messages of a topic go to: the order configuration's, else those of every writable master."""
    if route.order_topic_conf:
        return _ordered(topic, route.order_topic_conf)
    with_master = {broker.broker_name for broker in route.broker_datas if MASTER in broker.broker_addrs}
    wanted = [data for data in _by_name(route) if data.perm & PERM_WRITE and data.broker_name in with_master]
    return _queues(topic, ((data.broker_name, data.write_queue_nums) for data in wanted))


def subscribe_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return the readable queues of a topic, on masters or slaves."""
    if route.order_topic_conf:
        return _ordered(topic, route.order_topic_conf)
    readable = [data for data in _by_name(route) if data.perm & PERM_READ]
    return _queues(topic, ((data.broker_name, data.read_queue_nums) for data in readable))


def template_route(route: TopicRouteData, queues_max: int) -> TopicRouteData:
    """Return the route of the template topic as that of a topic that a broker will create at the first send."""
    limited: list[QueueData] = []
    for data in route.queue_datas:
        count = min(queues_max, data.read_queue_nums)
        limited.append(msgspec.structs.replace(data, read_queue_nums=count, write_queue_nums=count))
    return msgspec.structs.replace(route, queue_datas=limited, order_topic_conf=None)


def same_route(first: TopicRouteData | None, second: TopicRouteData) -> bool:
    """Whether two routes are equal, in any order."""
    return first is not None and _sorted(first) == _sorted(second)


def broker_table(routes: Iterable[TopicRouteData]) -> dict[str, BrokerData]:
    """Return every broker in the routes."""
    return {broker.broker_name: broker for route in routes for broker in route.broker_datas}


def has_slaves(data: BrokerData) -> bool:
    """Whether a broker has replicas besides its master."""
    return len(data.broker_addrs) > (MASTER in data.broker_addrs)


def replaced_masters(before: Mapping[str, BrokerData], now: Mapping[str, BrokerData]) -> dict[str, str]:
    """Return by broker the addresses of masters that another address replaced. A master that is only gone may be back."""
    addresses: dict[str, str] = {}
    for name, data in now.items():
        master, old = data.broker_addrs.get(MASTER), before.get(name)
        was = None if old is None else old.broker_addrs.get(MASTER)
        if was is not None and master is not None and was != master:
            addresses[name] = was
    return addresses


def _by_name(route: TopicRouteData) -> list[QueueData]:
    return sorted(route.queue_datas, key=_name)


def _name(data: QueueData) -> str:
    return data.broker_name


def _ordered(topic: str, conf: str) -> list[MessageQueue]:
    """`broker:queues;broker:queues`."""
    pairs: list[tuple[str, int]] = []
    for part in conf.split(";"):
        broker, _, count = part.strip().partition(":")
        if broker and count.isdecimal():
            pairs.append((broker, int(count)))
    return _queues(topic, pairs)


def _queues(topic: str, counts: Iterable[tuple[str, int]]) -> list[MessageQueue]:
    return [
        MessageQueue(topic, broker, number)
        for broker, count in counts
        for number in range(min(count, QUEUES_MAX))
    ]


def _sorted(route: TopicRouteData) -> TopicRouteData:
    brokers = sorted(route.broker_datas, key=lambda broker: broker.broker_name)
    return msgspec.structs.replace(route, broker_datas=brokers, queue_datas=_by_name(route))
