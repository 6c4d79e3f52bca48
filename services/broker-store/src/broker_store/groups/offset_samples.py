"""Offset samples: once a second, the progress of each group that moved, as messages of GANTRY_SYS_OFFSETS.

Reports estimate when a message was consumed: between the samples before and after its offset was passed.
One message per (topic, group) that moved, key = group, body JSON:

    {"group":"g","topic":"t","sampledAt":1700000000000,"queues":[[queue id, committed offset, max offset], …]}
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from broker_store.groups.offset_rows import Row
from broker_store.ports import QueueTable
from gantry_wire.names import SYSTEM_GROUP_PREFIX

QUEUES_PER_SAMPLE = 10_000
"""Queues per message: bounds its body to about 300 KB."""


class Sample(NamedTuple):
    """A message to append."""

    group: str
    body: bytes


def samples(moved: list[Row], queues: QueueTable, now_ms: int) -> Iterator[Sample]:
    """Yield the messages of what moved. System groups are not reported."""
    for topic, group, offsets in moved:
        if group.startswith(SYSTEM_GROUP_PREFIX):
            continue
        for part in _parts(offsets):
            rows = [(queue_id, offset, _max_offset(queues, topic, queue_id)) for queue_id, offset in part]
            content = {"group": group, "topic": topic, "sampledAt": now_ms, "queues": rows}
            yield Sample(group, msgspec.json.encode(content))


def _parts(offsets: Mapping[int, int | None]) -> Iterator[list[tuple[int, int]]]:
    items = [(queue_id, offset) for queue_id, offset in offsets.items() if offset is not None]
    for start in range(0, len(items), QUEUES_PER_SAMPLE):
        yield items[start : start + QUEUES_PER_SAMPLE]


def _max_offset(queues: QueueTable, topic: str, queue_id: int) -> int:
    queue = queues.find(topic, queue_id)
    return 0 if queue is None else queue.max_offset
