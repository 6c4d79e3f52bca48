# ruff: noqa: ARG002, D102 - the Protocols say what these methods promise
"""The store's own records in the log: the preamble of each segment, and topic deletions. Built here, read by recovery.

They are messages in queue 0 of GANTRY_SYS_SEGMENT. The tag names the kind; the body is JSON:
    `offsets`  {"position":p,"part":i,"parts":n,"nextOffsets":{topic:{queue id:next offset}}}
    `deleted`  {"topic":t,"nextOffsets":{queue id:next offset}}
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from broker_store.commit.message import Arrivals, IndexEntry, Message, Mode
from broker_store.commit.queues import Queue, QueueTable
from broker_store.commit.record_writer import RecordWriter
from broker_store.commit.topics import SEGMENT_TOPIC
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.limits import BODY_BYTES_MAX
from gantry_wire.messages.properties import TAGS, format_properties, tags_code
from gantry_wire.records.message_record import build_record, decode_record

OFFSETS_TAG = "offsets"
DELETED_TAG = "deleted"
_OFFSETS_PROPERTIES = format_properties({TAGS: OFFSETS_TAG})
_DELETED_PROPERTIES = format_properties({TAGS: DELETED_TAG})


class SegmentOffsets(msgspec.Struct, rename="camel"):
    """Body of an `offsets` record."""

    position: int
    part: int
    parts: int
    next_offsets: dict[str, dict[int, int]]


class TopicDeleted(msgspec.Struct, rename="camel"):
    """Body of a `deleted` record."""

    topic: str
    next_offsets: dict[int, int]


class Clock(Protocol):
    """Store time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...


class Preambles:
    """Builds the first records of a new segment, and adds them to the group commit once the log places them."""

    def __init__(
        self,
        queues: QueueTable,
        clock: Clock,
        store_host: bytes,
        mode: Mode,
        placed: Callable[["PlacedRecord"], None],
        parts_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        """`placed` adds each placed record to the open batch."""
        self._queues = queues
        self._clock = clock
        self._store_host = store_host
        self._mode = mode
        self._bytes_max = parts_bytes_max
        self._placed = placed

    def build(self, position: int) -> list[bytes]:
        """Return the records of the segment at `position`, back to back. Uses no offset yet."""
        queue = self._queues.open(SEGMENT_TOPIC, 0)
        bodies = _bodies(position, self._queues.next_offsets(), self._bytes_max)
        now_ms, records = self._clock.now_ms(), list[bytes]()
        for number, body in enumerate(bodies):
            record = build_record(
                queue.topic_bytes,
                queue.queue_id,
                queue.next_offset + number,
                position,
                body,
                _OFFSETS_PROPERTIES,
                0,
                0,
                now_ms,
                self._store_host,
                now_ms,
                self._store_host,
            )
            records.append(record)
            position += len(record)
        return records

    def on_placed(self, position: int, record: bytes) -> None:
        """Add a record that the log has put into the open batch."""
        self._placed(PlacedRecord(self._queues.open(SEGMENT_TOPIC, 0), position, len(record), self._mode))


class PlacedRecord:
    """A record that is already in the open batch. `place` gives it its offset."""

    count = 1

    def __init__(self, queue: Queue, position: int, size: int, mode: Mode) -> None:
        self.mode = mode
        self._queue = queue
        self._position = position
        self._size = size
        self._offset = -1

    def place(self, at: RecordWriter) -> None:
        self._offset = at.adopt(self._queue, self._position)

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        self._queue.units.append(self._offset, self._position, self._size, tags_code(OFFSETS_TAG))

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        """Do nothing: nobody waits for it."""

    def refuse(self, refusal: RefusedRequest) -> None:
        """Do nothing: nobody waits for it."""


class TopicDeletion(Message):
    """The record of a topic's deletion. Its body is built when it is placed, because messages may still precede it."""

    __slots__ = ("_deleted", "_done", "_queues")

    def __init__(
        self,
        queues: QueueTable,
        topic: str,
        now_ms: int,
        store_host: bytes,
        done: Callable[[RefusedRequest | None], None],
    ) -> None:
        queue = queues.open(SEGMENT_TOPIC, 0)
        code = tags_code(DELETED_TAG)
        super().__init__(
            queue, b"", _DELETED_PROPERTIES, code, "", None, Mode.SYNC, None, 0, 0, 0, now_ms, store_host, 0
        )
        self._queues = queues
        self._deleted = topic
        self._done = done

    def place(self, at: RecordWriter) -> None:
        next_offsets = self._queues.next_offsets().get(self._deleted, {})
        self.body = msgspec.json.encode(TopicDeleted(self._deleted, next_offsets))
        super().place(at)

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        if not code:
            self._done(None)

    def refuse(self, refusal: RefusedRequest) -> None:
        self._done(refusal)


def read_system_record(record: bytes) -> SegmentOffsets | TopicDeleted | None:
    """Return the content of a record of GANTRY_SYS_SEGMENT. None for a record of another version."""
    decoded = decode_record(record)
    kind: Any = {OFFSETS_TAG: SegmentOffsets, DELETED_TAG: TopicDeleted}.get(
        decoded.property_map().get(TAGS, "")
    )
    return None if kind is None else msgspec.json.decode(decoded.body, type=kind)


def _bodies(position: int, next_offsets: dict[str, dict[int, int]], bytes_max: int) -> list[bytes]:
    """Split a table of offsets into bodies below the size limit."""
    parts: list[dict[str, dict[int, int]]] = [{}]
    size = 0
    for topic, of_topic in next_offsets.items():
        topic_bytes = len(topic.encode()) + 8
        size += topic_bytes
        for queue_id, offset in of_topic.items():
            entry_bytes = len(str(queue_id)) + len(str(offset)) + 4
            if size + entry_bytes > bytes_max - _ENVELOPE_BYTES:
                parts.append({})
                size = topic_bytes
            size += entry_bytes
            parts[-1].setdefault(topic, {})[queue_id] = offset
    bodies = [
        msgspec.json.encode(SegmentOffsets(position, number, len(parts), part))
        for number, part in enumerate(parts)
    ]
    assert all(len(body) <= bytes_max for body in bodies)
    return bodies


_ENVELOPE_BYTES = 128
