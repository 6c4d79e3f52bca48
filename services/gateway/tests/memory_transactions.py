"""In-memory transactions: halves come from the in-memory stores, decisions are recorded, and a checker lists the tests' checks."""

from __future__ import annotations

import asyncio

from gantry_wire.messages.properties import UNIQ_KEY
from gantry_wire.private_requests.transactions import (
    ChecksPage,
    PendingCheck,
    TransactionsPage,
    TransactionView,
)
from gantry_wire.records.message_record import decode_record, rebuild_record
from gateway.ports.stores import PeerAway, StoreRefused


class MemoryChecker:
    """One checker; tests put keys in `parked` and `due`."""

    def __init__(self, parties) -> None:
        self._parties = parties
        self.due: dict[tuple[str, str], int] = {}
        self.brokers = {"broker-a", "broker-b"}
        self.incomplete: set[str] = set()
        self.away = False
        self.is_old = False
        """Whether it knows neither rights nor taken checks, as a checker of an earlier version."""
        self.queries = []
        self.taken: dict[str, int] = {}
        self.returned: list[str] = []
        """Keys of the checks of all answers: they had their turn."""
        self.news = asyncio.Event()

    def ask(self, broker: str, key: str, attempt: int = 1) -> None:
        self.due[broker, key] = attempt
        self.news.set()

    async def transactions(self, query):
        self._enter(query)
        views = [
            self._parties.view(broker, key)
            for broker, key in self._parties.halves()
            if broker == query.broker
        ]
        found = [
            view
            for view in views
            if view.state in ("open", "parked")
            and query.state in (None, view.state)
            and query.topic in (None, view.topic)
            and query.producer_group in (None, view.producer_group)
        ]
        return TransactionsPage(
            transactions=found[: query.limit],
            truncated=len(found) > query.limit,
            brokers=sorted(self.brokers),
            incomplete=sorted(self.incomplete),
        )

    async def receive_checks(self, query):
        self._enter(query)
        self.taken |= {one.key: one.attempt for one in query.taken or ()}
        end = asyncio.get_running_loop().time() + query.wait_ms / 1000
        while True:
            self.news.clear()
            checks = [
                PendingCheck(key=key, broker=broker, attempt=attempt, record=self._half(broker, key))
                for (broker, key), attempt in self.due.items()
                if (broker, key) not in self._parties.decided
                and (query.taken is None or self.is_old or self.taken.get(key) != attempt)
                and self._parties.view(broker, key).producer_group == query.producer_group
            ]
            topics = {self._parties.view(check.broker, check.key).topic for check in checks}
            known = topics if query.topics is None or self.is_old else {*query.topics}
            checks = [one for one in checks if self._parties.view(one.broker, one.key).topic in known]
            unknown = sorted(topics - known - {*query.refused})
            left = end - asyncio.get_running_loop().time()
            if checks or unknown or left <= 0:
                self.returned += [check.key for check in checks[: query.max]]
                return ChecksPage(
                    checks=checks[: query.max], brokers=sorted(self.brokers), undecided_topics=unknown
                )
            try:
                await asyncio.wait_for(self.news.wait(), left)
            except TimeoutError:
                continue

    def _half(self, broker, key):
        """The half as a store keeps it: in its own topic, with the real topic in the properties."""
        record = self._parties.halves()[broker, key]
        extra = f"REAL_TOPIC\x01{record.topic.decode()}\x02REAL_QID\x01{record.queue_id}\x02".encode()
        return rebuild_record(
            record._replace(
                topic=b"RMQ_SYS_TRANS_HALF_TOPIC", queue_id=0, properties=record.properties + extra
            )
        )

    def _enter(self, query) -> None:
        self.queries.append(query)
        if self.away:
            raise PeerAway("the txn-checker", False, "not connected")


class MemoryTransactions:
    """Implements the TransactionParties port over a MemorySystem."""

    def __init__(self, system) -> None:
        self._system = system
        self.checker = MemoryChecker(self)
        self.decided: dict[tuple[str, str], str] = {}
        self.orders = []
        self.parked: set[str] = set()
        self.checks: dict[str, int] = {}
        self.holders: dict[str, str | None] = {}
        self.refuse: StoreRefused | None = None
        self.lost = False

    def halves(self):
        """Every half that was sent, by broker and unique key."""
        return {
            (name, record.property_map()[UNIQ_KEY]): record
            for name, store in self._system.stores.items()
            for record in map(decode_record, store.by_position.values())
            if record.property_map().get("TRAN_MSG") == "true"
        }

    def view(self, broker, key):
        record = self.halves().get((broker, key))
        if record is None:
            raise StoreRefused(22, f"there is no transaction {key}")
        state = self.decided.get((broker, key)) or ("parked" if key in self.parked else "open")
        return TransactionView(
            key=key, broker=broker, state=state, topic=record.topic.decode(), queue_id=record.queue_id,
            producer_group=record.property_map()["PGROUP"], begun_ms=record.store_timestamp,
            checks=self.checks.get(key, 0),
        )  # fmt: skip

    async def decide(self, broker, order):
        self._enter(broker)
        self.orders.append(order)
        view = self.view(broker.name, order.key)
        wanted = "committed" if order.decision == "commit" else "rolledBack"
        if view.state in ("committed", "rolledBack"):
            if view.state != wanted:
                raise StoreRefused(604, f"the transaction was {view.state} before", "TRANSACTION_DECIDED")
            return view
        self.decided[broker.name, order.key] = wanted
        if self.lost:
            raise PeerAway(broker.name, True, "no answer")
        return self.view(broker.name, order.key)

    async def state(self, broker, key):
        self._enter(broker)
        view = self.view(broker.name, key)
        view.broker = ""
        return view

    async def holder(self, broker, topic):
        assert topic == "RMQ_SYS_TRANS_HALF_TOPIC"
        self._enter(broker)
        return self.holders.get(broker.name, "127.0.0.1:10931")

    def at(self, address):
        assert address == "127.0.0.1:10931"
        return self.checker

    def _enter(self, broker):
        away = self._system.stores[broker.name].away
        if away is not None:
            raise away
        if self.refuse is not None:
            raise self.refuse
