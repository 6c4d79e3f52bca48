"""What the gateway needs for transactions: the brokers that keep the halves, and the checkers that work for them.

Adapter: link_transactions.py. Every call raises StoreRefused or PeerAway, and may be repeated.
"""

from typing import Protocol

from gantry_wire.transaction_bodies import (
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
        """Return what a producer group has to decide; held while there is nothing."""
        ...


class TransactionParties(Protocol):
    """Who is asked about transactions."""

    async def decide(self, broker: Broker, order: DecideTransaction) -> TransactionView:
        """Commit or roll back a transaction of a broker."""
        ...

    async def state(self, broker: Broker, key: str) -> TransactionView:
        """Return what became of a transaction of a broker."""
        ...

    async def holder(self, broker: Broker, topic: str) -> str | None:
        """Return the address of whoever works on queue 0 of a system topic of a broker; None: nobody at the moment."""
        ...

    def at(self, address: str) -> Checker:
        """Return the client of the checker at an address."""
        ...
