"""Converts queue names between a namespace and the cluster. Pure; both directions leave converted names alone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from gantrymq.errors import ConfigurationError
from gantrymq.formats.namespaces import unwrap, wrap
from gantrymq.message import MessageQueue


def shown_queue(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return a queue with the user's name of its topic."""
    return queue._replace(topic=unwrap(namespace, queue.topic)) if namespace else queue


def shown_queues(namespace: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return queues with the user's names of their topics, sorted."""
    return sorted(shown_queue(namespace, queue) for queue in queues)


def time_ms(when: datetime) -> int:
    """Return a time as ms since 1970; ConfigurationError if it is no datetime, or has no zone."""
    if not isinstance(when, datetime) or when.tzinfo is None:  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
        raise ConfigurationError(f"when: must be a datetime with a zone, as datetime.now(UTC), not {when!r}")
    return round(when.timestamp() * 1000)


def wire_queue(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return a queue with the cluster's name of its topic; ConfigurationError if it is no queue."""
    if not isinstance(queue, MessageQueue):  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
        raise ConfigurationError(f"queue: must be a MessageQueue, not {queue!r}")
    return queue._replace(topic=wrap(namespace, queue.topic)) if namespace else queue
