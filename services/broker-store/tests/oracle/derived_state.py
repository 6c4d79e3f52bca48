"""The derived state of an opened store as plain values, collected alike whichever way it was opened."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from broker_store.commit.message import key_entries
from broker_store.commit.queues import Queue
from broker_store.config.config_files import DataVersionCounter
from broker_store.groups.locks.lock_file import LockFile
from broker_store.groups.offset_copy import OffsetCopy
from broker_store.groups.offset_keeper import OffsetKeeper
from broker_store.groups.offset_log import OffsetLog
from broker_store.groups.offsets import OffsetTable
from broker_store.leases.note_bodies import GroupFilter
from broker_store.leases.subscriptions import QueueLeases
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.opening.opening import Opening
from broker_store.sending.idempotency import ENTRY, Remembered
from broker_store.state_records.keyed_entries import Kept
from gantry_chassis.machine.environment import machine
from gantry_wire.messages.properties import index_key_hash
from gantry_wire.records.message_record import Record, decode_record
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

EVER_MS = 1 << 62
HOLE_SIZE = 0x7FFFFFFF
UNIT_BYTES = CONSUME_QUEUE_UNIT.size

QueueName = tuple[str, int]
Unit = tuple[int, int, int]


@dataclass
class QueueState:
    """One queue: what readers see, and the next offset."""

    low: int
    """Offset of the first message after retention, the end if there is none."""
    end: int
    next: int
    units: dict[int, Unit]
    """Those that point to a record at or above the log's beginning."""


@dataclass
class LeaseState:
    """What one group has not done in one queue, with delivery counts."""

    undone: frozenset[int]
    attempts: dict[int, int]


@dataclass
class DerivedState:
    """All of it."""

    began_at: int
    """Where the replay of the log began: the checkpoint says what lies below."""
    min_position: int
    end: int
    now_ms: int
    queues: dict[QueueName, QueueState]
    """Queues that ever had a message. Readers get the same answers from an empty queue and a missing one."""
    retired: dict[QueueName, int]
    """Next offsets of deleted queues."""
    index: dict[int, list[int]]
    """Positions by the hash of every key of the log, newest first."""
    index_entries: int
    index_end: int
    """Position of the newest record in it, -1 for none."""
    window: dict[bytes, Remembered]
    filters: dict[tuple[str, str], tuple[str, str]]
    """Filters other than the default, which accepts everything."""
    leases: dict[tuple[str, str, int], LeaseState]
    settled: dict[tuple[str, int, str], tuple[int, ...]]
    """Decided offsets at or above the beginning of each queue, by source."""
    access: dict[Hashable, Kept[Any]]
    """Entries of users and policies, with the place of their newest record."""
    config: dict[Hashable, Kept[Any]]
    """Entries of topics, groups and settings, with the place of their newest record. A deletion may outlive its record in a snapshot."""
    topics: dict[str, Any]
    offsets: dict[tuple[str, str, int], int]
    """What the store begins with: from the log, or from RocketMQ's file."""
    logged_offsets: dict[tuple[str, str, int], int]
    """What the records of offsets say."""
    offsets_number: int
    """The number of the newest of them."""
    offsets_origin: tuple[str, str]
    """The files that the log has taken over."""
    locks: bytes | None
    records: dict[QueueName, dict[int, Record]] = field(default_factory=dict[QueueName, dict[int, Record]])


def state_of(opening: Opening, disk: SimulatedFiles) -> DerivedState:
    """Return the state of a store right after its opening."""
    store = opening.store
    queues = {
        (queue.topic, queue.queue_id): _queue_state(queue, store.log.min_position)
        for queue in store.queues.all()
        if queue.next_offset
    }
    records = {
        name: {
            offset: decode_record(store.log.read(unit[0], unit[1])) for offset, unit in queue.units.items()
        }
        for name, queue in queues.items()
    }
    offsets = _committed(opening, disk)
    retired = {
        (topic, queue_id): offset
        for topic, of_topic in store.queues.retired.items()
        for queue_id, offset in of_topic.items()
        if offset and (topic, queue_id) not in queues
    }
    index = (
        {}
        if store.index is None
        else {
            key: [at for at in store.index.lookup(key, 0, EVER_MS, 1 << 20) if at >= store.log.min_position]
            for key in _keys(records)
        }
    )
    now_ms = store.clock.now_ms()
    return DerivedState(
        began_at=opening.began_at, min_position=store.log.min_position, end=store.log.end, now_ms=now_ms, queues=queues, retired=retired,
        index=index, index_entries=0 if store.index is None else store.index.entries,
        index_end=-1 if store.index is None else store.index.end_position,
        window=_window(opening, now_ms),
        filters={
            (one.group, one.topic): (one.filter.kind, one.filter.expression)
            for one in store.states.leases.all()
            if one.filter != GroupFilter()
        },
        leases=_leases(opening, queues, offsets),
        settled=_settled(opening, queues),
        access=store.states.access.kept(),
        config={
            key: kept
            for key, kept in store.states.config.kept().items()
            if kept.entry.value is not None or kept.position >= store.log.min_position
        },
        topics={name: msgspec.to_builtins(config) for name, config in store.topics.all().items()},
        offsets=offsets, logged_offsets=_flat(store.states.committed.all()),
        offsets_number=store.states.committed.number, offsets_origin=store.states.committed.origin, locks=LockFile(disk, f"{store.directory}/gantry/locks").load(), records=records,
    )  # fmt: skip


