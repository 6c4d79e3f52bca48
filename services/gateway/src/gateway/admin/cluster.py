"""The cluster: brokers with their own metrics, clusters, nameservers."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from gateway.admin.replica_groups import addresses_of, group_of
from gateway.admin.schemas import BrokerGroupShown
from gateway.http.problems import Problem
from gateway.ports.replicas import Replicas
from gateway.ports.stores import Broker, Names, PeerAway, StoreRefused
from gateway.routing.brokers import KnownBrokers
from gateway.routing.fleet import Fleet


class BrokerView(NamedTuple):
    """A broker and its own metrics; {} if it does not respond."""

    broker: Broker
    is_alive: bool
    runtime: dict[str, str]


class ClusterView:
    """Reads the state of all brokers and nameservers."""

    def __init__(self, fleet: Fleet, names: Names, known: KnownBrokers, replicas: Replicas) -> None:
        self._fleet, self._names, self._known, self._replicas = fleet, names, known, replicas

    async def brokers(self, now: float) -> list[BrokerView]:
        """Return every expected broker, including those that are away."""
        try:
            alive, _gone = await self._fleet.brokers()
        except Problem:
            alive = []
        names = {broker.name for broker in alive}
        away = [broker for broker in self._known.all(now) if broker.name not in names]
        views = await asyncio.gather(*(self._view(broker) for broker in alive))
        return sorted([*views, *(BrokerView(broker, False, {}) for broker in away)])

    async def nameservers(self) -> dict[str, bool]:
        """Return every nameserver's address, and whether it responds."""
        addresses = list(self._names.addresses)
        answers = await asyncio.gather(*(self._answers(address) for address in addresses))
        return dict(zip(addresses, answers, strict=True))

    async def groups(self) -> list[BrokerGroupShown]:
        """Return the brokers with replicas, and what each replica says; none if no nameserver responds."""
        try:
            found = await self._names.replicas()
        except PeerAway:
            return []
        groups = await asyncio.gather(
            *(self._group(broker, addresses) for broker, addresses in sorted(found.items()))
        )
        return [group for group in groups if group.leader or len(group.replicas) > 1]

    async def group(self, broker: str) -> BrokerGroupShown:
        """Return a broker's replicas, also of a broker with a single one. Raises PeerAway if no nameserver responds."""
        return await self._group(broker, (await self._names.replicas()).get(broker, {}))

    async def _group(self, broker: str, addresses: Mapping[int, str]) -> BrokerGroupShown:
        said = await self._said(addresses.values())
        known = {address for one in said.values() for address in addresses_of(one)} - said.keys()
        return group_of(broker, addresses, {**said, **await self._said(known)})

    async def _said(self, addresses: Collection[str]) -> dict[str, dict[str, Any] | None]:
        said = await asyncio.gather(*(self._replicas.state(address) for address in addresses))
        return dict(zip(addresses, said, strict=True))

    async def _view(self, broker: Broker) -> BrokerView:
        try:
            return BrokerView(broker, True, await self._fleet.store(broker).runtime_info())
        except (StoreRefused, PeerAway):
            return BrokerView(broker, False, {})

    async def _answers(self, address: str) -> bool:
        try:
            await self._names.route_at(address, "GANTRY_SYS_PROBE")
        except PeerAway:
            return False
        return True
