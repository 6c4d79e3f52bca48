"""Finds a transaction by its unique key among all copies of its half, and returns its state.

Log and index say most. The copies that are known to be open say more where damage hides one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from broker_store.commit.queues import QueueTable
from broker_store.log.errors import DamagedRecord, LogError
from broker_store.ports import InThread, KeyIndex, LogReader
from broker_store.settling.decided.mark import Source, read_mark
from broker_store.transactions.half_copies import Copy, HalfCopies, Transaction, transaction_of
from broker_store.transactions.half_outputs import COMMITTED, real_queue_id
from broker_store.transactions.unseen_halves import UnseenHalves
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.messages.properties import (
    GANTRY_OUTCOME,
    PRODUCER_GROUP,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    UNIQ_KEY,
    find_property,
    index_key_hash,
)
from gantry_wire.names import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)
from gantry_wire.private_requests.transactions import BEGUN_PROPERTY, TransactionState, TransactionView
from gantry_wire.records.message_record import (
    SYS_TRANSACTION_COMMIT,
    SYS_TRANSACTION_MASK,
    Record,
    decode_record,
)
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

FOREVER_MS = 2**62
CANDIDATES_MAX = 256
"""Index entries checked: Gantry writes at most 16 copies of a half, and other keys may share the hash."""
ROUNDS_MAX = 8
"""A half may be copied or parked during the lookup or before the decision, but not this often."""
_UNIQUE, _OUTCOME = UNIQ_KEY.encode(), GANTRY_OUTCOME.encode()
_HALF_SOURCE: Source = (HALF_TOPIC, 0, "")


class IsSettled(Protocol):
    """Knows which items are decided."""

    def __call__(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether an item of a system queue is decided."""
        ...


class Found(NamedTuple):
    """A transaction: its newest half, or where it is parked, and its state."""

    state: TransactionState
    topic: str
    """System topic of `record`."""
    record: Record
    named: dict[str, str]

    def view(self, *, changed: bool = False, state: TransactionState | None = None) -> TransactionView:
        """Return what clients see of it."""
        record, named = self.record, self.named
        checks = number(named.get(TRANSACTION_CHECK_TIMES))
        begun_ms = number(named.get(BEGUN_PROPERTY))
        return TransactionView(
            key=named.get(UNIQ_KEY, ""),
            state=state or self.state,
            topic=named.get(REAL_TOPIC, ""),
            queue_id=real_queue_id(named),
            producer_group=named.get(PRODUCER_GROUP, ""),
            begun_ms=begun_ms or (record.born_timestamp if checks else record.store_timestamp),
            checks=checks,
            offset=record.queue_offset,
            position=record.position,
            changed=changed,
        )


@dataclass(frozen=True, slots=True)
class TransactionLookup:
    """Looks up transactions."""

    log: LogReader
    queues: QueueTable
    index: KeyIndex | None
    index_trouble: Callable[[], str | None]
    is_settled: IsSettled
    copies: HalfCopies
    in_thread: InThread
    unseen: UnseenHalves

    async def find(self, key: str, transaction: Transaction | None = None) -> Found:
        """Return the selected transaction with a unique key, else the newest.

        Waits for a half that is acknowledged and not yet visible. Raises RefusedRequest: QUERY_NOT_FOUND,
        or the reason why no lookup is possible.
        """
        try:
            return await self._found(key, transaction)
        except RefusedRequest as refusal:
            if refusal.code != ResponseCode.QUERY_NOT_FOUND or not self.unseen.has_any:
                raise
        await self.unseen.until_visible()
        return await self._found(key, transaction)

    async def _found(self, key: str, transaction: Transaction | None) -> Found:
        for _ in range(ROUNDS_MAX):
            found = await self._find(key, transaction)
            if found is not None:
                return found
        raise on_the_move(key)

    async def _find(self, key: str, transaction: Transaction | None) -> Found | None:
        """Look once. None when another copy of the half arrived during the reads: its state is then unknown."""
        known = self._positions(HALF_TOPIC, key)
        transaction, copies = _of(transaction, await self._records(HALF_TOPIC, key))
        ended = self.copies.outcome(transaction)
        for record in copies:
            if ended is None and not self.is_settled(HALF_TOPIC, record.queue_id, record.queue_offset):
                return _found("open", HALF_TOPIC, record)
        transaction, parked = _of(transaction, await self._records(TRANS_CHECK_MAX_TIME_TOPIC, key))
        if not copies and not parked:
            raise RefusedRequest(ResponseCode.QUERY_NOT_FOUND, f"there is no transaction {key}")
        newest = copies[0] if copies else parked[0]
        ended = self.copies.outcome(transaction)
        if ended is not None:
            return _found("committed" if ended == COMMITTED else "rolledBack", HALF_TOPIC, newest)
        for record in parked:
            if not self.is_settled(TRANS_CHECK_MAX_TIME_TOPIC, record.queue_id, record.queue_offset):
                return _found("parked", TRANS_CHECK_MAX_TIME_TOPIC, record)
        if self._positions(HALF_TOPIC, key) != known:
            return None
        return await self._hidden(transaction, newest) or await self._outcome(key, newest, [*copies, *parked])

    async def _outcome(self, key: str, newest: Record, halves: Sequence[Record]) -> Found:
        """Return how a transaction without an undecided copy ended, by the messages that commits left."""
        positions = {record.position for record in halves}
        topics = newest.readable_properties().get(REAL_TOPIC, ""), SCHEDULE_TOPIC, TIMER_TOPIC
        for topic in topics:
            if any(_is_commit_of(record, positions) for record in await self._records(topic, key)):
                return _found("committed", HALF_TOPIC, newest)
        offsets = {record.queue_offset for record in halves if record.topic == HALF_TOPIC.encode()}
        for topic in topics:
            if await self._has_commit_op(self._positions(topic, key), offsets):
                return _found("committed", HALF_TOPIC, newest)
        return _found("rolledBack", HALF_TOPIC, newest)

    async def _has_commit_op(self, positions: list[int], halves: set[int]) -> bool:
        """Whether one of these places has a damaged message, and the next op message shows that it committed a half."""
        ops = self.queues.find(OP_HALF_TOPIC, 0)
        if ops is None:
            return False
        for position in await self.in_thread(_damaged, self.log, positions):
            unit = ops.read(ops.units.offset_at(position), 1)
            if unit and await self.in_thread(
                _is_commit_op, self.log, CONSUME_QUEUE_UNIT.unpack(unit)[0], halves
            ):
                return True
        return False

    async def _hidden(self, transaction: Transaction | None, known: Record) -> Found | None:
        """Return an undecided copy that the index did not lead to, None if there is none.

        If its own record is damaged, an older copy says whose it is: it can be rolled back, and a commit names the damage.
        """
        copy = self.copies.newest(transaction)
        if copy is None:
            return None
        queue = self.queues.find(copy.topic, 0)
        unit = b"" if queue is None else queue.read(copy.offset, 1)
        if not unit:
            return None
        position = CONSUME_QUEUE_UNIT.unpack(unit)[0]
        record = await self.in_thread(_read_copy, self.log, copy, position)
        if record is None:
            record = known._replace(queue_offset=copy.offset, position=position)
        return _found("open" if copy.topic == HALF_TOPIC else "parked", copy.topic, record)

    async def _records(self, topic: str, key: str) -> list[Record]:
        """Return the records of a topic with a unique key, newest first."""
        positions = self._positions(topic, key)
        if not positions:
            return []
        return await self.in_thread(_read, self.log, positions, topic.encode(), key.encode())

    def _positions(self, topic: str, key: str) -> list[int]:
        """Return where records of a topic with a unique key may be, by the current index."""
        if self.index is None:
            remark = "transactions are found by the index, and this broker keeps none: start it with messageIndexEnable=true"
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, remark)
        trouble = self.index_trouble()
        if trouble is not None:
            raise RefusedRequest(
                ResponseCode.SERVICE_NOT_AVAILABLE, trouble, {"gantryCode": "INDEX_BUILDING"}
            )
        return list(self.index.lookup(index_key_hash(topic, key), 0, FOREVER_MS, CANDIDATES_MAX))


