"""Places of messages, and what may have been lost there."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from gantry_wire.names import DLQ_PREFIX, RETRY_PREFIX


class Place(NamedTuple):
    """One offset of one queue."""

    store: str
    topic: str
    queue: int
    offset: int

    def __str__(self) -> str:
        return f"{self.store} {self.topic}/{self.queue}@{self.offset}"

    @property
    def is_copy(self) -> bool:
        """Whether a group's retry or dead-letter topic has it: messages there are copies."""
        return self.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


class Since(NamedTuple):
    """The state of a store and a topic when an operation began."""

    losses: int
    deletions: int


class Losses:
    """Counts what took, or may have taken, messages from a store or a topic."""

    def __init__(self) -> None:
        self._losses: defaultdict[str, int] = defaultdict(int)
        self._deletions: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._doubtful: set[str] = set()
        self.open_deletions: list[tuple[str, str]] = []
        """Store and topic of each deletion without an answer, perhaps for ever: it may happen at any time."""

    def since(self, store: str, topic: str) -> Since:
        """Return the state now, for an operation that begins."""
        if (store, topic) in self.open_deletions:
            self._deletions[store, topic] += 1  # nothing that a store answers from now on binds it
        return Since(self._losses[store], self._deletions[store, topic])

    def doubt(self, store: str) -> None:
        """Record that a store answers before its flush, or that its disk fails: what it shows, it may lose."""
        self._doubtful.add(store)

    def is_doubtful(self, store: str) -> bool:
        """Whether a store may lose what it showed."""
        return store in self._doubtful

    def lost(self, store: str) -> None:
        """Record that a store may have lost what was not durable."""
        self._losses[store] += 1

    def deleted(self, store: str, topic: str) -> None:
        """Record that a topic is being deleted, or was."""
        self._deletions[store, topic] += 1

    def still_holds(self, store: str, topic: str, since: Since) -> bool:
        """Whether what a store has answered since then still binds it."""
        losses, deletions = self.since(store, topic)
        return (losses == since.losses or not self.is_doubtful(store)) and deletions == since.deletions

    def has_lost(self, store: str) -> bool:
        """Whether a store may have lost what it had shown."""
        return store in self._doubtful and self._losses[store] > 0

    def is_deleted(self, store: str, topic: str) -> bool:
        """Whether a topic was ever deleted."""
        return self._deletions[store, topic] > 0

    def has_deleted(self, store: str) -> bool:
        """Whether any topic of a store was ever deleted."""
        return any(count for (of, _), count in self._deletions.items() if of == store)
