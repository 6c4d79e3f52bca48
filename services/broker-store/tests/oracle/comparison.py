"""Compares a store opened from its checkpoint with the same store rebuilt from the log alone, field by field.

This file lists what may differ, each with its reason. Nothing else may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from derived_state import DerivedState, LeaseState, QueueName, QueueState

from broker_store.settling.decided.mark import Source
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.records.message_record import Record


@dataclass
class Allowed:
    """Differences that the life of the store explains."""

    forgotten_ms: int = -1
    """Keys stored up to then were older than the window in some run: its files dropped them, and a wider window does not bring them back."""
    has_changed_levels: bool = False
    """Delay levels were changed. A unit of SCHEDULE_TOPIC_XXXX keeps its due time; a rebuild uses the current levels."""
    tags_wanted: dict[tuple[str, str], list[set[str]]] = field(
        default_factory=dict[tuple[str, str], list[set[str]]]
    )
    """The tags of each filter that a group had in a topic.

    A snapshot counts what a filter skipped as done, and the log never records it.
    """
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict[tuple[str, str, int], int])
    """The highest offset a client committed.

    It moves the leases, and their snapshot, before it is in consumerOffset.json.
    """
    committed_back: dict[tuple[str, str, int], int] = field(default_factory=dict[tuple[str, str, int], int])
    """The lowest offset a client committed.

    Everything from there on is delivered again, which only a snapshot or consumerOffset.json records.
    """
    deleted_with_offsets: set[str] = field(default_factory=set[str])
    """Deleted groups whose offsets were kept: these count as committed for a new group of that name."""
    released: set[tuple[str, str, int, int]] = field(default_factory=set[tuple[str, str, int, int]])
    """(group, topic, queue, offset) released as never delivered.

    After a restart that removes an attempt that the log has.
    """
    half_deleted: set[str] = field(default_factory=set[str])
    """Topics whose deletion was not answered before the end of a run.

    They may exist or not, with the queues that some of their messages need.
    """
    removed_below: int = 0
    """Retention removed the log below this position once.

    If a power cut brings the segment back, a snapshot has passed its content.
    """


def differences(opened: DerivedState, rebuilt: DerivedState, allowed: Allowed) -> list[str]:
    """Return a description of each difference. Empty for stores that agree."""
    return [
        *_scalars(opened, rebuilt),
        *_queues(opened, rebuilt, allowed),
        *_tables("index", opened.index, rebuilt.index),
        *_window(opened, rebuilt, allowed),
        *_tables("filter", opened.filters, rebuilt.filters),
        *_leases(opened, rebuilt, allowed),
        *_tables("settled", _kept(opened, allowed), _kept(rebuilt, allowed)),
        *_tables("entry of access control", opened.access, rebuilt.access),
        *_config(opened, rebuilt),
        *_topics(opened, rebuilt, allowed),
        *_tables("committed offset", opened.offsets, rebuilt.offsets),
        *_tables("offset in the log", opened.logged_offsets, rebuilt.logged_offsets),
        *_tables("files of offsets", {"taken": opened.offsets_origin}, {"taken": rebuilt.offsets_origin}),
        *_tables("lock", {"all": opened.locks}, {"all": rebuilt.locks}),
    ]


def _scalars(opened: DerivedState, rebuilt: DerivedState) -> Iterator[str]:
    for name in ("min_position", "end", "now_ms", "offsets_number"):
        one, other = getattr(opened, name), getattr(rebuilt, name)
        if one != other:
            yield f"{name}: {one}, rebuilt {other}"
    if opened.index_end >= opened.end:
        yield f"the index has a record at {opened.index_end}, the log ends at {opened.end}"
    # Index files are removed as a whole: after retention older entries may be left.
    if opened.min_position == 0 and opened.index_entries != rebuilt.index_entries:
        yield f"entries of the index: {opened.index_entries}, rebuilt {rebuilt.index_entries}"


def _tables(name: str, opened: Mapping[Any, Any], rebuilt: Mapping[Any, Any]) -> Iterator[str]:
    for key in sorted({*opened, *rebuilt}, key=repr):
        if opened.get(key) != rebuilt.get(key):
            yield f"{name} {key}: {opened.get(key)}, rebuilt {rebuilt.get(key)}"


def _config(opened: DerivedState, rebuilt: DerivedState) -> Iterator[str]:
    """A store drops deletions below its checkpoint, before retention removes their segment. A crash in between leaves them in the log."""
    dropped = {
        key
        for key, (entry, position) in rebuilt.config.items()
        if entry.value is None and position < opened.began_at and key not in opened.config
    }
    kept = {key: entry for key, entry in rebuilt.config.items() if key not in dropped}
    yield from _tables("entry of configuration", opened.config, kept)


def _topics(opened: DerivedState, rebuilt: DerivedState, allowed: Allowed) -> Iterator[str]:
    free = allowed.half_deleted
    one = {name: config for name, config in opened.topics.items() if name not in free}
    yield from _tables(
        "topic", one, {name: config for name, config in rebuilt.topics.items() if name not in free}
    )


def _with_queues(state: DerivedState) -> tuple[dict[QueueName, QueueState], dict[QueueName, int]]:
    """Return queues and next offsets of deleted ones. An empty queue of a missing topic counts as deleted."""
    gone = {
        name: queue for name, queue in state.queues.items() if name[0] not in state.topics and not queue.units
    }
    kept = {name: queue for name, queue in state.queues.items() if name not in gone}
    return kept, state.retired | {name: queue.next for name, queue in gone.items() if queue.next}


def _queues(opened: DerivedState, rebuilt: DerivedState, allowed: Allowed) -> Iterator[str]:
    of_opened, opened_retired = _with_queues(opened)
    of_rebuilt, rebuilt_retired = _with_queues(rebuilt)
    for name in sorted({*of_opened, *of_rebuilt}):
        one, other = of_opened.get(name), of_rebuilt.get(name)
        if one is None or other is None:
            known = one or other
            next_there = (opened_retired if one is None else rebuilt_retired).get(name)
            if known is not None and not known.units and known.next == next_there:
                continue  # open without a message, or deleted: a send continues at the same offset
            yield f"queue {name}: {one}, rebuilt {other}"
            continue
        if (one.low, one.end, one.next) != (other.low, other.end, other.next):
            yield (
                f"queue {name}: low, end, next are {one.low, one.end, one.next}, "
                f"rebuilt {other.low, other.end, other.next}"
            )
        of_one, of_other = one.units, other.units
        if name[0] == SCHEDULE_TOPIC and allowed.has_changed_levels:
            of_one = {offset: (*unit[:2], 0) for offset, unit in of_one.items()}
            of_other = {offset: (*unit[:2], 0) for offset, unit in of_other.items()}
        yield from _tables(f"unit of {name}", of_one, of_other)
    yield from _tables(
        "next offset of the deleted queue",
        {name: offset for name, offset in opened_retired.items() if name not in of_rebuilt},
        {name: offset for name, offset in rebuilt_retired.items() if name not in of_opened},
    )


def _window(opened: DerivedState, rebuilt: DerivedState, allowed: Allowed) -> Iterator[str]:
    for digest in {*opened.window, *rebuilt.window}:
        one, other = opened.window.get(digest), rebuilt.window.get(digest)
        if one == other:
            continue
        if other is None and one is not None and one.position < opened.min_position:
            continue  # its message was removed with its segment, the journal of keys still has it
        if one is None and other is not None and other.store_ms <= allowed.forgotten_ms:
            continue
        yield f"key {digest.hex()}: {one}, rebuilt {other}"


def _leases(opened: DerivedState, rebuilt: DerivedState, allowed: Allowed) -> Iterator[str]:
    for key in sorted({*opened.leases, *rebuilt.leases}):
        group, topic, queue_id = key
        records = rebuilt.records.get((topic, queue_id), {})
        queue = rebuilt.queues.get((topic, queue_id))
        units = frozenset[int]() if queue is None else frozenset(queue.units)
        one, other = [
            state.leases.get(key)
            or LeaseState(frozenset(at for at in units if at >= state.offsets.get(key, 0)), {})
            for state in (opened, rebuilt)
        ]
        wanted = allowed.tags_wanted.get((group, topic), [])
        passed = {
            offset
            for offset in other.undone - one.undone
            if offset < allowed.committed.get(key, 0)
            or records[offset].position < allowed.removed_below
            or _is_passed_over(records[offset], wanted)
        }
        given_again = {
            at for at in one.undone - other.undone if at >= allowed.committed_back.get(key, at + 1)
        }
        if one.undone - given_again != other.undone - passed:
            yield f"undone of {key}: {sorted(one.undone)}, rebuilt {sorted(other.undone)}"
        if key in allowed.committed:
            continue  # a commit back delivers everything from there again, with new counts, which the log does not record
        for offset in one.undone & other.undone:
            if (*key, offset) in allowed.released:
                continue
            # A current lease counts in a checkpoint's snapshot. The log has it only once it has expired.
            if one.attempts.get(offset, 0) < other.attempts.get(offset, 0):
                yield f"attempts of {key} {offset}: {one.attempts.get(offset)}, rebuilt {other.attempts.get(offset)}"


def _kept(state: DerivedState, allowed: Allowed) -> dict[Source, tuple[int, ...]]:
    """Return the decided messages that retention never removed."""
    kept = {
        source: tuple(at for at in decided if state.queues[source[:2]].units[at][0] >= allowed.removed_below)
        for source, decided in state.settled.items()
    }
    return {source: decided for source, decided in kept.items() if decided}


def _is_passed_over(record: Record, wanted: list[set[str]]) -> bool:
    tag = record.property_map().get("TAGS", "")
    return any(tags and tag not in tags for tags in wanted)
