"""In-memory nameservers and stores, and a gateway over them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec
from gateway_memory_leases import MemoryLeases
from gateway_memory_scheduler import MemorySchedulers
from gateway_memory_store import MemoryClocks, MemoryStore
from gateway_memory_transactions import MemoryTransactions

from gantry_chassis.metrics import Metrics
from gantry_wire.messages.ids import UniqueIds
from gantry_wire.private_requests.settling import MessageEvent
from gateway.http.clocks import ReplyStamps
from gateway.ports.stores import Broker, GroupSettings, PeerAway, QueueData, RouteData, TopicSettings
from gateway.process.assembly import AccessParts, Gateway, Ports, assemble
from gateway.settings import GatewaySettings


class MemorySystem:
    """Nameservers and stores; implements the Names and Stores ports."""

    def __init__(self, brokers: Sequence[str] = ("broker-a",)) -> None:
        self.clocks = MemoryClocks()
        self.leases = MemoryLeases(self)
        self.transactions = MemoryTransactions(self)
        self.stores = {
            name: MemoryStore(name, f"127.0.0.1:{10911 + 10 * n}", self.clocks)
            for n, name in enumerate(brokers)
        }
        self.registered = set(brokers)
        self.kept_values: dict[tuple[str, str], str] = {}
        self.nameservers = ["127.0.0.1:9876"]
        self.silent_nameservers: set[str] = set()
        self.route_calls = 0
        self.hints: list[str] = []
        self.left: list[str] = []
        self.slaves: dict[str, dict[int, str]] = {}
        self.stores_at: dict[str, MemoryStore] = {}
        self.leaderless: set[str] = set()
        self.replica_states: dict[str, dict[str, object]] = {}
        self.lead_moves: list[tuple[str, str]] = []
        self.replica_away: PeerAway | None = None
        self.move_refusal = ""
        self.schedulers = MemorySchedulers()
        self.known_events: dict[tuple[str, str, int, int], list[MessageEvent]] = {}

    # Stores

    def at(self, broker: str, address: str) -> MemoryStore:
        if (replica := self.stores_at.get(address)) is not None:
            return replica
        store = self.stores[broker]
        assert store.address == address
        return store

    def leave(self, address: str) -> None:
        self.left.append(address)

    # Names

    @property
    def addresses(self) -> Sequence[str]:
        return self.nameservers

    def _answer(self) -> None:
        if set(self.nameservers) <= self.silent_nameservers:
            raise PeerAway("nameservers", True, "no answer")

    async def route(self, topic: str) -> RouteData | None:
        self._answer()
        self.route_calls += 1
        await asyncio.sleep(0)
        holders = [s for name, s in self.stores.items() if name in self.registered and topic in s.kept_topics]
        if not holders:
            return None
        queues = tuple(
            QueueData(
                s.broker,
                s.kept_topics[topic].read_queues,
                s.kept_topics[topic].write_queues,
                s.kept_topics[topic].perm,
            )
            for s in holders
        )
        leaders = {s.broker: s.address for s in holders if s.broker not in self.leaderless}
        return RouteData(queues, leaders, self.slaves)

    async def route_at(self, address: str, topic: str) -> RouteData | None:
        if address in self.silent_nameservers:
            raise PeerAway(address, True, "no answer")
        return await self.route(topic)

    async def brokers(self) -> list[Broker]:
        self._answer()
        return sorted(
            Broker(name, "DefaultCluster", s.address, ("127.0.0.1",))
            for name, s in self.stores.items()
            if name in self.registered - self.leaderless
        )

    async def replicas(self) -> dict[str, dict[int, str]]:
        self._answer()
        leaders = {broker.name: {0: broker.address} for broker in await self.brokers()}
        names = leaders.keys() | self.slaves.keys()
        return {name: leaders.get(name, {}) | self.slaves.get(name, {}) for name in names}

    async def topics(self) -> list[str]:
        self._answer()
        return sorted(
            {t for name, s in self.stores.items() if name in self.registered for t in s.kept_topics}
        )

    async def value(self, namespace: str, key: str) -> str | None:
        self._answer()
        return self.kept_values.get((namespace, key))

    async def values(self, namespace: str) -> dict[str, str]:
        self._answer()
        return {key: value for (held, key), value in self.kept_values.items() if held == namespace}

    async def delete_topic(self, topic: str) -> list[str]:
        return sorted(self.silent_nameservers)

    async def put_value(self, namespace: str, key: str, value: str) -> list[str]:
        self.kept_values[namespace, key] = value
        return sorted(self.silent_nameservers)

    async def delete_value(self, namespace: str, key: str) -> list[str]:
        self.kept_values.pop((namespace, key), None)
        return sorted(self.silent_nameservers)

    # Hints

    def publish(self, subject: str, payload: bytes = b"") -> None:
        self.hints.append(subject)

    # Replicas

    async def state(self, address: str) -> dict[str, object] | None:
        return self.replica_states.get(address)

    async def move_leader(self, address: str, to: str) -> str:
        self.lead_moves.append((address, to))
        if self.replica_away is not None:
            raise self.replica_away
        return self.move_refusal

    # Histories

    async def events(self, broker, topic, queue_id, offset):
        return self.known_events.get((broker.name, topic, queue_id, offset), [])

    # For tests

    def add_topic(self, topic: str, queues: int = 4, perm: int = 6) -> None:
        for store in self.stores.values():
            store.kept_topics[topic] = TopicSettings(topic, queues, queues, perm)

    def add_group(self, group: str) -> None:
        for store in self.stores.values():
            store.kept_groups[group] = GroupSettings(group, True, True, 16, 1)

    def add_replica(self, broker: str, address: str) -> MemoryStore:
        """Add a replica with the same log; it does not lead."""
        leader = self.stores[broker]
        self.stores_at[leader.address] = leader
        replica = self.stores_at[address] = MemoryStore(broker, address, self.clocks)
        for shared in ("kept_topics", "kept_groups", "queues", "by_position", "offsets", "keys"):
            setattr(replica, shared, getattr(leader, shared))
        self.slaves.setdefault(broker, {})[len(self.slaves.get(broker, {})) + 1] = address
        return replica

    def lead(self, replica: MemoryStore) -> None:
        """Let a replica lead in place of the one that did."""
        before, broker = self.stores[replica.broker], replica.broker
        self.stores[broker] = replica
        others = [address for address in self.slaves[broker].values() if address != replica.address]
        self.slaves[broker] = dict(enumerate([before.address, *others], 1))
        self.leaderless.discard(broker)

    def kill(self, broker: str) -> None:
        self.registered.discard(broker)
        self.stores[broker].away = PeerAway(broker, False, "not connected")

    def revive(self, broker: str) -> None:
        self.registered.add(broker)
        self.stores[broker].away = None

    def gateway(
        self,
        limits: MemoryLimits | None = None,
        *,
        fast_paths: bool = True,
        access_parts: AccessParts | None = None,
        **settings: object,
    ) -> Gateway:
        ids = UniqueIds(bytes((127, 0, 0, 1)), 1, 7)
        ports = Ports(
            self,
            self,
            self,
            limits,
            self.clocks,
            ids,
            ReplyStamps(time.time_ns, "request"),
            self.schedulers,
            leases=self.leases,
            transactions=self.transactions,
            histories=self,
            replicas=self,
        )
        short = {
            "grpc_port": -1,
            "topic_ready_seconds": 0.1,
            "takeover_seconds": 0.5,
            "allowed_hosts": "gateway, a, b, x",
        }
        return assemble(
            msgspec.convert(short | settings, GatewaySettings),
            ports,
            fast_paths=fast_paths,
            access_parts=access_parts,
            metrics=Metrics(),
        )


class MemoryLimits:
    """A limit that refuses on demand."""

    def __init__(self) -> None:
        self.wait_ms = 0
        self.taken: list[tuple[str, str, int]] = []

    async def take(self, client: str, topic: str, count: int) -> int:
        self.taken.append((client, topic, count))
        return self.wait_ms
