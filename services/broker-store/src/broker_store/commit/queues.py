"""Queues of topics: which offset comes next, and the ConsumeQueue that finds it in the log. Knows no request and no reply."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from broker_store.log.consume_queue import ConsumeQueue

OpenUnits = Callable[[str, int], ConsumeQueue]
"""Opens, or makes, the ConsumeQueue of (topic, queue id)."""


class Queue:
    """One queue of a topic. `next_offset` is assigned at the write; readers see only what lies below `max_offset`."""

    __slots__ = (
        "first_offset", "has_directory", "next_offset", "put_bytes", "queue_id", "topic", "topic_bytes", "units",
    )  # fmt: skip

    def __init__(self, topic: str, queue_id: int, units: ConsumeQueue, next_offset: int) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id
        self.units = units
        self.next_offset = next_offset
        """Offset of the next message to be written."""
        self.first_offset = next_offset
        """What `next_offset` was when this process opened the queue."""
        self.has_directory = False
        """Whether its directory is known to be there and durable; else the next checkpoint sees to it."""
        self.put_bytes = 0
        """Record bytes written since the start, for figures."""

    @property
    def min_offset(self) -> int:
        """Lowest offset that can be read."""
        return self.units.min_offset

    @property
    def max_offset(self) -> int:
        """One above the highest offset that can be read."""
        return self.units.max_offset

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` units of 20 bytes from an offset on."""
        return self.units.read(offset, count)


class QueueEnds(NamedTuple):
    """Where queues end for a checkpoint: its units name records below `position`, whatever of later ones is visible already."""

    position: int
    is_all: bool
    """Nothing at or above the position is visible: queues end where they end."""

    def of(self, queue: Queue) -> int:
        """Return one above the last offset of a queue that the checkpoint covers."""
        return queue.units.max_offset if self.is_all else queue.units.end_below(self.position)


class QueueTable:
    """All queues by (topic, queue id), and the next offsets of queues whose topic was deleted: they are never used twice."""

    def __init__(self, open_units: OpenUnits) -> None:
        self._open_units = open_units
        self._queues: dict[tuple[str, int], Queue] = {}
        self._by_topic: dict[str, list[Queue]] = {}
        self.retired: dict[str, dict[int, int]] = {}
        """Next offsets of topics at their deletion, {topic: {queue id: next offset}}; kept when a topic is made again."""
        self.cut_to = 0
        """Log position to which retention has cut every queue and the index; the log may begin later while it is at work."""

    def find(self, topic: str, queue_id: int) -> Queue | None:
        """Return a queue that exists."""
        return self._queues.get((topic, queue_id))

    def open(self, topic: str, queue_id: int) -> Queue:
        """Return the queue, made if need be; one of a topic that was deleted and made again continues its offsets."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            queue = self._make(topic, queue_id)
        return queue

    def open_again(self, topic: str, count: int) -> None:
        """Open those of a topic's first `count` queues that it had before its deletion, so that readers see where they go on."""
        for queue_id in self.retired.get(topic, {}):
            if queue_id < count:
                self.open(topic, queue_id)

    def of_topic(self, topic: str) -> list[Queue]:
        """Return the queues of a topic that exist, in no promised order."""
        return self._by_topic.get(topic, [])

    def all(self) -> Iterable[Queue]:
        """Return every queue."""
        return self._queues.values()

    def topics(self) -> list[str]:
        """Return the topics that have a queue."""
        return list(self._by_topic)

    def next_offsets(self) -> dict[str, dict[int, int]]:
        """Return every next offset above 0, deleted queues included: what a segment's preamble lists."""
        offsets = {topic: dict(of_queue) for topic, of_queue in self.retired.items()}
        for (topic, queue_id), queue in self._queues.items():
            if queue.next_offset:
                offsets.setdefault(topic, {})[queue_id] = queue.next_offset
        return offsets

    def continue_at(self, topic: str, queue_id: int, next_offset: int) -> None:
        """Learn from the log that offsets below `next_offset` are taken. An existing queue goes on there."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            of_topic = self.retired.setdefault(topic, {})
            of_topic[queue_id] = max(next_offset, of_topic.get(queue_id, 0))
        elif next_offset > queue.next_offset:
            queue.next_offset = next_offset
            queue.units.start_at(next_offset)

    def remove(self, topic: str) -> dict[int, int]:
        """Drop a topic's queues and their files; return the next offsets, which are kept for ever."""
        removed = self._by_topic.pop(topic, [])
        of_topic = self.retired.setdefault(topic, {})
        for queue in removed:
            del self._queues[(topic, queue.queue_id)]
            of_topic[queue.queue_id] = queue.next_offset
            queue.units.destroy()
        return of_topic

    def remove_queue(self, queue: Queue, next_offset: int) -> None:
        """Drop one queue and its files; what is made again under its name goes on at this offset."""
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
