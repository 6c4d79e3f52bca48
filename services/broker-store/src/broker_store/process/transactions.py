"""The transactions of a store, assembled over the sending and the reading half."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from broker_store.commit.appends import Appends
from broker_store.commit.topics import TopicTable
from broker_store.commit.visible_keys import VisibleKeys
from broker_store.config.delay_levels import LevelList
from broker_store.groups.clients import ClientTable
from broker_store.opening.opened import OpenedStore
from broker_store.ports import Commands
from broker_store.process.delays import now_of
from broker_store.process.foundation import Surroundings
from broker_store.process.reading import Consuming
from broker_store.process.sending import Sending
from broker_store.reading.pull_reading import InThread
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.requests.request_classes import RequestClass
from broker_store.settling.settling import Settling
from broker_store.transactions.asking import Asking
from broker_store.transactions.deciding import Deciding
from broker_store.transactions.ending import Ending, EndMetrics
from broker_store.transactions.finding import Finding
from broker_store.transactions.late_copies import LateCopies
from broker_store.transactions.outputs import AUDIT_TOPIC, DelayRules
from broker_store.transactions.recent_halves import RecentHalves
from broker_store.transactions.requests import TransactionRequests
from broker_store.transactions.turn_batch import TurnBatch
from broker_store.transactions.unseen import UnseenHalves
from gantry_chassis.metrics import Metrics
from gantry_link.pool import ConnectionPool


@dataclass(frozen=True, slots=True)
class TransactionParts:
    """Dependencies of transactions."""

    store: OpenedStore
    appends: Appends
    keys: VisibleKeys | None
    """None when the index is switched off."""
    settling: Settling
    recent: RecentHalves
    levels: LevelList
    clients: ClientTable
    requests: RequestClass
    in_thread: InThread
    pool: ConnectionPool
    address: str
    """host:port as advertised to clients."""
    index_trouble: Callable[[], str | None]


class Transactions:
    """Decisions about half messages, and queries about them."""

    def __init__(self, parts: TransactionParts) -> None:
        store, settling = parts.store, parts.settling
        now_ms, delays = store.clock.now_ms, DelayRules(parts.levels, partial(now_of, store.clock))
        self.metrics = EndMetrics()
        self._deferred = DeferredReplies(parts.requests, now_ms)

        def is_settled(topic: str, queue_id: int, offset: int) -> bool:
            return settling.table.is_settled((topic, queue_id, ""), offset)

        unseen = UnseenHalves(parts.appends)
        finding = self.finding = Finding(
            store.log, parts.keys, parts.index_trouble, is_settled, store.states.transactions, parts.in_thread, unseen
        )  # fmt: skip
        deciding = Deciding(finding, settling.settle, delays, lambda: _ensure_audit(store.topics), now_ms)
        asking = Asking(
            parts.clients, store.log, parts.in_thread, parts.pool, self._deferred, parts.address, now_ms
        )
        self._ending = Ending(
            store.log, store.queues, TurnBatch(settling, parts.appends),
            unseen, parts.recent, deciding, delays, self._deferred,
            parts.in_thread, asking.relays, asking.relay, now_ms, self.metrics,
        )  # fmt: skip
        self.late_copies = LateCopies(store.states.transactions, store.queues, settling.settle)
        self._requests = TransactionRequests(finding, deciding, asking, self._deferred)

    def commands(self) -> Commands:
        """Return the table entries of this part."""
        return {**self._ending.commands(), **self._requests.commands()}

    def show(self, metrics: Metrics) -> None:
        """Register the metrics."""
        counts = self.metrics
        metrics.counted(
            "gantry_store_transactions",
            "END_TRANSACTION requests by outcome.",
            lambda: {
                ("committed",): counts.committed,
                ("rolledBack",): counts.rolled_back,
                ("refused",): counts.refused,
            },
            ("outcome",),
        )

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the background loops. The checker has the other timers."""
        return {"lateHalfCopies": self.late_copies.run}

    def closed(self, peer: object) -> None:
        """Do nothing: no state depends on a connection."""

    async def close(self) -> None:
        """Finish running requests."""
        await self._deferred.close()


def build_transactions(
    around: Surroundings, store: OpenedStore, sending: Sending, consuming: Consuming
) -> Transactions:
    """Return the feature over both halves of a store."""
    transactions = Transactions(
        TransactionParts(
            store, sending.appends, sending.dispatch.keys, sending.settling, sending.halves.recent, sending.delays.levels,
            consuming.clients, around.classes["endTransaction"], _in_thread, around.pool, around.address,
            around.index_trouble,
        )
    )  # fmt: skip
    transactions.show(around.metrics)
    return transactions


async def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.to_thread(function, *arguments)


def _ensure_audit(topics: TopicTable) -> None:
    topics.ensure(AUDIT_TOPIC, 1)