def _queue_state(queue: Queue, min_position: int) -> QueueState:
    data = queue.read(queue.min_offset, queue.max_offset - queue.min_offset)
    assert len(data) == (queue.max_offset - queue.min_offset) * UNIT_BYTES
    units = {
        queue.min_offset + number: unit
        for number, unit in enumerate(CONSUME_QUEUE_UNIT.iter_unpack(data))
        if unit[1] != HOLE_SIZE and unit[0] >= min_position
    }
    return QueueState(min(units, default=queue.max_offset), queue.max_offset, queue.next_offset, units)


def _keys(records: dict[QueueName, dict[int, Record]]) -> set[int]:
    hashes: set[int] = set()
    for (topic, _), of_queue in records.items():
        for record in of_queue.values():
            properties = record.property_map()
            if unique := properties.get("UNIQ_KEY"):
                hashes.add(index_key_hash(topic, unique))
            hashes.update(entry[0] for entry in key_entries(topic, properties.get("KEYS", ""), 0, 0))
    return hashes


def _window(opening: Opening, now_ms: int) -> dict[bytes, Remembered]:
    window = opening.store.window
    digests = {fields[0] for fields in ENTRY.iter_unpack(window.packed(window.first))}
    return {digest: found for digest in digests if (found := window.find(digest, now_ms)) is not None}


def _committed(opening: Opening, disk: SimulatedFiles) -> dict[tuple[str, str, int], int]:
    store, table = opening.store, OffsetTable()
    state, thread = store.states.committed, machine().workers(1, "offsets")
    version = DataVersionCounter(store.clock.now_ms)
    copy = OffsetCopy(disk, store.config_dir, f"{store.directory}/gantry", version, thread, store.log.sync)
    log = OffsetLog(table, state, _append_nothing)
    OffsetKeeper(table, state, log, copy, lambda *_commit: False).start(was_stopped=store.was_stopped)
    copy.close()
    return _flat(table.all())


def _append_nothing(*_record: object) -> None:
    raise AssertionError("a start writes no record before it serves")


def _flat(offsets: Iterable[tuple[str, str, Mapping[int, int]]]) -> dict[tuple[str, str, int], int]:
    return {
        (group, topic, queue_id): offset
        for topic, group, of_queues in offsets
        for queue_id, offset in of_queues.items()
    }


def _leases(
    opening: Opening, queues: dict[QueueName, QueueState], offsets: dict[tuple[str, str, int], int]
) -> dict[tuple[str, str, int], LeaseState]:
    """Return what groups will receive: from their tables, from the latest of low-water mark, commit and queue's begin on."""
    return {
        (one.group, one.topic, leases.queue_id): _lease_state(
            leases,
            queues[one.topic, leases.queue_id],
            offsets.get((one.group, one.topic, leases.queue_id), 0),
        )
        for one in opening.store.states.leases.all()
        for leases in one.queues.values()
        if (one.topic, leases.queue_id) in queues
    }


def _lease_state(leases: QueueLeases, queue: QueueState, committed: int) -> LeaseState:
    table = leases.table
    stretches = [*table.undone(), (table.unseen.next, queue.end)]
    undone = frozenset(
        offset
        for first, end in stretches
        for offset in range(max(first, committed, queue.low), min(end, queue.end))
        if offset in queue.units
    )
    attempts = {
        offset: attempt
        for first, count, attempt in table.known_attempts()
        for offset in range(first, first + count)
        if offset in undone
    }
    return LeaseState(undone, attempts)


def _settled(
    opening: Opening, queues: dict[QueueName, QueueState]
) -> dict[tuple[str, int, str], tuple[int, ...]]:
    table = opening.store.states.settled
    sources = {
        (topic, queue_id, group)
        for topic, queue_id in queues
        for group in (*table.groups(topic, queue_id), "")
    }
    decided = {
        source: tuple(offset for offset in queues[source[:2]].units if table.is_settled(source, offset))
        for source in sources
    }
    return {source: offsets for source, offsets in decided.items() if offsets}
