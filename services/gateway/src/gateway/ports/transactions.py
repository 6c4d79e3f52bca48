"""The port for transactions: the brokers that store the half messages, and their txn-checkers.

Adapter: link_transactions.py. Every call raises StoreRefused or PeerAway, and may be repeated.
"""

from typing import Protocol

from gantry_wire.private_requests.transactions import (
    ChecksPage,
    DecideTransaction,
    ListTransactions,
    ReceiveChecks,
    TransactionsPage,
    TransactionView,
)
from gateway.ports.stores import Broker


class Checker(Protocol):
    """One txn-checker."""

    async def transactions(self, query: ListTransactions) -> TransactionsPage:
        """Return undecided transactions, the oldest first."""
        ...

    async def receive_checks(self, query: ReceiveChecks) -> ChecksPage:
        """Return the transactions that a producer group has to decide; held while there are none."""
        ...


class TransactionParties(Protocol):
    """The brokers and checkers."""

    async def decide(self, broker: Broker, order: DecideTransaction) -> TransactionView:
        """Commit or roll back a transaction of a broker."""
        ...

    async def state(self, broker: Broker, key: str) -> TransactionView:
        """Return the state of a transaction of a broker."""
        ...

    async def holder(self, broker: Broker, topic: str) -> str | None:
        """Return the address of the process that holds queue 0 of a broker's system topic; None if no process does."""
        ...

    def at(self, address: str) -> Checker:
        """Return the client of the checker at an address."""
        ...
