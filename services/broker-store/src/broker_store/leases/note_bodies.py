"""The lease notes in the log: bodies of GANTRY_SYS_ACKS, and the snapshot of their state. Structs only.

One record per acknowledgement, start, filter or second of expired leases, in JSON for tools:

    {"group":"g","topic":"t","queues":[{"queue":3,"start":0,"done":[17,32],"failed":[49,1,2]}],"filter":{…},"gone":true}

`done` is offset, count, …; `failed` is offset, count, deliveries so far, …; `start` is where the group
begins in the queue, which cancels earlier notes about it.
"""

import msgspec

from gantry_wire.names import GANTRY_SYSTEM_PREFIX

ACKS_TOPIC = f"{GANTRY_SYSTEM_PREFIX}ACKS"


class GroupFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """The messages of a topic that a group wants. `kind` is TAG or SQL92."""

    kind: str = "TAG"
    expression: str = "*"


class QueueNote(msgspec.Struct, omit_defaults=True):
    """Changes in one queue."""

    queue: int
    start: int | None = None
    done: list[int] = []
    failed: list[int] = []

    @property
    def used_end(self) -> int:
        """Return the offset up to which the queue had messages, as far as this note shows it."""
        done, failed = self.done, self.failed
        ends = [done[at] + done[at + 1] for at in range(0, len(done), 2)]
        ends += [failed[at] + failed[at + 1] for at in range(0, len(failed), 3)]
        return max(ends, default=self.start or 0)


class LeaseNote(msgspec.Struct, omit_defaults=True):
    """Body of one record."""

    group: str
    topic: str
    queues: list[QueueNote] = []
    filter: GroupFilter | None = None
    gone: bool = False
    """The group was deleted with all its state. `topic` is empty."""


class QueueSnapshot(msgspec.Struct, omit_defaults=True):
    """One queue in a snapshot: `undone` is start, end, … below `next`."""

    queue: int
    next: int
    undone: list[int] = []
    failed: list[int] = []
    applied: int = -1
    """Position of the last included record, where that is beyond the whole snapshot's."""


class TopicSnapshot(msgspec.Struct, omit_defaults=True):
    """A group's part of a snapshot in one topic, or some of its queues."""

    group: str
    topic: str
    queues: list[QueueSnapshot]
    filter: GroupFilter = GroupFilter()
    filter_at: int = -1
    """Position of the newest record of the filter. -1: not known, the log may have lost it."""


class LeasesSnapshot(msgspec.Struct):
    """The whole state, with all records up to `applied`. A queue may include later ones."""

    applied: int
    topics: list[TopicSnapshot]


encode_note = msgspec.json.Encoder().encode
decode_note = msgspec.json.Decoder(LeaseNote).decode
encode_topic = msgspec.json.Encoder().encode
decode_snapshot = msgspec.json.Decoder(LeasesSnapshot).decode
