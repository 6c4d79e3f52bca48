"""Runs one keeper per known store, each in its own task."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.system_queues.fleet import StoreAt
from scheduler.terms.store_keeper import Identity, StoreKeeper
from scheduler.terms.term import Term


class KnownStores:
    """The stores and their keepers. Requests need it before the port is known at which stores find this scheduler."""

    def __init__(self) -> None:
        self.by_broker: dict[str, StoreKeeper] = {}

    def terms(self) -> list[Term]:
        """Return the running terms, by broker."""
        return [keeper.term for _, keeper in sorted(self.by_broker.items()) if keeper.term is not None]

    def clients(self) -> dict[str, StoreClient]:
        """Return the clients of all known stores, whichever scheduler works on them."""
        return {broker: keeper.client for broker, keeper in self.by_broker.items()}


class Keepers:
    """Starts and ends keepers as stores come and go."""

    def __init__(self, stores: KnownStores, pool: ConnectionPool, identity: Identity) -> None:
        self._by_broker = stores.by_broker
        self._pool, self._identity = pool, identity
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: dict[str, set[asyncio.Task[None]]] = {}
        """Keepers still shutting down, by broker: only one keeper at a time may open an index."""

    def joined(self, store: StoreAt) -> None:
        """Serve a new store."""
        keeper = self._by_broker[store.broker] = StoreKeeper(store, self._pool, self._identity)
        serving = _serve(keeper, frozenset(self._ending.get(store.broker, ())))
        task = asyncio.get_running_loop().create_task(serving, name=f"store {store.broker}")
        self._tasks[store.broker] = task

    def left(self, store: StoreAt) -> None:
        """Stop serving a store."""
        del self._by_broker[store.broker]
        task, ending = self._tasks.pop(store.broker), self._ending.setdefault(store.broker, set())
        ending.add(task)
        task.add_done_callback(ending.discard)
        task.cancel()

    async def close(self) -> None:
        """End all keepers; their claims are released."""
        for task in self._tasks.values():
            task.cancel()
        ending = (task for tasks in self._ending.values() for task in tasks)
        await asyncio.gather(*self._tasks.values(), *ending, return_exceptions=True)


async def _serve(keeper: StoreKeeper, before: Collection[asyncio.Task[None]]) -> None:
    if before:
        await asyncio.wait(before)
    await keeper.run()
