"""Decides where the log of a directory without a snapshot ends, and how far its queues reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gantry_spark.store import files as store_files
from gantry_spark.store.directory import StoreDirectory
from gantry_spark.store.files import Note, QueueName, SegmentFile
from gantry_spark.store.tail import segment_at, walk


class StoreUnreadable(Exception):
    """The store exists, but its log is unreadable; the text says why."""


def segments(store: StoreDirectory) -> tuple[SegmentFile, ...]:
    """Return the segments of a store. Raises StoreUnreadable."""
    try:
        return store_files.segments(store.path)
    except OSError as error:
        raise StoreUnreadable(f"{store.path} cannot be read: {error}") from error


def find_end(store: StoreDirectory, segments: Sequence[SegmentFile], known_end: int = 0) -> int:
    """Return the position after the last valid record. `known_end` is an earlier result, where a walk can begin.

    A log without files ends where its note or its queues say: the part below is lost, and must not look empty.
    """
    own = store_files.own_note(store.path)
    if not segments:
        return max(_noted_end(own), _named(store)[1])
    if own is None:
        return _foreign(store, segments, known_end)[0]
    note, confirm = own
    low = segments[0].base
    if store_files.replica(store.path) is not None:  # what its group has not confirmed may be taken back
        return walk(segments, max(low, confirm), max(known_end, confirm)).end
    if store.is_running and note.status == store_files.RUNNING and confirm >= known_end:
        return confirm  # the part above may be incomplete, or be removed
    if store.is_running:  # it is opening, and will confirm what it finds complete
        return walk(segments, max(low, confirm), max(known_end, confirm)).end
    start = max(low, confirm, known_end if known_end <= confirm else 0)
    return walk(segments, max(start, note.end if note.status == store_files.STOPPED_CLEANLY else 0)).end


def find_queues(
    store: StoreDirectory, segments: Sequence[SegmentFile]
) -> tuple[dict[QueueName, tuple[int, int]], int]:
    """Return the lowest and the next offset of every queue, and the end of the log, found after them."""
    low = segments[0].base if segments else 0
    files = store_files.queues(store.path)
    found: dict[QueueName, tuple[int, int]] = {}
    for queue in files:
        first = queue.first_named()
        written = queue.end_written(first)
        found[queue.topic, queue.queue_id] = queue.first_at_or_above(low, first, written), written
    end = find_end(store, segments)
    for queue in files:  # units of records above the end: a broker that crashed, or wrote during the read
        first, written = found[queue.topic, queue.queue_id]
        found[queue.topic, queue.queue_id] = first, queue.first_at_or_above(end, first, written)
    for name, following in _next_offsets(store, segments, end).items():
        first, written = found.get(name, (0, 0))
        found[name] = first, max(written, following)
    return dict(sorted(found.items())), end


def lowest(store: StoreDirectory, segments: Sequence[SegmentFile]) -> int:
    """Return the position of the first record: the oldest segment's, or the lowest that queues name if all segments are missing."""
    return segments[0].base if segments else _named(store)[0]


def _noted_end(own: tuple[Note, int] | None) -> int:
    if own is None:
        return 0
    note, confirm = own
    return max(confirm, note.end if note.status == store_files.STOPPED_CLEANLY else 0)


def _named(store: StoreDirectory) -> tuple[int, int]:
    """Return the range of positions that queues name; (0, 0) if they name none."""
    lows: list[int] = []
    highs: list[int] = []
    for queue in store_files.queues(store.path):
        first = queue.first_named()
        for offset, found in ((first, lows), (queue.end_written(first) - 1, highs)):
            unit = queue.unit(offset)
            if unit is not None and not unit.is_hole:
                found.append(unit.position + (unit.size if found is highs else 0))
    return min(lows, default=0), max(highs, default=0)


def _next_offsets(store: StoreDirectory, segments: Sequence[SegmentFile], end: int) -> dict[QueueName, int]:
    """Return next offsets of queues with incomplete files: the newest units of Gantry's broker are in memory until a checkpoint."""
    own = store_files.own_note(store.path)
    if not segments:
        return {}
    if own is None:
        return _foreign(store, segments, 0)[1]
    start = _units_whole(store, own[0])
    return walk(segments, max(segments[0].base, start), end).next_offsets if start < end else {}


def _units_whole(store: StoreDirectory, note: Note) -> int:
    """Return the position below which the files of the queues hold every unit."""
    if note.status == store_files.STOPPED_CLEANLY:
        return note.end
    units_from = store_files.units_from(store.path)
    return note.checkpoint_position if units_from is None else min(units_from, note.checkpoint_position)


def _foreign(
    store: StoreDirectory, segments: Sequence[SegmentFile], known_end: int
) -> tuple[int, dict[QueueName, int]]:
    """Walk from the newest record that the queues of RocketMQ name: it has no confirm offset.

    While it runs the last complete record may still be in progress, so the log ends before it.
    """
    start = max([segments[0].base, known_end, *_newest_behind(store, segments)])
    tail = walk(segments, start)
    return (tail.last if store.is_running and tail.last is not None else tail.end), tail.next_offsets


def _newest_behind(store: StoreDirectory, segments: Sequence[SegmentFile]) -> Iterator[int]:
    """Yield for each queue the position after its newest record.

    While a store runs, only of those in the listed segments: it may have begun a new one since.
    """
    for queue in store_files.queues(store.path):
        unit = queue.unit(queue.end_written(queue.first_named()) - 1)
        if unit is None or unit.is_hole or unit.position < segments[0].base:
            continue
        if not store.is_running or segment_at(segments, unit.position) is not None:
            yield unit.position + unit.size