def on_the_move(key: str) -> RefusedRequest:
    """Return the refusal of a transaction whose half is copied at every attempt."""
    remark = f"transaction {key} is being copied; nothing was done, try again"
    return RefusedRequest(ResponseCode.SYSTEM_BUSY, remark)


def number(text: str | None) -> int:
    """Return a numeric property, 0 if it is not a number."""
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= 18
    return int(text) if text is not None and is_number else 0


def _of(transaction: Transaction | None, records: list[Record]) -> tuple[Transaction | None, list[Record]]:
    """Return the selected transaction, by default that of the newest record, with its records."""
    if transaction is None and records:
        transaction = transaction_of(records[0].properties)
    return transaction, [record for record in records if transaction_of(record.properties) == transaction]


def _found(state: TransactionState, topic: str, record: Record) -> Found:
    return Found(state, topic, record, record.readable_properties())


def _is_commit_of(record: Record, halves: set[int]) -> bool:
    """Whether a record is the message of a commit: it says so, and names its half."""
    is_commit = record.sys_flag & SYS_TRANSACTION_MASK == SYS_TRANSACTION_COMMIT
    return is_commit and record.prepared_position in halves


def _damaged(log: LogReader, positions: Sequence[int]) -> list[int]:
    """Return the positions where no record can be read because it is damaged."""
    found: list[int] = []
    for position in positions:
        try:
            log.read_record(position)
        except DamagedRecord:
            found.append(position)
        except LogError:
            continue
    return found


def _is_commit_op(log: LogReader, position: int, halves: set[int]) -> bool:
    """Whether the op message at a position belongs to the commit of one of these halves."""
    try:
        properties = decode_record(log.read_record(position)).properties
    except (LogError, WireError):
        return False
    mark = read_mark(properties)
    if mark is None or mark.source != _HALF_SOURCE or mark.offset not in halves:
        return False
    return mark.total > 1 and find_property(properties, _OUTCOME) is None


def _read_copy(log: LogReader, copy: Copy, position: int) -> Record | None:
    try:
        record = decode_record(log.read_record(position))
    except (LogError, WireError):
        return None
    is_it = record.topic == copy.topic.encode() and record.queue_offset == copy.offset
    return record if is_it else None


def _read(log: LogReader, positions: Sequence[int], topic: bytes, key: bytes) -> list[Record]:
    found: list[Record] = []
    for position in positions:
        try:
            record = decode_record(log.read_record(position))
        except (LogError, WireError):
            continue  # gone or damaged: it can be neither decided nor shown
        if record.topic == topic and find_property(record.properties, _UNIQUE) == key:
            found.append(record)
    return sorted(found, key=lambda record: record.position, reverse=True)
