"""Calls from parts of a store to parts that are built after them.

The topics exist before the sending half, and the group commit before the pulls that its messages wake. `StoreEvents` is
made with the first of them and given to each caller. Once all parts exist, `connect` names every listener in one step: a
listener that is left out is an error of types, and an event without listeners raises.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker_store.commit.message import Entry


class Readers(Protocol):
    """The reading side. Collects the arrivals of a batch, then answers the pulls they wake."""

    @property
    def held_count(self) -> int:
        """Number of held pulls and receives. Arrivals are reported only while it is above 0."""
        ...

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:
        """Record that messages from `first_offset` on are readable."""
        ...

    def answer_arrivals(self) -> None:
        """Answer the pulls that the arrivals of this batch woke."""
        ...


Named = Sequence[Callable[[str], None]]
"""Listeners that are called in order with the name of a topic or group."""


@dataclass(frozen=True, slots=True)
class StoreListeners:
    """Every listener of one store."""

    record_placed: Callable[[Entry], None]
    """Takes a record that the log has put into the open batch: a segment's preamble."""
    readers: Readers
    topic_changed: Named
    """After each change of a topic's configuration, its deletion included."""
    topic_removed: Named
    """After a topic's queues are gone."""
    group_changed: Named
    """After each change of a consumer group, its deletion included."""
    segment_held: Sequence[Callable[[int], Awaitable[None]]]
    """Before retention leaves a segment that is due: append again what only records below its end hold. What cannot be appended keeps the segment."""
    log_cut: Callable[[], None]
    """After retention has deleted segments, and queues and index begin where the log does."""


class StoreEvents:
    """The events of one store."""

    def __init__(self) -> None:
        self._listeners: StoreListeners | None = None

    def connect(self, listeners: StoreListeners) -> None:
        """Deliver events from now on. Once per store."""
        assert self._listeners is None, "the store's events have their listeners already"
        self._listeners = listeners

    @property
    def readers(self) -> Readers:
        """The reading side."""
        return self._connected().readers

    def record_placed(self, entry: Entry) -> None:
        """Report a record that the log requires within the open batch."""
        self._connected().record_placed(entry)

    def topic_changed(self, topic: str) -> None:
        """Report a changed topic.

        Recovery changes topics before any other part exists. Such a part reads them when it is built.
        """
        if self._listeners is not None:
            for listener in self._listeners.topic_changed:
                listener(topic)

    def topic_removed(self, topic: str) -> None:
        """Report a topic whose queues are gone."""
        for listener in self._connected().topic_removed:
            listener(topic)

    def group_changed(self, group: str) -> None:
        """Report a changed group."""
        for listener in self._connected().group_changed:
            listener(group)

    async def segment_held(self, below: int) -> None:
        """Report a segment that is due and whose records are needed. It ends at `below`."""
        for listener in self._connected().segment_held:
            await listener(below)

    def log_cut(self) -> None:
        """Report that the log begins later than before."""
        self._connected().log_cut()

    def _connected(self) -> StoreListeners:
        assert self._listeners is not None, "an event of the store has no listener yet: call connect first"
        return self._listeners
