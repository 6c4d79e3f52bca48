"""The TransactionParties port over gantry_link."""

from collections.abc import Awaitable
from typing import TypeVar

from gantry_link import BrokerRefused, ConnectionPool, LinkError
from gantry_link.claims import claim_holder
from gantry_link.store_calls import StoreCalls
from gantry_link.transaction_client import CheckerClient, TransactionStoreClient
from gantry_wire.transaction_bodies import (
    ChecksPage,
    DecideTransaction,
    ListTransactions,
    ReceiveChecks,
    TransactionsPage,
    TransactionView,
)
from gateway.ports import Broker, PeerAway, StoreRefused

T = TypeVar("T")


class LinkTransactions:
    """Clients by address over one pool of connections."""

    def __init__(self, pool: ConnectionPool, timeout_seconds: float) -> None:
        self._pool, self._timeout_seconds = pool, timeout_seconds

    async def decide(self, broker: Broker, order: DecideTransaction) -> TransactionView:
        """9021."""
        return await _translated(broker.name, self._store(broker).decide(order))

    async def state(self, broker: Broker, key: str) -> TransactionView:
        """9024."""
        return await _translated(broker.name, self._store(broker).state(key))

    async def holder(self, broker: Broker, topic: str) -> str | None:
        """9005."""
        store = StoreCalls(self._pool, broker.address, self._timeout_seconds)
        held = await _translated(broker.name, claim_holder(store, topic, 0))
        return held.address or None if held is not None else None

    def at(self, address: str) -> "LinkChecker":
        """Return the client of the checker at an address; making one costs nothing."""
        return LinkChecker(address, CheckerClient(self._pool, address, self._timeout_seconds))

    def _store(self, broker: Broker) -> TransactionStoreClient:
        return TransactionStoreClient(self._pool, broker.address, self._timeout_seconds)


class LinkChecker:
    """One txn-checker."""

    def __init__(self, address: str, client: CheckerClient) -> None:
        self._name, self._client = f"the txn-checker at {address}", client

    async def transactions(self, query: ListTransactions) -> TransactionsPage:
        """9020."""
        return await _translated(self._name, self._client.transactions(query))

    async def receive_checks(self, query: ReceiveChecks) -> ChecksPage:
        """9022."""
        return await _translated(self._name, self._client.receive_checks(query))


async def _translated(name: str, asked: Awaitable[T]) -> T:
    try:
        return await asked
    except BrokerRefused as error:
        raise StoreRefused(int(error.code), error.remark, error.fields.get("gantryCode", "")) from error
    except LinkError as error:
        raise PeerAway(name, error.sent, str(error)) from error
