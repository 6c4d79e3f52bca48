"""The store's own messages: offset samples, moved offsets.

Nobody waits for them, and what cannot be stored is dropped.
"""

from collections.abc import Callable

from broker_store.commit.appends import Appends
from broker_store.commit.message import Message
from broker_store.commit.queues import QueueTable
from broker_store.commit.stamp import Stamp
from broker_store.commit.targets import Targets
from broker_store.commit.topics import TopicTable
from broker_store.log.commit_log.commit_log import LogState
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.messages.properties import KEYS, TAGS, format_properties, tags_code


class InternalSends:
    """Appends system messages; creates their topic and queue if missing."""

    def __init__(
        self,
        topics: TopicTable,
        targets: Targets,
        queues: QueueTable,
        appends: Appends,
        stamp: Stamp,
        now_ms: Callable[[], int],
    ) -> None:
        self._topics = topics
        self._targets = targets
        self._queues = queues
        self._appends = appends
        self._stamp = stamp
        self._now_ms = now_ms
        self.dropped = 0
        """Messages dropped because the disk is full or no record can hold them."""

    def append(self, topic: str, queue_id: int, body: bytes, *, tags: str = "", keys: str = "") -> None:
        """Append one message to a queue of a system topic."""
        if self._appends.log.state is not LogState.RUNNING:
            self.dropped += 1
            return
        target = self._targets.internal(self._topics.ensure(topic, queue_id + 1))
        properties = {name: value for name, value in ((TAGS, tags), (KEYS, keys)) if value}
        raw, unique_key = self._stamp.finish_bytes(format_properties(properties), properties)
        if len(raw) > PROPERTIES_BYTES_MAX:
            self.dropped += 1
            return
        message = Message(
            self._queues.open(topic, queue_id),
            body,
            raw,
            tags_code(tags) if tags else 0,
            unique_key,
            keys or None,
            target.mode,
            None,
            0,
            0,
            0,
            self._now_ms(),
            self._appends.store_host,
            0,
        )
        self._appends.enqueue(message, len(body))
