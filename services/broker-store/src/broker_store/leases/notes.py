"""What the log says of leases: the bodies of GANTRY_SYS_ACKS, and the snapshot of it all. Structs only.

One record per acknowledgement, start, filter or second of ended leases; JSON, so that a tool can read it:

    {"group":"g","topic":"t","queues":[{"queue":3,"start":0,"done":[17,32],"failed":[49,1,2]}],"filter":{…},"gone":true}

`done` is offset, count, …; `failed` is offset, count, deliveries so far, …; `start` is where the group begins in the queue, which
forgets everything said of it before.
"""

import msgspec

from gantry_wire.names import GANTRY_SYSTEM_PREFIX

ACKS_TOPIC = f"{GANTRY_SYSTEM_PREFIX}ACKS"


class GroupFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which messages of a topic a group wants. `kind` is TAG or SQL92."""

    kind: str = "TAG"
    expression: str = "*"


class QueueNote(msgspec.Struct, omit_defaults=True):
    """What happened in one queue."""

    queue: int
    start: int | None = None
    done: list[int] = []
    failed: list[int] = []


class LeaseNote(msgspec.Struct, omit_defaults=True):
    """Body of one record."""

    group: str
    topic: str
    queues: list[QueueNote] = []
    filter: GroupFilter | None = None
    gone: bool = False
    """The group was deleted: nothing of it is left; `topic` is empty."""


class QueueSnapshot(msgspec.Struct, omit_defaults=True):
    """One queue in a snapshot: `undone` is start, end, … below `next`."""

    queue: int
    next: int
    undone: list[int] = []
    failed: list[int] = []
    applied: int = -1
    """Position of the last record that is in it, where that is more than what the whole snapshot has."""


class TopicSnapshot(msgspec.Struct, omit_defaults=True):
    """One group's share of a snapshot in one topic, or some queues of it."""

    group: str
    topic: str
    queues: list[QueueSnapshot]
    filter: GroupFilter = GroupFilter()


class LeasesSnapshot(msgspec.Struct):
    """All of it, with all records up to `applied`; of a queue perhaps with more."""

    applied: int
    topics: list[TopicSnapshot]


encode_note = msgspec.json.Encoder().encode
decode_note = msgspec.json.Decoder(LeaseNote).decode
encode_topic = msgspec.json.Encoder().encode
decode_snapshot = msgspec.json.Decoder(LeasesSnapshot).decode
