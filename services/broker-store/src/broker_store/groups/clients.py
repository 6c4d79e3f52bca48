"""Connected producers and consumers by group, as their heartbeats report. Pure: callers pass the time and send the notices.

A group's subscriptions belong to the group, not to a client: each heartbeat's set replaces the previous
one, as in RocketMQ.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from broker_store.ports import Peer
from gantry_wire.bodies.clients import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData

EXPIRY_MS = 120_000
"""A client without a heartbeat for this long is removed, and its connection is closed."""


@dataclass(slots=True, eq=False)
class Client:
    """One client of one group on one connection."""

    peer: Peer
    client_id: str
    language: str
    version: int
    updated_ms: int
    """Store time of its last heartbeat, for display."""
    last_seen_ms: int
    """The same by a monotonic clock, so that a wall clock step expires no client."""
    user: str = ""
    """The user that signed its last heartbeat; empty without access control."""


class Consumption(NamedTuple):
    """How a group consumes, by its newest heartbeat."""

    kind: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    model: MessageModel = MessageModel.CLUSTERING
    start: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """A group with at least one client."""

    name: str
    consumption: Consumption
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict[str, SubscriptionData])
    clients: dict[int, Client] = field(default_factory=dict[int, Client])
    """By number of the connection."""

    def client_ids(self) -> list[str]:
        """Return the distinct ids of the clients."""
        return list(dict.fromkeys(client.client_id for client in self.clients.values()))

    def find(self, client_id: str) -> Client | None:
        """Return a client by its id."""
        return next((client for client in self.clients.values() if client.client_id == client_id), None)


class Gone(NamedTuple):
    """Consequences of clients that left."""

    changed_groups: list[str]
    """Consumer groups whose other members must be notified."""
    peers: list[Peer]
    """Silent connections to close."""


class ClientTable:
    """All producers and consumers of this store."""

    def __init__(self) -> None:
        self.producers: dict[str, dict[int, Client]] = {}
        """Group → connection → client."""
        self.consumers: dict[str, ConsumerGroup] = {}
        self._producer_ids: dict[str, Client] = {}
        self._id_groups: Counter[tuple[int, str]] = Counter()
        """In how many producer groups a connection has an id. With the last one the id leaves."""
        self._produces: dict[int, set[str]] = {}
        self._consumes: dict[int, set[str]] = {}
        # Groups by connection: a thousand connections that close must not each scan ten thousand groups.

    def register_producer(self, group: str, client: Client) -> None:
        """Record a live producer."""
        clients = self.producers.setdefault(group, {})
        before = clients.get(client.peer.id)
        if before is None or before.client_id != client.client_id:
            self._id_groups[client.peer.id, client.client_id] += 1
            if before is not None:
                self._leave_id(before)
        known = self._producer_ids.get(client.client_id)
        if known is None or known.peer.is_closing or client.user == known.user or client.peer is known.peer:
            self._producer_ids[client.client_id] = client
        clients[client.peer.id] = client
        self._produces.setdefault(client.peer.id, set()).add(group)

    def find_producer(self, client_id: str) -> Client | None:
        """Return the producer with this id, in whatever group: on its newest connection.

        A connection of another user does not take the id of a connected client, so it gets none of the replies that are for that one.
        """
        return self._producer_ids.get(client_id)

    def register_consumer(
        self,
        group: str,
        client: Client,
        consumption: Consumption,
        subscriptions: Iterable[SubscriptionData] | None,
    ) -> bool:
        """Record a live consumer. Returns whether the group's members must be notified.

        With `subscriptions` of None (a heartbeat without them) the group's stay as they are.
        """
        entry = self.consumers.get(group)
        if entry is None:
            entry = self.consumers[group] = ConsumerGroup(group, consumption)
        entry.consumption = consumption
        known = entry.clients.get(client.peer.id)
        entry.clients[client.peer.id] = client
        self._consumes.setdefault(client.peer.id, set()).add(group)
        is_new = known is None or known.client_id != client.client_id
        if subscriptions is None:
            return is_new
        return _replace(entry.subscriptions, {each.topic: each for each in subscriptions}) or is_new

    def unregister(self, peer_id: int, producer_group: str, consumer_group: str) -> bool:
        """Remove a client from the named groups ("" is none). Returns whether the consumer group changed."""
        self._leave_producers(producer_group, peer_id)
        return self._leave_consumers(consumer_group, peer_id) is not None

    def close(self, peer_id: int) -> list[str]:
        """Remove everything of a connection. Returns the consumer groups that changed."""
        for group in tuple(self._produces.get(peer_id, ())):
            self._leave_producers(group, peer_id)
        groups = sorted(self._consumes.get(peer_id, ()))
        for group in groups:
            self._leave_consumers(group, peer_id)
        return groups

    def consumer_name(self, peer: Peer, group: str) -> str:
        """Return the client id of a group's member, or its address if the connection has none."""
        entry = self.consumers.get(group)
        client = entry.clients.get(peer.id) if entry is not None else None
        return f"{peer.remote[0]}:{peer.remote[1]}" if client is None else client.client_id

    def expire(self, now_ms: int) -> Gone:
        """Remove clients that were silent for EXPIRY_MS. `now_ms` is monotonic."""
        oldest = now_ms - EXPIRY_MS
        peers: dict[int, Peer] = {}
        changed: list[str] = []
        for group, clients in list(self.producers.items()):
            for client in [client for client in clients.values() if client.last_seen_ms < oldest]:
                self._leave_producers(group, client.peer.id)
                peers[client.peer.id] = client.peer
        for group, entry in list(self.consumers.items()):
            late = [client for client in entry.clients.values() if client.last_seen_ms < oldest]
            for client in late:
                self._leave_consumers(group, client.peer.id)
                peers[client.peer.id] = client.peer
            if late:
                changed.append(group)
        return Gone(changed, list(peers.values()))

    def listeners(self, group: str) -> list[Peer]:
        """Return the connections to notify of a change of the group. None for a broadcasting group."""
        entry = self.consumers.get(group)
        if entry is None or entry.consumption.model is MessageModel.BROADCASTING:
            return []
        return [client.peer for client in entry.clients.values()]

    def groups_on(self, topic: str) -> list[str]:
        """Return the groups that subscribe to a topic and have a client."""
        return [name for name, entry in self.consumers.items() if topic in entry.subscriptions]

    def _leave_producers(self, group: str, peer_id: int) -> None:
        clients = self.producers.get(group)
        client = None if clients is None else clients.pop(peer_id, None)
        if clients is None or client is None:
            return
        _discard(self._produces, peer_id, group)
        self._leave_id(client)
        if not clients:
            del self.producers[group]

    def _leave_id(self, client: Client) -> None:
        """Count one producer group less in which a connection has this id."""
        peer_id, client_id = client.peer.id, client.client_id
        self._id_groups[peer_id, client_id] -= 1
        if self._id_groups[peer_id, client_id]:
            return
        del self._id_groups[peer_id, client_id]
        known = self._producer_ids.get(client_id)
        if known is not None and known.peer.id == peer_id:
            del self._producer_ids[client_id]

    def _leave_consumers(self, group: str, peer_id: int) -> Client | None:
        entry = self.consumers.get(group)
        if entry is None:
            return None
        client = entry.clients.pop(peer_id, None)
        _discard(self._consumes, peer_id, group)
        if not entry.clients:
            del self.consumers[group]
        return client


def _discard(groups_of: dict[int, set[str]], peer_id: int, group: str) -> None:
    groups = groups_of.get(peer_id)
    if groups is not None:
        groups.discard(group)
        if not groups:
            del groups_of[peer_id]


def _replace(known: dict[str, SubscriptionData], given: dict[str, SubscriptionData]) -> bool:
    """Make `known` equal to a heartbeat's topics. Returns whether topics were added or removed.

    An existing topic is replaced only by a newer version.
    """
    changed = False
    for topic, subscription in given.items():
        before = known.get(topic)
        if before is None:
            changed = True
        if before is None or subscription.sub_version > before.sub_version:
            known[topic] = subscription
    for topic in [topic for topic in known if topic not in given]:
        del known[topic]
        changed = True
    return changed
