"""Takes the records that recovery finds back into queues, index and idempotency window. Doing so twice changes nothing.

Runs once per record of a rebuild, so it looks at property bytes only for what they may hold.
"""

from collections.abc import Callable, Sequence

from broker_store.delays.levels import DEFAULT, LevelList
from broker_store.derived import PROPERTY_PREFIX, Covered, ReadLog
from broker_store.dispatch import KeyIndexWriter
from broker_store.idempotency import Remembered, Window, content_crc, key_digest
from broker_store.log.scan import ScannedRecord
from broker_store.message import IndexEntry, key_entries
from broker_store.queues import Queue, QueueTable
from broker_store.settling.mark import MARK
from broker_store.system_records import SegmentOffsets, TopicDeleted
from broker_store.topics import SEGMENT_TOPIC
from gantry_wire.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.properties import (
    DELAY,
    GANTRY_KEY,
    REAL_TOPIC,
    find_property,
    index_key_hash,
    index_key_hashes,
    parse_properties,
    tags_code,
)
from gantry_wire.record import SYS_TRANSACTION_MASK, SYS_TRANSACTION_PREPARED, SYS_TRANSACTION_ROLLBACK

SKIPPED_OFFSETS_MAX = 4096
"""A damaged record that claims an offset further ahead is not believed."""
_UNDISPATCHED = frozenset({SYS_TRANSACTION_PREPARED, SYS_TRANSACTION_ROLLBACK})
_SPECIAL_TOPICS = frozenset({SCHEDULE_TOPIC, SEGMENT_TOPIC})
_WAITING_TOPICS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC})
_UNIQUE_MARK = b"UNIQ_KEY\x01"
_UNIQUE_SIZE = len(_UNIQUE_MARK)
_END = b"\x02"
_KEYS_MARK = b"KEYS\x01"
_TAGS_MARK = b"TAGS\x01"
_GANTRY_MARK = GANTRY_KEY.encode() + b"\x01"

ReadSystem = Callable[[int, int], SegmentOffsets | TopicDeleted | None]
"""Reads our own record at (position, size)."""


class _Run:
    """Plain records of one queue, found one after the other, that are not yet in its units."""

    __slots__ = ("end", "is_special", "positions", "queue", "sizes", "tags_codes")

    def __init__(self, queue: Queue, is_special: bool) -> None:
        self.queue = queue
        self.is_special = is_special
        self.end = queue.units.max_offset
        self.positions: list[int] = []
        self.sizes: list[int] = []
        self.tags_codes: list[int] = []


class _Plain:
    """What plain records of a slice add to queues and index, gathered."""

    def __init__(self) -> None:
        self.runs: dict[tuple[bytes, int], _Run] = {}
        self.index: list[IndexEntry] = []
        self.topic = ""
        self.keys: list[str] = []
        self.places: list[tuple[int, int]] = []

    def finish(self) -> None:
        """Bring everything gathered to where it belongs."""
        self.finish_keys(self.topic)
        for run in self.runs.values():
            if run.positions:
                run.queue.units.append_all(
                    run.end - len(run.positions), run.positions, run.sizes, run.tags_codes
                )
        self.runs.clear()

    def finish_keys(self, topic: str) -> None:
        """Add the unique keys gathered to the index entries; those to come are of `topic`."""
        if self.keys:
            hashes = index_key_hashes(self.topic, self.keys)
            self.index += [(hashed, *place) for hashed, place in zip(hashes, self.places, strict=True)]
            self.keys, self.places = [], []
        self.topic = topic


