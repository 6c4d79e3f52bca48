"""Queues as users of a namespace name them, and as the cluster does. Pure; both ways leave alone what is already so."""

from __future__ import annotations

from collections.abc import Iterable

from gantry.message import MessageQueue
from gantry.namespaces import unwrap, wrap


def shown_queue(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return a queue as its user knows it."""
    return queue._replace(topic=unwrap(namespace, queue.topic)) if namespace else queue


def shown_queues(namespace: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return queues as their user knows them, sorted."""
    return sorted(shown_queue(namespace, queue) for queue in queues)


def wire_queue(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return a queue as the cluster knows it."""
    return queue._replace(topic=wrap(namespace, queue.topic)) if namespace else queue
