"""What a nameserver knows: topics by broker name, addresses by broker name, names by cluster, who was heard of when.

Plain tables; who may change them how is said in registry.py and topic_orders.py, what is read from them in views.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from gantry_wire.bodies import BrokerData, DataVersion, QueueData

MASTER_ID = 0
PERM_READ, PERM_WRITE = 4, 2
EXPIRY_MS = 120_000
"""A broker that was not heard of for so long is gone, unless it said another time when it registered."""


class Place(NamedTuple):
    """One broker process: its cluster and the address it registered."""

    cluster: str
    address: str


@dataclass(slots=True)
class LiveBroker:
    """When a broker was last heard of, over which channel, and which version of its topics is held."""

    heard_at_ms: int
    expiry_ms: int
    version: DataVersion
    channel: int
    ha_address: str


@dataclass(slots=True)
class Tables:
    """All of it. Times are those of the caller's `now_ms`."""

    topics: dict[str, dict[str, QueueData]] = field(default_factory=dict[str, dict[str, QueueData]])
    """Topic → broker name → queues."""
    brokers: dict[str, BrokerData] = field(default_factory=dict[str, BrokerData])
    """Broker name → addresses by broker id."""
    clusters: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    """Cluster → broker names, in the order they came."""
    live: dict[Place, LiveBroker] = field(default_factory=dict[Place, LiveBroker])
    filter_servers: dict[Place, list[str]] = field(default_factory=dict[Place, list[str]])

    def topics_of(self, broker_name: str) -> list[str]:
        """Return the topics that a broker name holds."""
        return [topic for topic, queues in self.topics.items() if broker_name in queues]

    def drop_queues(self, topic: str, broker_name: str) -> bool:
        """Forget a topic's queues on a broker name, and the topic with the last of them; False when there were none."""
        queues = self.topics.get(topic)
        if queues is None or queues.pop(broker_name, None) is None:
            return False
        if not queues:
            del self.topics[topic]
        return True


class MinIdChanged(NamedTuple):
    """The lowest broker id of a broker name is another: what its members are told (905)."""

    broker_name: str
    min_id: int
    min_address: str
    offline_address: str | None
    ha_address: str | None
    tell: tuple[str, ...]


@dataclass(slots=True)
class Change:
    """What an event changed, for the shell to act on."""

    topics: set[str] = field(default_factory=set[str])
    """Topics whose route is another."""
    lost_channels: set[int] = field(default_factory=set[int])
    """Connections of brokers that expired; to be closed."""
    notices: list[MinIdChanged] = field(default_factory=list[MinIdChanged])
