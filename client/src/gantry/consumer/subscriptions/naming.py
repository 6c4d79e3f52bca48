"""Queues as users of a namespace name them, and as the cluster does. Pure; both ways leave alone what is already so."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from gantry.errors import ConfigurationError
from gantry.formats.namespaces import unwrap, wrap
from gantry.message import MessageQueue


def shown_queue(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return a queue as its user knows it."""
    return queue._replace(topic=unwrap(namespace, queue.topic)) if namespace else queue


def shown_queues(namespace: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return queues as their user knows them, sorted."""
    return sorted(shown_queue(namespace, queue) for queue in queues)


def time_ms(when: datetime) -> int:
    """Return a time as ms since 1970; ConfigurationError for what is none, or has no zone."""
    if not isinstance(when, datetime) or when.tzinfo is None:  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
        raise ConfigurationError(f"when: a datetime with a zone, as datetime.now(UTC), not {when!r}")
    return round(when.timestamp() * 1000)


def wire_queue(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return a queue as the cluster knows it; ConfigurationError for what is none."""
    if not isinstance(queue, MessageQueue):  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
        raise ConfigurationError(f"queue: a MessageQueue, not {queue!r}")
    return queue._replace(topic=wrap(namespace, queue.topic)) if namespace else queue
