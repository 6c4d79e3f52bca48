"""Decides transactions by their key: on the newest copy of their half, or where they are parked.

The first decision wins.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from broker_store.settling.request.item_decisions import Done
from broker_store.transactions.half_copies import Transaction
from broker_store.transactions.half_outputs import (
    AUDIT_TOPIC,
    COMMITTED,
    RESUMED,
    ROLLED_BACK,
    DelayRules,
    message_output,
    op_output,
)
from broker_store.transactions.transaction_lookup import ROUNDS_MAX, Found, TransactionLookup, on_the_move
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.messages.properties import KEYS, TAGS, TRANSACTION_CHECK_TIMES
from gantry_wire.names import HALF_TOPIC
from gantry_wire.private_requests.settling import SettleItem, SettleOutput, SettleResult, SettleStatus
from gantry_wire.private_requests.transactions import (
    BEGUN_PROPERTY,
    REASON_CHARS_MAX,
    DecideTransaction,
    Decision,
    TransactionView,
)

STATE_OF: dict[Decision, str] = {"commit": COMMITTED, "rollback": ROLLED_BACK}


class Settle(Protocol):
    """Decides items; see Settling.settle."""

    def __call__(
        self,
        topic: str,
        queue_id: int,
        group: str,
        epoch: int | None,
        items: Sequence[SettleItem],
        done: Done,
    ) -> None:
        """Decide items of a queue."""
        ...


class Audit(msgspec.Struct, rename="camel"):
    """Body of a record in GANTRY_SYS_AUDIT: an administrator decided a transaction."""

    what: str
    transaction: str
    topic: str
    producer_group: str
    decision: str
    by: str
    reason: str
    checks: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class DecisionsByKey:
    """Carries out decisions."""

    lookup: TransactionLookup
    settle: Settle
    delays: DelayRules
    ensure_audit: Callable[[], None]
    """Creates the topic of audit records if missing."""
    now_ms: Callable[[], int]

    async def decide(
        self, order: DecideTransaction, transaction: Transaction | None = None
    ) -> TransactionView:
        """Commit or roll back. Repeating the decision changes nothing. Raises RefusedRequest.

        `transaction` selects one of those with that key. None means the newest.
        """
        wanted = STATE_OF[order.decision]
        for _ in range(ROUNDS_MAX):
            found = await self.lookup.find(order.key, transaction)
            if found.state in (COMMITTED, ROLLED_BACK):
                if found.state != wanted:
                    raise decided_before(order.key, found.state)
                return found.view()
            result = await self._settle(found, self._item(found, order))
            if result.status == SettleStatus.SETTLED:
                return found.view(changed=True, state="committed" if wanted == COMMITTED else "rolledBack")
            if result.status != SettleStatus.ALREADY:
                raise not_decided(result)
        raise on_the_move(order.key)

    async def resume(self, found: Found) -> None:
        """Put a parked half back into the half queue and reset its number of checks (323). Raises RefusedRequest."""
        put = {TRANSACTION_CHECK_TIMES: "0", BEGUN_PROPERTY: str(self.now_ms())}
        outputs = [SettleOutput(HALF_TOPIC, 0, set=put)]
        item = SettleItem(found.record.queue_offset, found.record.position, outputs, RESUMED)
        result = await self._settle(found, item)
        if result.status != SettleStatus.SETTLED:
            raise not_decided(result)

    def _item(self, found: Found, order: DecideTransaction) -> SettleItem:
        record = found.record
        outputs: list[SettleOutput] = []
        if order.decision == "commit":
            outputs.append(message_output(found.named, self.delays))
        if found.state == "parked" or order.reason:
            self.ensure_audit()
            outputs.append(self._audit(found, order))
        if found.topic == HALF_TOPIC:
            outputs.append(op_output(record.queue_offset, STATE_OF[order.decision]))
        return SettleItem(record.queue_offset, record.position, outputs, STATE_OF[order.decision])

    def _audit(self, found: Found, order: DecideTransaction) -> SettleOutput:
        view = found.view()
        body = Audit(
            "transaction decided by hand",
            view.key,
            view.topic,
            view.producer_group,
            order.decision,
            order.by[:REASON_CHARS_MAX],
            order.reason[:REASON_CHARS_MAX],
            view.checks,
            self.now_ms(),
        )
        named = {TAGS: "transaction", KEYS: view.key}
        return SettleOutput(
            AUDIT_TOPIC, 0, body=None, body_base64=msgspec.json.encode(body), set=named, properties="none"
        )

    async def _settle(self, found: Found, item: SettleItem) -> SettleResult:
        answer: asyncio.Future[SettleResult] = asyncio.get_running_loop().create_future()

        def done(results: list[SettleResult] | RefusedRequest) -> None:
            if answer.done():
                return
            if isinstance(results, RefusedRequest):
                answer.set_exception(results)
            else:
                answer.set_result(results[0])

        self.settle(found.topic, 0, "", None, [item], done)
        return await answer


def decided_before(key: str, state: str) -> RefusedRequest:
    """Return the refusal of a decision that contradicts an earlier one."""
    how = "committed" if state == COMMITTED else "rolled back"
    return RefusedRequest(
        ResponseCode.ILLEGAL_OPERATION,
        f"the transaction {key} was {how} before: the first decision counts",
        {"gantryCode": "TRANSACTION_DECIDED", "state": state},
    )


_REFUSALS: dict[str, tuple[ResponseCode, str | None]] = {
    SettleStatus.UNKNOWN_TOPIC: (ResponseCode.TOPIC_NOT_EXIST, None),
    SettleStatus.NOT_WRITABLE: (ResponseCode.NO_PERMISSION, None),
    SettleStatus.NO_SPACE: (ResponseCode.SERVICE_NOT_AVAILABLE, "DISK_FULL"),
    SettleStatus.REMOVED: (ResponseCode.QUERY_NOT_FOUND, None),
    SettleStatus.BAD_ITEM: (ResponseCode.MESSAGE_ILLEGAL, None),
}


def not_decided(result: SettleResult) -> RefusedRequest:
    """Return the refusal of a decision that could not be carried out. The transaction is still open."""
    code, gantry_code = _REFUSALS.get(result.status, (ResponseCode.SYSTEM_ERROR, None))
    remark = f"the transaction is still open: {result.detail or result.status}"
    if result.status == SettleStatus.UNKNOWN_TOPIC:
        remark += "; create the topic again and commit, or roll back"
    return RefusedRequest(code, remark, {"gantryCode": gantry_code} if gantry_code else None)
