"""The nameserver's state: topics and addresses by broker name, names by cluster, the last sign of each broker.

Plain tables. registry.py and topic_orders.py hold the rules for changes; views.py reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from gantry_wire.bodies.cluster import BrokerData, DataVersion, QueueData

MASTER_ID = 0
PERM_READ, PERM_WRITE = 4, 2
EXPIRY_MS = 120_000
"""A broker silent for this long is removed, unless it registered with another time."""
REQUESTED_EXPIRY_MS_MIN, REQUESTED_EXPIRY_MS_MAX = 500, 600_000
"""Bounds of the expiry a broker may request. With a longer one, a silent broker would keep receiving client requests."""
BROKER_IDS_MAX = 128
"""Most broker ids of one broker name: a master and its slaves."""


class Place(NamedTuple):
    """One broker process: its cluster and registered address."""

    cluster: str
    address: str


@dataclass(slots=True)
class LiveBroker:
    """When and over which channel a broker was last heard of, and its known data version."""

    heard_at_ms: int
    expiry_ms: int
    version: DataVersion
    channel: int
    ha_address: str


class Leader(NamedTuple):
    """The address that registered last as the master of a broker name, and its epoch: the `stateVersion` of its topics."""

    address: str
    epoch: int


class Tables:
    """All tables, with reverse indexes that keep the cost of an event in proportion to what it changes.

    Anyone may read. Changes go through the methods, which keep both directions consistent. Times are the caller's
    `now_ms`.
    """

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, QueueData]] = {}
        """Topic → broker name → queues."""
        self.brokers: dict[str, BrokerData] = {}
        """Broker name → addresses by broker id."""
        self.clusters: dict[str, dict[str, None]] = {}
        """Cluster → broker names, in order of arrival."""
        self.live: dict[Place, LiveBroker] = {}
        self.leaders: dict[str, Leader] = {}
        """Broker name → its last master, also one that is away, as long as the name has an address."""
        self.filter_servers: dict[Place, list[str]] = {}
        self._topics_by_broker: dict[str, dict[str, None]] = {}
        self._clusters_by_broker: dict[str, dict[str, None]] = {}
        self._names_by_address: dict[str, dict[str, None]] = {}
        self._places_by_channel: dict[int, dict[Place, None]] = {}

    def topics_of(self, broker_name: str) -> list[str]:
        """Return the topics of a broker name."""
        return list(self._topics_by_broker.get(broker_name, ()))

    def names_at(self, address: str) -> list[str]:
        """Return the broker names of an address: one, unless a broker was renamed without unregistering."""
        return list(self._names_by_address.get(address, ()))

    def places_of(self, channel: int) -> list[Place]:
        """Return the brokers last heard of over a connection."""
        return list(self._places_by_channel.get(channel, ()))

    def put_queues(self, topic: str, queues: QueueData) -> None:
        """Set a topic's queues on a broker name."""
        self.topics.setdefault(topic, {})[queues.broker_name] = queues
        self._topics_by_broker.setdefault(queues.broker_name, {})[topic] = None

    def drop_queues(self, topic: str, broker_name: str) -> bool:
        """Remove a topic's queues on a broker name, and the topic with the last of them. Returns False when it had none."""
        queues = self.topics.get(topic)
        if queues is None or queues.pop(broker_name, None) is None:
            return False
        if not queues:
            del self.topics[topic]
        _discard(self._topics_by_broker, broker_name, topic)
        return True

    def join(self, cluster: str, broker_name: str) -> BrokerData:
        """Add a broker name to a cluster and return its addresses, empty for a new name."""
        self.clusters.setdefault(cluster, {})[broker_name] = None
        self._clusters_by_broker.setdefault(broker_name, {})[cluster] = None
        data = self.brokers.get(broker_name)
        if data is None:
            data = self.brokers[broker_name] = BrokerData(broker_name=broker_name, cluster=cluster)
        return data

    def put_address(self, data: BrokerData, broker_id: int, address: str) -> None:
        """Set the address of a broker id, replacing the previous one."""
        before = data.broker_addrs.get(broker_id)
        data.broker_addrs[broker_id] = address
        self._after_address(data, before)
        self._names_by_address.setdefault(address, {})[data.broker_name] = None

    def drop_address(self, data: BrokerData, broker_id: int) -> None:
        """Remove the address of a broker id."""
        self._after_address(data, data.broker_addrs.pop(broker_id, None))

    def drop_broker(self, broker_name: str) -> None:
        """Remove a broker name with its addresses, clusters and queues."""
        data = self.brokers[broker_name]
        for broker_id in list(data.broker_addrs):
            self.drop_address(data, broker_id)
        del self.brokers[broker_name]
        self.leaders.pop(broker_name, None)
        for cluster in self._clusters_by_broker.pop(broker_name, ()):
            _discard(self.clusters, cluster, broker_name)
        for topic in self.topics_of(broker_name):
            self.drop_queues(topic, broker_name)

    def hear(self, place: Place, live: LiveBroker) -> None:
        """Record when and over which channel a broker was heard of."""
        self.forget(place)
        self.live[place] = live
        self._places_by_channel.setdefault(live.channel, {})[place] = None

    def forget(self, place: Place) -> LiveBroker | None:
        """Remove a broker from the living ones; return its record."""
        live = self.live.pop(place, None)
        if live is not None:
            _discard(self._places_by_channel, live.channel, place)
        return live

    def _after_address(self, data: BrokerData, gone: str | None) -> None:
        if gone is not None and gone not in data.broker_addrs.values():
            _discard(self._names_by_address, gone, data.broker_name)


K = TypeVar("K")
V = TypeVar("V")


def _discard(table: dict[K, dict[V, None]], key: K, value: V) -> None:
    """Remove a value from a key's values, and the key with the last of them."""
    values = table.get(key)
    if values is not None:
        values.pop(value, None)
        if not values:
            del table[key]


class Member(NamedTuple):
    """A living broker of a name: its address and the connection it registered over."""

    address: str
    channel: int


class MinIdChanged(NamedTuple):
    """The lowest broker id of a broker name changed: the content of 905 to its members."""

    broker_name: str
    min_id: int
    min_address: str
    offline_address: str | None
    ha_address: str | None
    members: tuple[Member, ...]
    """The brokers to notify."""


@dataclass(slots=True)
class Change:
    """The effects of an event, for the shell."""

    topics: set[str] = field(default_factory=set[str])
    """Topics with a changed route."""
    lost_channels: set[int] = field(default_factory=set[int])
    """Connections of expired brokers, to be closed."""
    notices: list[MinIdChanged] = field(default_factory=list[MinIdChanged])
