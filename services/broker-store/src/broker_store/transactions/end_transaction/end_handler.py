"""END_TRANSACTION (37): checks the request against its half, then decides in the group commit. Runs once per transaction: no tasks, no JSON.

Ordinary decisions of one turn are one entry of the group commit (decision_run.py). Others are decided by
the half's record. What that cannot settle continues as a coroutine with the transaction's key: an older
copy of the half, a half that was decided or parked before, a record that is not in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from broker_store.commit.queues import QueueTable
from broker_store.log.errors import LogError
from broker_store.ports import Commands, InThread, LogReader, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.settling.request.items import Gathered
from broker_store.transactions.decisions_by_key import DecisionsByKey, not_decided
from broker_store.transactions.end_transaction.decision_run import Ordinary
from broker_store.transactions.end_transaction.end_checks import check_end, not_found
from broker_store.transactions.end_transaction.turn_batch import TurnBatch
from broker_store.transactions.half_copies import Transaction, transaction_of
from broker_store.transactions.half_messages.recent_halves import Half, RecentHalves, ordinary_half
from broker_store.transactions.half_outputs import (
    COMMITTED,
    ROLLED_BACK,
    DelayRules,
    message_output,
    op_output,
)
from broker_store.transactions.producer_checks import Relays
from broker_store.transactions.unseen_halves import UnseenHalves
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import MalformedRecord, RefusedRequest
from gantry_wire.frames.command import FLAG_ONEWAY, Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.messages import EndTransactionHeader
from gantry_wire.messages.properties import UNIQ_KEY
from gantry_wire.names import HALF_TOPIC
from gantry_wire.private_requests.settling import SettleItem, SettleResult, SettleStatus
from gantry_wire.private_requests.transactions import DecideTransaction, Decision
from gantry_wire.records.message_record import (
    SYS_TRANSACTION_COMMIT,
    SYS_TRANSACTION_ROLLBACK,
    Record,
    decode_record,
)
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

DECISIONS: dict[int, Decision] = {SYS_TRANSACTION_COMMIT: "commit", SYS_TRANSACTION_ROLLBACK: "rollback"}
OUTCOMES: dict[Decision, str] = {"commit": COMMITTED, "rollback": ROLLED_BACK}

Relay = Callable[[Peer, Command, EndTransactionHeader], bool]
"""Relays a decision that belongs to another broker. False when this broker keeps the half."""


class Waiting(NamedTuple):
    """A decision in the group commit."""

    peer: Peer
    command: Command
    key: str
    transaction: Transaction | None
    decision: Decision


class EndMetrics:
    """Results of decisions since the start. Plain ints, read by metrics."""

    def __init__(self) -> None:
        self.committed = 0
        self.rolled_back = 0
        self.refused = 0


@dataclass(frozen=True, slots=True)
class EndTransactions:
    """Handles 37."""

    log: LogReader
    queues: QueueTable
    batch: TurnBatch
    unseen: UnseenHalves
    recent: RecentHalves
    by_key: DecisionsByKey
    delays: DelayRules
    deferred: DeferredReplies
    in_thread: InThread
    relays: Relays
    relay: Relay
    now_ms: Callable[[], int]
    metrics: EndMetrics

    def commands(self) -> Commands:
        """Return the table entries of this family."""
        return {RequestCode.END_TRANSACTION: ("endTransaction", self.end)}

    def end(self, peer: Peer, command: Command) -> None:
        """Commit or roll back. A request that asks for neither gets no answer, as in RocketMQ."""
        header = command.read(EndTransactionHeader)
        decision = DECISIONS.get(header.commit_or_rollback)
        if decision is None or (self.relays.halves and self.relay(peer, command, header)):
            return
        try:
            half = self.recent.take(header.commit_log_offset)
            if half is not None and _is_about(header, half):
                if self.batch.add(Ordinary(half, decision == "commit", peer, command), self):
                    return
            elif self.unseen.is_unseen(header.commit_log_offset):
                self.unseen.wait(partial(self._seen, peer, command), partial(self._refuse, peer, command))
                return
            self._by_record(peer, command, header, decision)
        except RefusedRequest:
            self.metrics.refused += 1
            raise

    # --- Asked: results of ordinary decisions ------------------------------------------------------------

    def decided(self, rows: list[Ordinary]) -> None:
        """See Asked."""
        for _, is_commit, peer, command in rows:
            self._count("commit" if is_commit else "rollback")
            if not command.flag & FLAG_ONEWAY:
                self._notify(peer, command, None)

    def left(self, row: Ordinary) -> None:
        """See Asked."""
        header = row.command.read(EndTransactionHeader)
        try:
            self._by_record(
                row.peer, row.command, header, DECISIONS[header.commit_or_rollback], is_ordinary=False
            )
        except RefusedRequest as refusal:
            self._refuse(row.peer, row.command, refusal)

    def refused(self, row: Ordinary, refusal: RefusedRequest) -> None:
        """See Asked."""
        self._refuse(row.peer, row.command, refusal)

    # --- the slow path -----------------------------------------------------------------------------------

    def _seen(self, peer: Peer, command: Command) -> None:
        """Continue a decision that waited for its half to become visible."""
        try:
            self.end(peer, command)
        except RefusedRequest as refusal:
            self._notify(peer, command, refusal)

    def _refuse(self, peer: Peer, command: Command, refusal: RefusedRequest) -> None:
        self.metrics.refused += 1
        self._notify(peer, command, refusal)

    def _notify(self, peer: Peer, command: Command, refusal: RefusedRequest | None) -> None:
        if not command.flag & FLAG_ONEWAY and not peer.is_closing:
            peer.send(_reply(command, refusal))

    def _by_record(
        self,
        peer: Peer,
        command: Command,
        header: EndTransactionHeader,
        decision: Decision,
        *,
        is_ordinary: bool = True,
    ) -> None:
        """Decide by the half's record in the log. Raises RefusedRequest."""
        record = self._half_at(header)
        if record is None:
            self.deferred.answer(peer, command, self._look_up(command, header, decision))
            return
        named = record.readable_properties()
        check_end(header, record, named, self.now_ms())
        half = ordinary_half(record, named) if is_ordinary else None
        if half is not None and self.batch.add(Ordinary(half, decision == "commit", peer, command), self):
            return
        offset = record.queue_offset
        outputs = [op_output(offset, OUTCOMES[decision])]
        if decision == "commit":
            outputs.insert(0, message_output(named, self.delays))
        item = SettleItem(offset, record.position, outputs, OUTCOMES[decision])
        transaction = transaction_of(record.properties)
        waiting = Waiting(peer, command, named.get(UNIQ_KEY, ""), transaction, decision)

        def done(result: SettleResult | RefusedRequest) -> None:
            self._answer(waiting, result)

        self.batch.settle(Gathered(item, record.size, record=record), record.size, done)

    def _half_at(self, header: EndTransactionHeader) -> Record | None:
        """Return the half's record at the position of the request. None if it is another record or not in memory."""
        queue = self.queues.find(HALF_TOPIC, 0)
        if queue is None:
            return None
        try:
            unit = queue.read(header.tran_state_table_offset, 1)
            position, size, _code = CONSUME_QUEUE_UNIT.unpack(unit) if unit else (-1, 0, 0)
            if position != header.commit_log_offset:
                return None
            data = self.log.read_nowait(position, size)
            return None if data is None else decode_record(data, check_crc=False)
        except (LogError, MalformedRecord, OSError):
            return None  # the slow path reports the fault

    def _answer(self, waiting: Waiting, result: SettleResult | RefusedRequest) -> None:
        refusal: RefusedRequest | None = None
        if isinstance(result, RefusedRequest):
            refusal = result
        elif result.status == SettleStatus.SETTLED:
            self._count(waiting.decision)
        elif result.status == SettleStatus.ALREADY:
            if result.outcome != OUTCOMES[waiting.decision]:
                # Decided otherwise, the decision is no longer remembered, or another copy replaced this
                # one: look up the key.
                self._resume(waiting)
                return
        else:
            refusal = not_decided(result)
        self.metrics.refused += refusal is not None
        self._notify(waiting.peer, waiting.command, refusal)

    def _resume(self, waiting: Waiting) -> None:
        command = waiting.command
        try:
            decided = self._by_key(command, waiting.key, waiting.transaction, waiting.decision)
            self.deferred.answer(waiting.peer, command, decided)
        except RefusedRequest as refusal:
            self._notify(waiting.peer, command, refusal)

    async def _by_key(
        self, command: Command, key: str, transaction: Transaction | None, decision: Decision
    ) -> bytes:
        by = f"producer group {command.read(EndTransactionHeader).producer_group}"
        try:
            order = DecideTransaction(key=key, decision=decision, by=by)
            view = await self.by_key.decide(order, transaction)
        except RefusedRequest as refusal:
            self.metrics.refused += 1
            return _reply(command, refusal)
        if view.changed:
            self._count(decision)
        return _reply(command, None)

    async def _look_up(self, command: Command, header: EndTransactionHeader, decision: Decision) -> bytes:
        """Check the record at the position of the request: it is on the disk, or not what the request says."""
        try:
            try:
                record = decode_record(await self.in_thread(self.log.read_record, header.commit_log_offset))
            except (LogError, MalformedRecord, OSError):
                raise not_found() from None
            named = record.readable_properties()
            check_end(header, record, named, self.now_ms())
        except RefusedRequest as refusal:
            self.metrics.refused += 1
            return _reply(command, refusal)
        transaction = transaction_of(record.properties)
        return await self._by_key(command, named.get(UNIQ_KEY, ""), transaction, decision)

    def _count(self, decision: Decision) -> None:
        if decision == "commit":
            self.metrics.committed += 1
        else:
            self.metrics.rolled_back += 1


def _is_about(header: EndTransactionHeader, half: Half) -> bool:
    """Whether a request passes `check_end` for an ordinary half, as far as these few comparisons show."""
    key = half.unique_key
    return (
        key in (header.transaction_id, header.msg_id)
        and header.tran_state_table_offset == half.offset
        and header.producer_group == half.kind.group
    )


def _reply(command: Command, refusal: RefusedRequest | None) -> bytes:
    if refusal is None:
        return encode_response(ResponseCode.SUCCESS, command.opaque)
    return encode_response(refusal.code, command.opaque, refusal.fields, remark=refusal.remark)
