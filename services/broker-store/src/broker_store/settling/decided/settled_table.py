"""Which items of all queues are decided, and recent decisions with their outcomes. A derived state: known from the log alone.

An item is decided when a record with its mark is visible (mark.py), or, for a half message, when
an op message of another RocketMQ broker names it. Knows no claim and no request.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from broker_store.commit.queues import Queue, QueueTable
from broker_store.commit.topics import MARKS_TOPIC, PINNED_TOPICS
from broker_store.derived import ReadLog
from broker_store.log.commit_log.scan import ScannedRecord
from broker_store.log.errors import LogError
from broker_store.settling.decided.mark import MARK, Source, read_mark
from broker_store.settling.decided.settled_queue import SettledQueue
from gantry_wire.errors import WireError
from gantry_wire.messages.properties import find_property
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC
from gantry_wire.private_requests.settling import OutputPlace
from gantry_wire.records.message_record import decode_record
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

DECISIONS_KEPT = 16_384
"""Latest decisions whose outputs are remembered: at least this many, at most twice as many (about 10 MB)."""
HOLE_SIZE = 0x7FFFFFFF
FLOOR_TAG = b"floor"
"""Tag of a mark record that means: everything below this offset is decided. Written after another broker's run."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Outcome of an item. In memory only, and only for a while."""

    outputs: list[OutputPlace]
    outcome: str
    time_ms: int


class Decided(Protocol):
    """A decision, in any form."""

    @property
    def outputs(self) -> list[OutputPlace]:
        """Where its messages are."""
        ...

    @property
    def outcome(self) -> str:
        """Outcome in a word."""
        ...

    @property
    def time_ms(self) -> int:
        """Store time of the write."""
        ...


class Pinned(NamedTuple):
    """An undecided item that keeps its part of the log, and where its unit says that its record lies."""

    queue: Queue
    offset: int
    position: int
    size: int


class Saved(msgspec.Struct, array_like=True):
    """One queue in the snapshot."""

    topic: str
    queue_id: int
    group: str
    cursor: int
    pages: list[tuple[int, bytes]]


