"""Which halves are copies of one transaction, and how recently decided transactions ended. A derived state.

A client without an answer sends its half again, a check writes the next copy, and parking writes one more.
Copies of one producer group, topic and unique key are one transaction: a decision about one copy decides
all, and the first decision counts. A half without a unique key is its own transaction.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from broker_store.commit.queues import QueueTable
from broker_store.commit.topics import MARKS_TOPIC
from broker_store.derived import ReadLog
from broker_store.log.commit_log.scan import ScannedRecord
from broker_store.log.errors import LogError
from broker_store.settling.decided.mark import MARK, Mark, Source, read_mark
from broker_store.settling.decided.settled_table import FLOOR_TAG, Decided, Decision, SettledTable
from broker_store.settling.request.outcomes import CopyDecision
from broker_store.transactions.half_outputs import AUDIT_TOPIC, COMMITTED, ROLLED_BACK
from gantry_wire.errors import WireError
from gantry_wire.messages.properties import (
    GANTRY_OUTCOME,
    PRODUCER_GROUP,
    REAL_TOPIC,
    UNIQ_KEY,
    find_property,
)
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from gantry_wire.records.half_message import ROLLED_BACK_OUTCOME
from gantry_wire.records.message_record import decode_record

DECIDED_KEPT = 16_384
"""Recently decided transactions to remember, so that a late copy is recognized: about 5 MB, 1 MB in a snapshot."""
ROWS_PER_SLICE = 2048
"""Rows per part of a snapshot: about a millisecond."""
COPY_TOPICS = frozenset({HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC})
"""Topics where copies wait for a decision."""
_DECIDING = frozenset({COMMITTED, ROLLED_BACK})
_GROUP, _TOPIC, _KEY, _OUTCOME = (
    name.encode() for name in (PRODUCER_GROUP, REAL_TOPIC, UNIQ_KEY, GANTRY_OUTCOME)
)
_ROLLED_BACK_OP = ROLLED_BACK_OUTCOME.encode()
_MARKED_HALF, _MARKED_PARKED = (b"%b%b:" % (MARK, topic.encode()) for topic in sorted(COPY_TOPICS))
_NONE: frozenset[int] = frozenset()

Transaction = tuple[str, str, str]
"""Producer group, topic and unique key."""


class Copy(NamedTuple):
    """An undecided copy."""

    topic: str
    """One of COPY_TOPICS."""
    offset: int


class _Saved(msgspec.Struct, array_like=True):
    """One part of the snapshot."""

    copies: list[tuple[int, str, str, str]] = []
    """Place (see _place), producer group, topic, unique key."""
    decided: list[tuple[str, str, str, bool]] = []
    """Producer group, topic, unique key, whether it was committed; in the order of the decisions."""


def transaction_of(properties: bytes) -> Transaction | None:
    """Return the transaction of stored properties, None without a unique key."""
    key = find_property(properties, _KEY)
    if key is None:
        return None
    group, topic = find_property(properties, _GROUP) or b"", find_property(properties, _TOPIC) or b""
    return group.decode(errors="replace"), topic.decode(errors="replace"), key.decode(errors="replace")


class HalfCopies:
    """Undecided copies (about 350 bytes each, bounded by what producers leave open), and the latest decisions."""

    name = "transactions"
    topics = frozenset({*COPY_TOPICS, OP_HALF_TOPIC, MARKS_TOPIC})

    def __init__(self, queues: QueueTable, settled: SettledTable) -> None:
        self._queues = queues
        self._settled = settled
        self._open: dict[int, Transaction] = {}
        """By place of the copy."""
        self._copies: dict[Transaction, tuple[int, ...]] = {}
        """Places of each transaction's undecided copies."""
        self._with_copies: dict[str, set[int]] = {topic: set() for topic in COPY_TOPICS}
        """Offsets of undecided copies whose transaction has other copies or is decided."""
        self._decided: dict[Transaction, str] = {}
        self._order: deque[Transaction] = deque()
        """Decided transactions in order of decision."""
        self._presumed: set[Transaction] = set()
        """Transactions that a replay counts as rolled back because it found no copy of them any more. Damage may hide one."""

    # --- queries -----------------------------------------------------------------------------------------

    def with_copies(self, source: Source) -> set[int] | frozenset[int]:
        """See ItemCopies."""
        return self._with_copies.get(source[0], _NONE)

    def decision_of_copy(
        self, source: Source, offset: int, deciding: Mapping[Source, Mapping[int, Decided]]
    ) -> CopyDecision | None:
        """See ItemCopies."""
        transaction = self._open.get(_place(source[0], offset))
        if transaction is None:
            return None
        outcome = self._decided.get(transaction)
        if outcome is not None:
            return CopyDecision(Decision([], outcome, 0), is_visible=True)
        for topic, other in map(_copy, self._copies[transaction]):
            known = deciding.get((topic, 0, ""), {}).get(other)
            if known is not None and known.outcome in _DECIDING:
                return CopyDecision(known, is_visible=False)
        return None

    def is_alone(self, source: Source, offset: int) -> bool:
        """See ItemCopies."""
        is_open = source[0] in COPY_TOPICS and _place(source[0], offset) in self._open
        return is_open and offset not in self._with_copies[source[0]]

    def outcome(self, transaction: Transaction | None) -> str | None:
        """Return how a recently decided transaction ended."""
        return None if transaction is None else self._decided.get(transaction)

    def newest(self, transaction: Transaction | None) -> Copy | None:
        """Return the copy that a transaction waits in, None if it is not open or has no unique key."""
        places = () if transaction is None else self._copies.get(transaction, ())
        return next((_copy(place) for place in reversed(places) if not self._is_gone(place)), None)

    def late_copies(self, count_max: int) -> list[Copy]:
        """Return copies whose transaction is decided.

        They can have no outcome, and would keep the log from being deleted.
        """
        found = (
            Copy(topic, offset)
            for topic, offsets in self._with_copies.items()
            for offset in offsets
            if self._open[_place(topic, offset)] in self._decided
        )
        return list(islice(found, count_max))

    # --- changes, by records that became visible ---------------------------------------------------------

    def seen(self, offset: int, transaction: Transaction) -> None:
        """Record a sent half."""
        self._add(offset, transaction)

    def seen_all(self, halves: Iterable[tuple[int, Transaction]]) -> None:
        """Record the halves of one run of sends."""
        opened, copies, decided = self._open, self._copies, self._decided
        for offset, transaction in halves:
            if transaction in copies or transaction in decided:
                self._add(offset, transaction)
            else:
                opened[offset] = transaction
                copies[transaction] = (offset,)

    def decided(self, source: Source, decided: Sequence[tuple[int, Decided]]) -> None:
        """See ItemCopies."""
        if source[0] not in COPY_TOPICS:
            return
        opened, copies, ended, with_copies = (
            self._open,
            self._copies,
            self._decided,
            self._with_copies[source[0]],
        )
        is_half, order = source[0] == HALF_TOPIC, self._order
        for offset, decision in decided:
            place = offset if is_half else ~offset
            outcome = decision.outcome
            if offset not in with_copies and outcome in _DECIDING and place in opened:  # nearly all
                transaction = opened.pop(place)
                del copies[transaction]
                ended[transaction] = outcome
                order.append(transaction)
                if len(order) > DECIDED_KEPT:
                    self._forget_oldest()
                continue
            transaction = self._leave(place)
            if transaction is None:
                continue
            if outcome in _DECIDING:
                self._decide(transaction, outcome)
                continue
            for output in decision.outputs:
                if output.topic in COPY_TOPICS:
                    self._add(_place(output.topic, output.queue_offset), transaction)
            self._decide_if_none_is_left(transaction)

    # --- a derived state -----------------------------------------------------------------------------------

    def wants(self, topic: str, properties: bytes) -> bool:
        """See Derived: halves, parked halves, and the outcomes of both."""
        return (
            topic in COPY_TOPICS
            or topic == OP_HALF_TOPIC
            or _MARKED_HALF in properties
            or _MARKED_PARKED in properties
        )

    def take(self, record: ScannedRecord, read: ReadLog) -> None:
        """See Derived."""
        properties = record[8]
        topic, mark = record[7].decode(errors="replace"), read_mark(properties)
        if mark is not None and mark.source[0] not in COPY_TOPICS:
            mark = None
        if topic in COPY_TOPICS:
            if mark is not None:
                self._leave(_place(mark.source[0], mark.offset))
            transaction = transaction_of(properties)
            if transaction is not None:
                self._withdraw(transaction)
                self._add(_place(topic, record[3]), transaction)
        elif mark is not None:
            self._take_outcome(topic, mark, record, read)
        elif topic == OP_HALF_TOPIC:
            self._take_foreign_op(record, read)

    def topic_deleted(self, topic: str) -> None:
        """See Derived: halves outlive the topic they were sent to."""

    def slices(self, position: int) -> Iterator[bytes]:  # noqa: ARG002 - it holds everything visible
        """See Derived. Decisions come last: a copy that is decided between two parts is found there."""
        places = list(self._open)
        for at in range(0, len(places), ROWS_PER_SLICE):
            part = places[at : at + ROWS_PER_SLICE]
            for place in filter(self._is_gone, part):
                self._leave(place)
            rows = ((place, self._open.get(place)) for place in part)
            yield _part(_Saved(copies=[(place, *of) for place, of in rows if of is not None]))
        decided = list(self._decided_rows())
        for at in range(0, len(decided), ROWS_PER_SLICE):
            yield _part(_Saved(decided=decided[at : at + ROWS_PER_SLICE]))

    def load(self, data: bytes | None, position: int) -> bool:  # noqa: ARG002 - replaying its content changes nothing
        """See Derived."""
        self._clear()
        try:
            for saved in _parts(data or b""):
                for place, group, topic, key in saved.copies:
                    if not self._is_gone(place):
                        self._add(place, (group, topic, key))
                for group, topic, key, is_committed in saved.decided:
                    self._decide((group, topic, key), COMMITTED if is_committed else ROLLED_BACK)
        except (msgspec.MsgspecError, ValueError):
            self._clear()
            return False
        return True

    def pin(self) -> int | None:
        """See Derived: undecided copies are items, which keep their records themselves."""
        return None

    def known(self) -> tuple[dict[Copy, Transaction], list[tuple[str, str, str, bool]]]:
        """Return undecided copies, and decisions in their order."""
        copies = {_copy(place): of for place, of in self._open.items() if not self._is_gone(place)}
        return copies, list(self._decided_rows())

    # --- the rules -----------------------------------------------------------------------------------------

    def _add(self, place: int, transaction: Transaction) -> None:
        if place in self._open:
            return
        others = self._copies.get(transaction, ())
        self._open[place] = transaction
        self._copies[transaction] = places = (*others, place)
        if others or transaction in self._decided:
            for topic, offset in map(_copy, places):
                self._with_copies[topic].add(offset)

    def _is_gone(self, place: int) -> bool:
        """Whether a copy is no longer an item though nothing decided it: retention removed it, or another broker decided it."""
        topic, offset = _copy(place)
        queue = self._queues.find(topic, 0)
        is_removed = queue is not None and offset < queue.min_offset
        return is_removed or self._settled.is_settled((topic, 0, ""), offset)

    def _leave(self, place: int) -> Transaction | None:
        """Remove a finished copy. Returns its transaction."""
        transaction = self._open.pop(place, None)
        if transaction is None:
            return None
        copies = self._copies[transaction]
        if len(copies) == 1:
            del self._copies[transaction]
        else:
            left = self._copies[transaction] = tuple(other for other in copies if other != place)
            if len(left) == 1 and transaction not in self._decided:
                topic, offset = _copy(left[0])
                self._with_copies[topic].discard(offset)
        topic, offset = _copy(place)
        self._with_copies[topic].discard(offset)
        return transaction

    def _decide(self, transaction: Transaction, outcome: str) -> None:
        if transaction in self._decided:
            return  # the first decision counts
        self._decided[transaction] = outcome
        self._order.append(transaction)
        for topic, offset in map(_copy, self._copies.get(transaction, ())):
            self._with_copies[topic].add(offset)
        if len(self._order) > DECIDED_KEPT:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = self._order.popleft()
        if oldest in self._copies:
            self._order.append(oldest)  # one of its copies is not finished yet
        else:
            del self._decided[oldest]
            self._presumed.discard(oldest)

    def _decide_if_none_is_left(self, transaction: Transaction) -> None:
        """Count a transaction as rolled back when its last copy is gone without a message."""
        if transaction not in self._copies:
            self._decide(transaction, ROLLED_BACK)

    # --- replay --------------------------------------------------------------------------------------------

    def _presume(self, transaction: Transaction) -> None:
        """Replay the end of a copy that others should follow. If there are none, its transaction counts as rolled back.

        Not for good: where damage hides the next copy, what results from that one may follow.
        """
        if transaction not in self._copies and transaction not in self._decided:
            self._presumed.add(transaction)
            self._decide(transaction, ROLLED_BACK)

    def _withdraw(self, transaction: Transaction) -> None:
        """Forget a presumed rollback: a later copy or message shows that the transaction had not ended."""
        if transaction in self._presumed:
            self._presumed.remove(transaction)
            del self._decided[transaction]
            self._order.remove(transaction)

    def _take_outcome(self, topic: str, mark: Mark, record: ScannedRecord, read: ReadLog) -> None:
        """Replay a record that results from a copy and is not a copy itself."""
        properties = record[8]
        if topic == MARKS_TOPIC:
            self._take_mark_record(mark, record, read)
            return
        if topic == AUDIT_TOPIC and mark.source[0] == HALF_TOPIC:
            return  # the op message after it holds the outcome of the half
        left = self._leave(_place(mark.source[0], mark.offset))
        if topic == OP_HALF_TOPIC:
            if left is not None:
                self._take_op(left, mark, properties)
        elif topic == AUDIT_TOPIC:
            if left is not None:  # a commit's message precedes its audit record, and may be damaged
                self._decide(left, COMMITTED if mark.total > 1 else ROLLED_BACK)
        elif (transaction := left or transaction_of(properties)) is not None:
            self._withdraw(transaction)
            self._decide(transaction, COMMITTED)

    def _take_op(self, transaction: Transaction, mark: Mark, properties: bytes) -> None:
        """Replay the op message of a copy whose outcome is not known yet: no message and no next copy preceded it.

        As the last of several records it says what the damaged one before it was.
        """
        outcome = find_property(properties, _OUTCOME)
        if outcome == _ROLLED_BACK_OP:
            self._decide(transaction, ROLLED_BACK)
        elif outcome is None and mark.total > 1:
            self._decide(transaction, COMMITTED)
        else:
            self._presume(transaction)

    def _take_mark_record(self, mark: Mark, record: ScannedRecord, read: ReadLog) -> None:
        if find_property(record[8], b"TAGS") == FLOOR_TAG:
            for place in [place for place in self._open if _is_below(place, mark)]:
                self._leave(place)
            return
        left = self._leave(_place(mark.source[0], mark.offset))
        outcome = _body(record, read).decode(errors="replace")
        if left is None:
            return
        if outcome in _DECIDING:
            self._decide(left, outcome)
        elif mark.total == 1:
            self._presume(left)

    def _take_foreign_op(self, record: ScannedRecord, read: ReadLog) -> None:
        """Replay an op message of another RocketMQ broker. Its decision is unknown."""
        for text in _body(record, read).split(b","):
            if text.isdigit():
                self._leave(int(text))

    def _decided_rows(self) -> Iterator[tuple[str, str, str, bool]]:
        decided = self._decided
        return ((*transaction, decided[transaction] == COMMITTED) for transaction in self._order)

    def _clear(self) -> None:
        self._open.clear()
        self._copies.clear()
        self._decided.clear()
        self._order.clear()
        self._presumed.clear()
        for offsets in self._with_copies.values():
            offsets.clear()


def _place(topic: str, offset: int) -> int:
    """Return a copy as one number, negative where it is parked."""
    return offset if topic == HALF_TOPIC else ~offset


def _copy(place: int) -> Copy:
    return Copy(HALF_TOPIC, place) if place >= 0 else Copy(TRANS_CHECK_MAX_TIME_TOPIC, ~place)


def _is_below(place: int, floor: Mark) -> bool:
    topic, offset = _copy(place)
    return topic == floor.source[0] and offset < floor.offset


def _body(record: ScannedRecord, read: ReadLog) -> bytes:
    try:
        return decode_record(read(record[0], record[1])).body
    except (LogError, WireError):
        return b""


def _part(saved: _Saved) -> bytes:
    data = msgspec.msgpack.encode(saved)
    return len(data).to_bytes(4, "big") + data


def _parts(data: bytes) -> Iterator[_Saved]:
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        yield msgspec.msgpack.decode(data[at + 4 : end], type=_Saved)
        at = end
