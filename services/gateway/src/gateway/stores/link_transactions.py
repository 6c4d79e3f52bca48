"""The TransactionParties port over gantry_link."""

from gantry_link.clients.transactions import CheckerClient, TransactionStoreClient
from gantry_wire.private_requests.transactions import (
    ChecksPage,
    DecideTransaction,
    ListTransactions,
    ReceiveChecks,
    TransactionsPage,
    TransactionView,
)
from gateway.ports.stores import Broker
from gateway.stores.link_parties import LinkHolders, translated


class LinkTransactions(LinkHolders):
    """Clients by address over one pool of connections."""

    async def decide(self, broker: Broker, order: DecideTransaction) -> TransactionView:
        """9021."""
        return await translated(broker.name, self._store(broker).decide(order))

    async def state(self, broker: Broker, key: str) -> TransactionView:
        """9024."""
        return await translated(broker.name, self._store(broker).state(key))

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
        return await translated(self._name, self._client.transactions(query))

    async def receive_checks(self, query: ReceiveChecks) -> ChecksPage:
        """9022."""
        return await translated(self._name, self._client.receive_checks(query))
