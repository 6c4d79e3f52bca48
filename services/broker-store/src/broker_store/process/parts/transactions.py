"""The transactions of a store, assembled over the sending and the reading half."""

from collections.abc import Awaitable, Callable
from functools import partial

from broker_store.commit.topics import TopicTable
from broker_store.opening.opened_store import OpenedStore
from broker_store.ports import Commands, InThread
from broker_store.process.foundation import Surroundings
from broker_store.process.parts.delays import now_of
from broker_store.process.parts.reading import Consuming
from broker_store.process.parts.sending import Sending
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.requests.request_classes import RequestClass
from broker_store.transactions.decisions_by_key import DecisionsByKey
from broker_store.transactions.end_transaction.end_handler import EndMetrics, EndTransactions
from broker_store.transactions.end_transaction.turn_batch import TurnBatch
from broker_store.transactions.half_outputs import AUDIT_TOPIC, DelayRules
from broker_store.transactions.late_copy_settling import LateCopies
from broker_store.transactions.producer_checks import DecisionRights, ProducerChecks, Producers
from broker_store.transactions.transaction_handler import TransactionRequests
from broker_store.transactions.transaction_lookup import TransactionLookup
from broker_store.transactions.unseen_halves import UnseenHalves
from gantry_chassis.metrics import Metrics
from gantry_link.connections.pool import ConnectionPool


class Transactions:
    """Decisions about half messages, and queries about them."""

    def __init__(
        self,
        store: OpenedStore,
        sending: Sending,
        producers: Producers,
        requests: RequestClass,
        in_thread: InThread,
        pool: ConnectionPool,
        address: str,
        index_trouble: Callable[[], str | None],
    ) -> None:
        """`address` is host:port as advertised to clients."""
        settling, appends, now_ms = sending.settling, sending.appends, store.clock.now_ms
        delays = DelayRules(sending.delays.levels, partial(now_of, store.clock))
        self.metrics = EndMetrics()
        self._deferred = DeferredReplies(requests, now_ms)

        def is_settled(topic: str, queue_id: int, offset: int) -> bool:
            return settling.table.is_settled((topic, queue_id, ""), offset)

        unseen = UnseenHalves(appends)
        lookup = self.lookup = TransactionLookup(
            store.log, store.queues, sending.dispatch.keys, index_trouble, is_settled, store.states.transactions, in_thread, unseen
        )  # fmt: skip
        by_key = DecisionsByKey(lookup, settling.settle, delays, lambda: _ensure_audit(store.topics), now_ms)
        checks = ProducerChecks(producers, store.log, in_thread, pool, self._deferred, address, now_ms)
        self._end = EndTransactions(
            store.log, store.queues, TurnBatch(settling, appends),
            unseen, sending.halves.recent, by_key, delays, self._deferred,
            in_thread, producers.relays, checks.relay, now_ms, self.metrics,
        )  # fmt: skip
        self.late_copies = LateCopies(store.states.transactions, store.queues, settling.settle)
        self._checks = checks
        self._requests = TransactionRequests(lookup, by_key, checks, self._deferred)

    def commands(self) -> Commands:
        """Return the table entries of this part."""
        return {**self._end.commands(), **self._requests.commands()}

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
        return {"lateHalfCopies": self.late_copies.run, "relayedChecks": self._checks.expire_relays}

    def closed(self, peer: object) -> None:
        """Do nothing: no state depends on a connection."""

    async def close(self) -> None:
        """Finish running requests."""
        await self._deferred.close()


def build_transactions(
    around: Surroundings,
    store: OpenedStore,
    sending: Sending,
    consuming: Consuming,
    rights: DecisionRights,
) -> Transactions:
    """Return the feature over both halves of a store."""
    transactions = Transactions(
        store, sending, Producers(consuming.clients, rights.may_send, rights.relays), around.classes["endTransaction"], sending.reads, around.pool, around.address,
        around.index_trouble,
    )  # fmt: skip
    transactions.show(around.metrics)
    return transactions


def _ensure_audit(topics: TopicTable) -> None:
    topics.ensure(AUDIT_TOPIC, 1)
