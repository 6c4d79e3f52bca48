"""`gantry/queues.json`: the ends of every queue and the index at the last checkpoint, and the offsets of deleted topics.

Derived files may be lost or deleted at any time. A start detects that by this note and rebuilds them.
"""

from enum import StrEnum
from typing import Any, NamedTuple, cast

import msgspec

from broker_store.commit.queues import QueueEnds, QueueTable
from broker_store.config.config_files import ConfigFile
from broker_store.log.index.index import IndexFiles

Offsets = dict[str, dict[int, int]]


class Reason(StrEnum):
    """Why a start rebuilds the derived files from the log. A label of the metric."""

    NOTE = "note"
    QUEUES = "queues"
    INDEX = "index"
    KEYS = "keys"
    UNITS = "units"
    SNAPSHOT = "snapshot"
    TOPICS = "topics"
    FOREIGN = "foreign"


class QueueNote(msgspec.Struct, rename="camel"):
    """Content of the file."""

    position: int = 0
    """The position that the checkpoint covers."""
    index_end: int = -1
    """Position of the newest record in the index, -1 for none."""
    key_files: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """Whole chunks of each file of idempotency keys, in bytes. Files with no key inside the window are left out."""
    index_entries: int = -1
    """Number of entries in the index, -1 if not recorded."""
    min_position: int = -1
    """Where queues and index began: the position to which retention had cut all of them."""
    units_from: int = -1
    """Queue files hold every unit of records below this position. The unit journal holds the rest up to the checkpoint.

    -1: the files hold all.
    """
    next_offsets: Offsets = msgspec.field(default_factory=dict[str, dict[int, int]])
    """Readable end of every queue, {topic: {queue id: offset}}."""
    first_offsets: Offsets = msgspec.field(default_factory=dict[str, dict[int, int]])
    """Beginnings of queues that do not begin at 0."""
    retired: Offsets = msgspec.field(default_factory=dict[str, dict[int, int]])
    """Next offsets of topics at their deletion."""


def load_note(file: ConfigFile, covered: int | None) -> QueueNote | None:
    """Return the note of the checkpoint that covers `covered`, else the newest note. None when none can be read.

    A note is written before its checkpoint. After a crash between the two, the backup has the note of the
    valid checkpoint.
    """
    newest = _convert(file.load())
    if newest is None or newest.position == covered:
        return newest
    before = _convert(file.load_backup())
    if before is None or before.position != covered:
        return newest
    # The newest note's deletions and files count already: they were durable before it. A file of keys that
    # it leaves out may be removed.
    return msgspec.structs.replace(
        before,
        retired=newest.retired,
        units_from=newest.units_from,
        key_files={
            name: min(before.key_files[name], newest.key_files[name])
            for name in before.key_files.keys() & newest.key_files.keys()
        },
    )


def never_had(note: QueueNote | None, topic: str) -> bool:
    """Whether no record of a topic's first queue was readable when a note was taken, so that its state needs no snapshot.

    A directory of an earlier version has none of a state that was added since.
    """
    return note is not None and not note.next_offsets.get(topic, {}).get(0)


def save_note(file: ConfigFile, note: bytes, covered: int) -> None:
    """Write an encoded note.

    The backup keeps the note of the valid checkpoint, which covers `covered`. Blocks; raises OSError.
    """

    def is_in_force(content: bytes) -> bool:
        try:
            return msgspec.json.decode(content, type=_Place).position == covered
        except msgspec.DecodeError:
            return False

    file.store_bytes(note, is_in_force)


class _Place(msgspec.Struct):
    position: int = -1


def _convert(content: object | None) -> QueueNote | None:
    if not isinstance(content, dict):
        return None
    try:
        return msgspec.convert(cast("dict[str, Any]", content), QueueNote, strict=False, str_keys=True)
    except msgspec.ValidationError:
        return None


class Loss(NamedTuple):
    """Something that a derived file held when the note was taken, and has lost."""

    reason: Reason
    detail: str
    topic: str = ""
    """The topic of the queue. It is no loss where the log holds the topic's later deletion."""


def take_note(queues: QueueTable, index: IndexFiles | None, ends: QueueEnds) -> QueueNote:
    """Return the current note: everything below `ends.position` is in queues and index."""
    note = QueueNote(ends.position, min_position=queues.cut_to)
    note.retired = {topic: dict(offsets) for topic, offsets in queues.retired.items()}
    if index is not None:
        note.index_end, note.index_entries = index.end_position, index.entries
    for topic in queues.topics():  # at one moment for ten thousand queues: a few milliseconds
        of_topic = queues.of_topic(topic)
        note.next_offsets[topic] = {queue.queue_id: ends.of(queue) for queue in of_topic}
        firsts = {queue.queue_id: first for queue in of_topic if (first := queue.units.min_offset)}
        if firsts:
            note.first_offsets[topic] = firsts
    return note


def encode_note(note: QueueNote) -> bytes:
    """Return the saved form of a note."""
    return msgspec.json.encode(note)


def with_retired(note: QueueNote, queues: QueueTable) -> QueueNote:
    """Return a note that includes the topics deleted since.

    It covers no more than before: the files may lack what came later.
    """
    retired = {topic: dict(offsets) for topic, offsets in queues.retired.items()}
    return msgspec.structs.replace(note, retired=retired)


def what_is_missing(
    note: QueueNote, queues: QueueTable, index: IndexFiles | None, first_kept: int
) -> list[Loss]:
    """Return what derived files lost since the note was taken: at most one loss per topic, and one for the index.

    If the log still begins as recorded, this also finds losses at a queue's beginning or within the index.
    Call it before the walk above the note's position, which would hide a loss behind what it appends.
    """
    began_there = first_kept == note.min_position
    losses = [_queue_loss(note, topic, queues, began_there=began_there) for topic in note.next_offsets]
    losses.append(_index_loss(note, index, began_there=began_there))
    return [loss for loss in losses if loss is not None]


def _queue_loss(note: QueueNote, topic: str, queues: QueueTable, *, began_there: bool) -> Loss | None:
    firsts, retired = note.first_offsets.get(topic, {}), note.retired.get(topic, {})
    for queue_id, offset in note.next_offsets[topic].items():
        queue = queues.find(topic, queue_id)
        # A queue of a topic created again has no file before its first message.
        end = retired.get(queue_id, 0) if queue is None else queue.max_offset
        if end < offset:
            detail = f"queue {queue_id} of topic {topic} ends at {end}, it had reached {offset}"
            return Loss(Reason.QUEUES, detail, topic)
        first = firsts.get(queue_id, 0)
        if began_there and queue is not None and queue.min_offset > first < offset:
            detail = f"queue {queue_id} of topic {topic} begins at {queue.min_offset}, it began at {first}"
            return Loss(Reason.QUEUES, detail, topic)
    return None


def _index_loss(note: QueueNote, index: IndexFiles | None, *, began_there: bool) -> Loss | None:
    if index is None:
        return None
    if note.index_end < 0:
        if note.index_entries < 0 and note.position > max(note.min_position, 0):
            detail = f"the index was switched off: it lacks messages below position {note.position}"
            return Loss(Reason.INDEX, detail)
        return None
    if index.end_position < note.index_end:
        detail = f"the index ends at position {index.end_position}, it had reached {note.index_end}"
        return Loss(Reason.INDEX, detail)
    if began_there and index.entries < note.index_entries:
        return Loss(Reason.INDEX, f"the index has {index.entries} entries, it had {note.index_entries}")
    return None
