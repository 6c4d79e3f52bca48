"""`gantry/queues.json`: how far every queue and the index had come at the last checkpoint, and the offsets of deleted topics.

Derived files may be lost or deleted at any time; compared with this note, that is seen at the start and they are rebuilt.
"""

from typing import Any, cast

import msgspec

from broker_store.config_files import ConfigFile
from broker_store.queues import QueueTable

Offsets = dict[str, dict[int, int]]


class QueueNote(msgspec.Struct, rename="camel"):
    """Content of the file."""

    position: int = 0
    """What the checkpoint covers."""
    index_end: int = -1
    """Position of the newest record in the index, -1 for none."""
    newest_key_ms: int = 0
    """Store time of the newest key in the idempotency window, 0 for none."""
    next_offsets: Offsets = msgspec.field(default_factory=dict[str, dict[int, int]])
    """Readable end of every queue, {topic: {queue id: offset}}."""
    retired: Offsets = msgspec.field(default_factory=dict[str, dict[int, int]])
    """Next offsets of topics at their deletion."""


def load_note(file: ConfigFile) -> QueueNote | None:
    """Return the note; None when there is none that can be read."""
    content = file.load()
    if not isinstance(content, dict):
        return None
    try:
        return msgspec.convert(cast("dict[str, Any]", content), QueueNote, strict=False, str_keys=True)
    except msgspec.ValidationError:
        return None


def take_note(queues: QueueTable, position: int, index_end: int, newest_key_ms: int) -> bytes:
    """Return the note of this moment, as it is saved."""
    ends: Offsets = {}
    for queue in queues.all():
        ends.setdefault(queue.topic, {})[queue.queue_id] = queue.max_offset
    return msgspec.json.encode(QueueNote(position, index_end, newest_key_ms, ends, queues.retired))


def what_is_missing(note: QueueNote, queues: QueueTable, index_end: int | None) -> str:
    """Return in words which derived file lost something since the note was taken; empty when none did.

    `index_end` is None when the index is switched off.
    """
    for topic, of_topic in note.next_offsets.items():
        for queue_id, offset in of_topic.items():
            queue = queues.find(topic, queue_id)
            end = 0 if queue is None else queue.max_offset
            if end < offset:
                return f"queue {queue_id} of topic {topic} ends at {end}, it had reached {offset}"
    if index_end is not None and index_end < note.index_end:
        return f"the index ends at position {index_end}, it had reached {note.index_end}"
    return ""
