# ruff: noqa: D102 - the Protocols say what these methods promise
"""A message that waits in a system queue for its time."""

from typing import NamedTuple

from broker_store.commit.message import Message
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import RecordWriter
from broker_store.commit.special_message import SpecialMessage


class Wait(NamedTuple):
    """When a message is due."""

    deliver_ms: int
    """Store time. 0 = `level_ms` after it is stored."""
    level_ms: int = 0
    recall_handle: str = ""


class DelayedMessage(SpecialMessage):
    """A message with a level or an instant.

    Only `place` knows when a level ends, because it counts from the store time.
    """

    __slots__ = ("wait",)

    def __init__(self, message: Message, queue: Queue, properties: bytes, wait: Wait) -> None:
        super().__init__(message, queue, properties)
        self.wait = wait

    def place(self, at: RecordWriter) -> None:
        super().place(at)
        if self.wait.level_ms:
            self.tags_code = self.store_ms + self.wait.level_ms

    def reply_place(self) -> tuple[int, dict[str, str]]:
        wait = self.wait
        deliver_ms = self.store_ms + wait.level_ms if wait.level_ms else wait.deliver_ms
        return self.target_queue_id, delay_fields(deliver_ms, wait.recall_handle)


def delay_fields(deliver_ms: int, recall_handle: str) -> dict[str, str]:
    """Return the reply fields of a delayed message beside its queue: due time and recall handle."""
    fields = {"deliverMs": str(deliver_ms)}
    if recall_handle:
        fields["recallHandle"] = recall_handle
    return fields