class Restore:
    """Feeds found records to the derived parts, in log order."""

    def __init__(
        self,
        queues: QueueTable,
        index: KeyIndexWriter | None,
        window: Window,
        read_system: ReadSystem,
        on_deleted: Callable[[str, int], None],
        levels: LevelList = DEFAULT,
        states: Sequence[Covered] = (),
        read: ReadLog | None = None,
    ) -> None:
        self._queues = queues
        self._index = index
        self._window = window
        self._read_system = read_system
        self._on_deleted = on_deleted
        self._levels = levels
        self._states = states
        self._read = read
        self._special = _SPECIAL_TOPICS.union(*(covered.state.topics for covered in states))
        self._by_name: dict[tuple[bytes, int], Queue] = {}
        self.newest_store_ms = 0
        self.records = 0
        self.holes = 0

    def take(self, records: list[ScannedRecord]) -> None:
        """Take records in. Plain ones that follow each other in their queues are gathered and taken in together."""
        plain = _Plain()
        runs = plain.runs
        for record in records:
            position, size, queue_id, offset, sys_flag, store_ms, _, topic, properties = record
            run = runs.get((topic, queue_id))
            if run is None:
                queue = self._by_name.get((topic, queue_id)) or self._open(topic, queue_id)
                run = runs[topic, queue_id] = _Run(queue, queue.topic in self._special)
            if (
                sys_flag & SYS_TRANSACTION_MASK
                or run.is_special
                or offset != run.end
                or PROPERTY_PREFIX in properties
            ):
                plain.finish()  # what may change queues and tables finds them as they were at its place in the log
                self._take_one(run.queue, record, plain.index)
                continue
            run.positions.append(position)
            run.sizes.append(size)
            tag = find_property(properties, b"TAGS") if _TAGS_MARK in properties else None
            run.tags_codes.append(tags_code(tag) if tag else 0)
            run.end = offset + 1
            if properties.startswith(_UNIQUE_MARK) and _KEYS_MARK not in properties:
                end = properties.find(_END, _UNIQUE_SIZE)
                key = properties[_UNIQUE_SIZE : end if end > 0 else None].decode(errors="replace")
                if run.queue.topic != plain.topic:
                    plain.finish_keys(run.queue.topic)
                plain.keys.append(key)
                plain.places.append((position, store_ms))
            else:
                plain.finish_keys(run.queue.topic)
                _add_unique_key(plain.index, run.queue.topic, properties, position, store_ms)
                _add_keys(plain.index, run.queue.topic, properties, position, store_ms)
        plain.finish()
        if records:
            self.newest_store_ms = max(self.newest_store_ms, *[record[5] for record in records])
        self.records += len(records)
        if plain.index and self._index is not None:
            self._index.put(plain.index)

    def _take_one(self, queue: Queue, record: ScannedRecord, index: list[IndexEntry]) -> None:
        """Take in a record by itself: a special one, or a plain one that does not follow the last of its queue."""
        position, size, _, offset, sys_flag, store_ms, _, _, properties = record
        if sys_flag & SYS_TRANSACTION_MASK or queue.topic in self._special or PROPERTY_PREFIX in properties:
            self._take_special(queue, record, index)
            return
        self.holes += queue.units.append(offset, position, size, self._code(queue, properties, store_ms))
        _add_unique_key(index, queue.topic, properties, position, store_ms)
        _add_keys(index, queue.topic, properties, position, store_ms)

    def _take_special(self, queue: Queue, record: ScannedRecord, index: list[IndexEntry]) -> None:
        """Take in what is no plain message: of a transaction, of a system topic, or with a property of ours."""
        position, size, _, offset, sys_flag, store_ms, body_crc, _, properties = record
        kind = sys_flag & SYS_TRANSACTION_MASK
        if kind not in _UNDISPATCHED:
            self.holes += queue.units.append(offset, position, size, self._code(queue, properties, store_ms))
        if kind != SYS_TRANSACTION_ROLLBACK:
            _add_unique_key(index, queue.topic, properties, position, store_ms)
            _add_keys(index, queue.topic, properties, position, store_ms)
        if (
            _GANTRY_MARK in properties and MARK not in properties
        ):  # what an item results in passes by the window
            self._remember(queue, properties, (body_crc, store_ms, position, offset))
        if queue.topic == SEGMENT_TOPIC:
            self._apply_system(position, size, store_ms)
        for state, covered in self._states:
            if position >= covered and state.wants(queue.topic, properties):
                assert self._read is not None
                state.take(record, self._read)

    def leave_hole(self, suspect: ScannedRecord) -> None:
        """Keep the offset of a damaged record out of use: its message was acknowledged under it."""
        queue_id, offset, topic = suspect[2], suspect[3], suspect[7]
        queue = self._by_name.get((topic, queue_id)) or self._open(topic, queue_id)
        if 0 <= offset - queue.units.max_offset < SKIPPED_OFFSETS_MAX:
            queue.units.start_at(offset + 1)
            self.holes += 1

    def _open(self, topic: bytes, queue_id: int) -> Queue:
        queue = self._queues.open(topic.decode(errors="replace"), queue_id)
        self._by_name[(topic, queue_id)] = queue
        return queue

    def _code(self, queue: Queue, properties: bytes, store_ms: int) -> int:
        if queue.topic == SCHEDULE_TOPIC:
            return self._levels.deliver_ms(find_property(properties, DELAY.encode()), store_ms)
        tag = find_property(properties, b"TAGS")
        return tags_code(tag) if tag else 0

    def _remember(self, queue: Queue, raw: bytes, place: tuple[int, int, int, int]) -> None:
        body_crc, store_ms, position, offset = place
        properties = parse_properties(raw.decode(errors="replace"))  # another writer's may be no UTF-8
        key = properties.get(GANTRY_KEY)
        if key is not None:
            # One that waits in a system queue is known by the topic it was sent to.
            topic = properties.get(REAL_TOPIC, queue.topic) if queue.topic in _WAITING_TOPICS else queue.topic
            digest, crc = key_digest(topic, key), content_crc(body_crc, properties)
            self._window.remember(Remembered(digest, crc, store_ms, position, offset, queue.queue_id))

    def _apply_system(self, position: int, size: int, store_ms: int) -> None:
        system = self._read_system(position, size)
        if isinstance(system, SegmentOffsets):
            for topic, of_topic in system.next_offsets.items():
                for queue_id, offset in of_topic.items():
                    self._queues.continue_at(topic, queue_id, offset)
        elif isinstance(system, TopicDeleted):
            for queue_id, offset in system.next_offsets.items():
                self._queues.continue_at(system.topic, queue_id, offset)
            self._queues.remove(system.topic)
            for state, covered in self._states:
                if position >= covered:  # a snapshot may know of a topic of that name made since
                    state.topic_deleted(system.topic)
            self._by_name.clear()
            self._on_deleted(system.topic, store_ms)


def _add_unique_key(
    index: list[IndexEntry], topic: str, properties: bytes, position: int, store_ms: int
) -> None:
    unique_key = find_property(properties, b"UNIQ_KEY")
    if unique_key:
        index.append((index_key_hash(topic, unique_key.decode(errors="replace")), position, store_ms))


def _add_keys(index: list[IndexEntry], topic: str, properties: bytes, position: int, store_ms: int) -> None:
    keys = find_property(properties, b"KEYS") if _KEYS_MARK in properties else None
    if keys:
        index += key_entries(topic, keys.decode(errors="replace"), position, store_ms)
