"""Queues of topics: their next offsets, and the ConsumeQueues that map offsets to log positions.

Never handles a request.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from broker_store.log.consume_queues.consume_queue import ConsumeQueue
from gantry_wire.records.message_record import behind_body

OpenUnits = Callable[[str, int], ConsumeQueue]
"""Opens or creates the ConsumeQueue of (topic, queue id)."""


class Queue:
    """One queue of a topic. A write assigns `next_offset`; readers see only offsets below `max_offset`."""

    __slots__ = (
        "behind_body", "first_offset", "has_directory", "magic", "next_offset", "put_bytes", "queue_id", "topic", "topic_bytes",
        "units",
    )  # fmt: skip

    def __init__(self, topic: str, queue_id: int, units: ConsumeQueue, next_offset: int) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.magic, self.behind_body = behind_body(self.topic_bytes)
        """Of every record in this queue: the magic, and the bytes between the body and the length of the properties."""
        self.queue_id = queue_id
        self.units = units
        self.next_offset = next_offset
        """Offset of the next message."""
        self.first_offset = next_offset
        """`next_offset` when this process created the queue, or had opened the store with it."""
        self.has_directory = False
        """Whether its directory exists and is durable. If not, the next checkpoint creates it."""
        self.put_bytes = 0
        """Record bytes written since the start, for metrics."""

    @property
    def min_offset(self) -> int:
        """Lowest readable offset."""
        return self.units.min_offset

    @property
    def max_offset(self) -> int:
        """One above the highest readable offset."""
        return self.units.max_offset

    @property
    def old_end(self) -> int:
        """Units below this offset were at rest in files before this run, and may be damaged."""
        return self.units.old_end

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` units of 20 bytes from `offset` on."""
        return self.units.read(offset, count)


class QueueEnds(NamedTuple):
    """Ends of queues for a checkpoint: units of records below `position`, even if later records are visible already."""

    position: int
    is_all: bool
    """Nothing at or above the position is visible, so queues end at their current ends."""

    def of(self, queue: Queue) -> int:
        """Return one above the last offset of a queue that the checkpoint covers."""
        return queue.units.max_offset if self.is_all else queue.units.end_below(self.position)


class QueueTable:
    """All queues by (topic, queue id). Also keeps the next offsets of deleted topics, so that no offset is used twice."""

    def __init__(self, open_units: OpenUnits) -> None:
        self._open_units = open_units
        self._queues: dict[tuple[str, int], Queue] = {}
        self._by_topic: dict[str, list[Queue]] = {}
        self.retired: dict[str, dict[int, int]] = {}
        """Next offsets of topics at deletion: {topic: {queue id: next offset}}. Kept when the topic is created again."""
        self._cut_to = 0

    @property
    def cut_to(self) -> int:
        """Log position to which retention has cut every queue and the index.

        The log itself may begin later while retention runs.
        """
        return self._cut_to

    def note_opened(self) -> None:
        """Record that every queue ends where this run found its end: appends begin."""
        for queue in self._queues.values():
            queue.first_offset = queue.next_offset

    def note_cut(self, position: int) -> None:
        """Record that every queue and the index are cut to this position."""
        self._cut_to = position

    def find(self, topic: str, queue_id: int) -> Queue | None:
        """Return an existing queue."""
        return self._queues.get((topic, queue_id))

    def open(self, topic: str, queue_id: int) -> Queue:
        """Return the queue; create it if missing. A topic that was deleted and created again continues its offsets."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            queue = self._make(topic, queue_id)
        return queue

    def open_again(self, topic: str, count: int) -> None:
        """Open those of a topic's first `count` queues that existed before its deletion.

        Readers then see where their offsets continue.
        """
        for queue_id in self.retired.get(topic, {}):
            if queue_id < count:
                self.open(topic, queue_id)

    def of_topic(self, topic: str) -> list[Queue]:
        """Return the existing queues of a topic, in any order."""
        return self._by_topic.get(topic, [])

    def all(self) -> Iterable[Queue]:
        """Return all queues."""
        return self._queues.values()

    def topics(self) -> list[str]:
        """Return the topics that have a queue."""
        return list(self._by_topic)

    def next_offsets(self) -> dict[str, dict[int, int]]:
        """Return every next offset above 0, of deleted queues too: the content of a segment's preamble."""
        offsets = {topic: dict(of_queue) for topic, of_queue in self.retired.items()}
        for (topic, queue_id), queue in self._queues.items():
            if queue.next_offset:
                offsets.setdefault(topic, {})[queue_id] = queue.next_offset
        return offsets

    def continue_at(self, topic: str, queue_id: int, next_offset: int) -> None:
        """Mark offsets below `next_offset` as used, as the log says. An existing queue continues there."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            of_topic = self.retired.setdefault(topic, {})
            of_topic[queue_id] = max(next_offset, of_topic.get(queue_id, 0))
        elif next_offset > queue.next_offset:
            queue.next_offset = next_offset
            queue.units.start_at(next_offset)

    def remove(self, topic: str) -> dict[int, int]:
        """Remove a topic's queues and files. Returns their next offsets, which are kept for ever."""
        removed = self._by_topic.pop(topic, [])
        of_topic = self.retired.setdefault(topic, {})
        for queue in removed:
            del self._queues[(topic, queue.queue_id)]
            of_topic[queue.queue_id] = queue.next_offset
            queue.units.destroy()
        return of_topic

    def remove_queue(self, queue: Queue, next_offset: int) -> None:
        """Remove one queue and its files. A new queue of that name continues at `next_offset`."""
        del self._queues[(queue.topic, queue.queue_id)]
        of_topic = self._by_topic[queue.topic]
        of_topic.remove(queue)
        if not of_topic:
            del self._by_topic[queue.topic]
        queue.units.destroy()
        self.continue_at(queue.topic, queue.queue_id, next_offset)

    def _make(self, topic: str, queue_id: int) -> Queue:
        units = self._open_units(topic, queue_id)
        next_offset = max(units.max_offset, self.retired.get(topic, {}).get(queue_id, 0))
        units.start_at(next_offset)
        queue = Queue(topic, queue_id, units, next_offset)
        self._queues[(topic, queue_id)] = queue
        self._by_topic.setdefault(topic, []).append(queue)
        return queue