class SettledTable:
    """Decided items by source."""

    name = "settled"
    topics = frozenset({OP_HALF_TOPIC, MARKS_TOPIC})

    def __init__(self, queues: QueueTable) -> None:
        self._queues = queues
        self._settled: dict[Source, SettledQueue] = {}
        self._decisions: dict[tuple[Source, int], Decided] = {}
        self._older: dict[tuple[Source, int], Decided] = {}
        """Older decisions. Dropped together when as many newer ones are known."""
        self.foreign_floors: dict[Source, int] = {}
        """Cursors of another broker's run that are not in the log yet."""
        self.changes = 0
        """Grows with every decision. Holders of cursor copies compare it."""

    # --- queries -----------------------------------------------------------------------------------------

    def of(self, source: Source) -> SettledQueue:
        """Return the decided items of a queue. Its cursor is behind what retention removed and what damage destroyed."""
        settled = self._settled.get(source) or SettledQueue()  # a query leaves nothing behind
        queue = self._queues.find(source[0], source[1])
        if queue is not None:
            settled.raise_cursor(queue.min_offset)
            _pass_holes(settled, queue)
        return settled

    def cursor(self, source: Source) -> int:
        """Return the lowest undecided offset by decisions alone.

        `of` also checks the queue, which is too slow for each answer.
        """
        settled = self._settled.get(source)
        return 0 if settled is None else settled.cursor

    def is_settled(self, source: Source, offset: int) -> bool:
        """Whether a visible record decides an item."""
        settled = self._settled.get(source)
        return settled is not None and settled.is_settled(offset)

    def decided_of(self, source: Source) -> Callable[[int], bool]:
        """Return `is_settled` of one queue, for many offsets. Valid until something is decided."""
        settled = self._settled.get(source)
        return _undecided if settled is None else settled.is_settled

    def known(self, source: Source) -> bool:
        """Whether anything of this queue and group was ever decided."""
        return source in self._settled

    def groups(self, topic: str, queue_id: int) -> list[str]:
        """Return the groups that decided something of a queue."""
        return [
            group for of_topic, of_queue, group in self._settled if (of_topic, of_queue) == (topic, queue_id)
        ]

    def decision(self, source: Source, offset: int) -> Decided | None:
        """Return an item's outcome if it is still remembered."""
        key = (source, offset)
        return self._decisions.get(key) or self._older.get(key)

    # --- changes -------------------------------------------------------------------------------------------

    def settle(self, source: Source, offset: int, decision: Decided) -> None:
        """Record a decision whose records are visible."""
        self.settle_all(source, [(offset, decision)])

    def settle_all(self, source: Source, decided: Sequence[tuple[int, Decided]]) -> None:
        """Record the decisions of one request, whose records are visible."""
        if not decided:
            return
        settled = self._settled.get(source)
        if settled is None:
            settled = self._settled[source] = SettledQueue()
        settled.settle_all([offset for offset, _ in decided])
        self.changes += len(decided)
        if len(self._decisions) >= DECISIONS_KEPT:
            self._older, self._decisions = self._decisions, {}
        self._decisions.update([((source, offset), decision) for offset, decision in decided])

    def raise_cursor(self, source: Source, offset: int) -> None:
        """Count everything below an offset as decided."""
        self._settled.setdefault(source, SettledQueue()).raise_cursor(offset)
        self.changes += 1

    def take_foreign_floor(self, source: Source, offset: int) -> None:
        """Count what another broker decided. It is logged once the store writes."""
        if offset > self.of(source).cursor:
            self.raise_cursor(source, offset)
            self.foreign_floors[source] = offset

    # --- a derived state -----------------------------------------------------------------------------------

    def wants(self, topic: str, properties: bytes) -> bool:
        """See Derived: outcomes of items, and op messages, which may come from another broker."""
        return MARK in properties or topic == OP_HALF_TOPIC

    def take(self, record: ScannedRecord, read: ReadLog) -> None:
        """See Derived."""
        position, _, queue_id, offset, _, store_ms, _, topic, properties = record
        mark = read_mark(properties)
        if mark is None:
            if topic == OP_HALF_TOPIC.encode():
                self._take_foreign_op(record, read)
            return
        name = topic.decode(errors="replace")
        if name == MARKS_TOPIC and find_property(properties, b"TAGS") == FLOOR_TAG:
            self.raise_cursor(mark.source, mark.offset)
            return
        known = self.decision(mark.source, mark.offset)
        outputs = [] if known is None else known.outputs
        if name != MARKS_TOPIC and all(place.position != position for place in outputs):
            outputs = [*outputs, OutputPlace(name, queue_id, offset, position)]
        self.settle(mark.source, mark.offset, Decision(outputs, "", store_ms))

    def topic_deleted(self, topic: str) -> None:
        """See Derived."""
        for source in [source for source in self._settled if source[0] == topic]:
            del self._settled[source]
        for decisions in (self._decisions, self._older):
            for key in [key for key in decisions if key[0][0] == topic]:
                del decisions[key]

    def slices(self, position: int) -> Iterator[bytes]:
        """See Derived: one part."""
        yield self.snapshot(position)

    def snapshot(self, position: int) -> bytes:  # noqa: ARG002 - it holds everything visible
        """Return the current state."""
        saved = [
            Saved(topic, queue_id, group, settled.cursor, settled.packed())
            for (topic, queue_id, group), settled in self._settled.items()
        ]
        return msgspec.msgpack.encode(saved)

    def load(self, data: bytes | None, position: int) -> bool:  # noqa: ARG002 - replaying its content changes nothing
        """See Derived."""
        self._settled.clear()
        if data is None:
            return True
        try:
            for saved in msgspec.msgpack.decode(data, type=list[Saved]):
                settled = self._settled[(saved.topic, saved.queue_id, saved.group)] = SettledQueue(
                    saved.cursor
                )
                settled.unpack(saved.pages)
        except (msgspec.MsgspecError, ValueError, IndexError):
            self._settled.clear()
            return False
        return True

    def pin(self) -> int | None:
        """See Derived: the lowest undecided item of a system queue."""
        return min([item.position for item in self.pinned()], default=None)

    def pinned(self) -> list[Pinned]:
        """Return the lowest undecided item of each system queue whose items keep the log."""
        pinned: list[Pinned] = []
        for queue in [queue for topic in PINNED_TOPICS for queue in self._queues.of_topic(topic)]:
            offset = self.of((queue.topic, queue.queue_id, "")).cursor
            unit = queue.read(offset, 1)
            if unit:
                position, size, _ = CONSUME_QUEUE_UNIT.unpack(unit)
                pinned.append(Pinned(queue, offset, position, size))
        return pinned

    def _take_foreign_op(self, record: ScannedRecord, read: ReadLog) -> None:
        """Replay an op message without a Gantry mark: its body lists the halves it decides, as RocketMQ writes it."""
        try:
            body = decode_record(read(record[0], record[1])).body
        except (LogError, WireError):
            return
        for text in body.split(b","):
            if text.isdigit():
                self.settle((HALF_TOPIC, record[2], ""), int(text), Decision([], "", record[5]))


def _undecided(_offset: int) -> bool:
    return False


def _pass_holes(settled: SettledQueue, queue: Queue) -> None:
    """Count units without a record as decided: they can have no outcome."""
    while settled.cursor < queue.max_offset:
        unit = queue.read(settled.cursor, 1)
        if not unit or CONSUME_QUEUE_UNIT.unpack(unit)[1] != HOLE_SIZE:
            return
        settled.settle(settled.cursor)
