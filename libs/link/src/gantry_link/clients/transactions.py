"""Typed transaction calls: to the broker that stores a half, to a broker with a producer's channel, to a checker."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gantry_link.calling.store_calls import BULK, StoreCalls
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import GantryCode
from gantry_wire.private_requests.transactions import (
    AskProducer,
    AskState,
    ChecksPage,
    DecideTransaction,
    FindProducer,
    ListTransactions,
    ProducerAsked,
    ProducerFound,
    ReceiveChecks,
    TransactionsPage,
    TransactionView,
)

AnswerT = TypeVar("AnswerT", bound=msgspec.Struct)
HOLD_MARGIN_SECONDS = 5.0
_encode = msgspec.json.Encoder().encode


class _Calls(StoreCalls):
    async def _do(
        self, code: GantryCode, ask: msgspec.Struct, kind: type[AnswerT], seconds: float | None = None
    ) -> AnswerT:
        answer = await self.ask(code, None, _encode(ask), connection_class=BULK, timeout_seconds=seconds)
        return decode_body(answer.body, kind)


class TransactionStoreClient(_Calls):
    """Transaction requests to a broker. Methods raise BrokerRefused, or LinkError with `sent`; all may be repeated."""

    async def decide(self, decision: DecideTransaction) -> TransactionView:
        """9021: commit or roll back. Raises BrokerRefused with QUERY_NOT_FOUND, or with `gantryCode` TRANSACTION_DECIDED."""
        return await self._do(GantryCode.DECIDE_TRANSACTION, decision, TransactionView)

    async def state(self, key: str) -> TransactionView:
        """9024: return the state of a transaction. Raises BrokerRefused with QUERY_NOT_FOUND if it is unknown."""
        return await self._do(GantryCode.TRANSACTION_STATE, AskState(key=key), TransactionView)

    async def find_producer(self, group: str) -> int:
        """9023: return the number of a producer group's clients that are connected to this broker."""
        found = await self._do(GantryCode.FIND_PRODUCER, FindProducer(producer_group=group), ProducerFound)
        return found.channels

    async def ask_producer(self, ask: AskProducer) -> bool:
        """9025: check a half with a client of its group. Returns False if none is connected."""
        return (await self._do(GantryCode.ASK_PRODUCER, ask, ProducerAsked)).asked


class CheckerClient(_Calls):
    """Requests to a checker."""

    async def transactions(self, query: ListTransactions) -> TransactionsPage:
        """9020: list undecided transactions."""
        return await self._do(GantryCode.LIST_TRANSACTIONS, query, TransactionsPage)

    async def receive_checks(self, query: ReceiveChecks) -> ChecksPage:
        """9022: get a producer group's undecided transactions. The checker holds the request while there are none."""
        seconds = query.wait_ms / 1000 + HOLD_MARGIN_SECONDS
        return await self._do(GantryCode.RECEIVE_CHECKS, query, ChecksPage, seconds)
