"""The brokers of a life, as clients see them: a store, or a group of replicas of which one leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_simulation.clients.leader_client import LeaderClient
from gantry_simulation.parts.store import Store


class Broker:
    """One brokerName."""

    def __init__(
        self,
        name: str,
        stores: Mapping[str, Store],
        leader: Callable[[], Store | None] | None,
        leading: Callable[[], Store | None],
        *,
        confirms_all: bool,
    ) -> None:
        """Take all stores that have this name. `leader`: the replica that led last, as far as anybody knows; None for a store without replicas.

        `leading`: the one that leads in its present life. `confirms_all`: whether its replicas in sync have everything that it acknowledges,
        whatever its answers say.
        """
        self.name, self.stores, self.confirms_all = name, stores, confirms_all
        self._leader, self._leading = leader, leading
        self.takeovers: int = 0
        """Times that a replica began to lead."""

    @property
    def is_group(self) -> bool:
        """Whether it has replicas."""
        return self._leader is not None

    @property
    def address(self) -> str:
        """Where to ask: the leader of a group."""
        leader = self._leader() if self._leader is not None else None
        return (leader or next(iter(self.stores.values()))).address

    def client(self, pool: ConnectionPool, seconds: float) -> StoreClient:
        """Return a client that waits this long for an answer."""
        return self._client(pool, [store.address for store in self.stores.values()], seconds)

    def clients(self, pool: ConnectionPool, seconds: float) -> list[StoreClient]:
        """Return a client of each of its stores."""
        return [StoreClient(pool, store.address, seconds) for store in self.stores.values()]

    def fast_client(self, pool: ConnectionPool, seconds: float) -> StoreClient:
        """Return a client of its fast port."""
        return self._client(pool, [store.fast_address for store in self.stores.values()], seconds)

    def _client(self, pool: ConnectionPool, addresses: list[str], seconds: float) -> StoreClient:
        if self._leader is None:
            return StoreClient(pool, addresses[0], seconds)
        return LeaderClient(pool, addresses, seconds, self._is_replaced)

    def _is_replaced(self, address: str) -> bool:
        leading = self._leading()
        return leading is None or leading.address.partition(":")[0] != address.partition(":")[0]

    @property
    def is_sync(self) -> bool:
        """Whether it delivers only what is durable."""
        return self.is_group or all(store.flush == "sync" for store in self.stores.values())

    @property
    def lives(self) -> int:
        """How often what it keeps in memory was lost, at most."""
        return self.takeovers + sum(store.process.lives for store in self.stores.values())

    @property
    def has_index(self) -> bool:
        """Whether it finds messages by their keys."""
        return all(store.settings.index_enable for store in self.stores.values())
