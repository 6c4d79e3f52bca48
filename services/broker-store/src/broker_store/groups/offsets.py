"""Progress of each group in each queue: committed offsets, and the offsets last pulled. Pure; offset_keeper saves them.

Offsets are never checked against a queue's bounds, as in RocketMQ: a pull corrects them.
"""

from collections.abc import Iterable, Iterator, Mapping

from broker_store.groups.offset_rows import Key, Piece, Row

OfQueues = dict[int, int]
"""Queue id → offset."""


class OffsetTable:
    """Committed offsets by (topic, group) and queue."""

    def __init__(self) -> None:
        self._committed: dict[Key, OfQueues] = {}
        self._pulled: dict[Key, OfQueues] = {}
        self._unsaved: dict[Key, set[int]] = {}
        self.went_back = 0
        """Commits below the known offset, for metrics."""

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the offset of the next message the group wants. Ignores negative ones, which old C++ clients send."""
        if offset < 0:
            return
        key = (topic, group)
        of_queues = self._committed.get(key)
        if of_queues is None:
            of_queues = self._committed[key] = {}
        known = of_queues.get(queue_id)
        if known == offset:
            return
        if known is not None and offset < known:
            self.went_back += 1
        of_queues[queue_id] = offset
        unsaved = self._unsaved.get(key)
        if unsaved is None:
            self._unsaved[key] = {queue_id}
        else:
            unsaved.add(queue_id)

    def advance(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """As `commit`, but never back."""
        known = self.find(group, topic, queue_id)
        if known is None or offset > known:
            self.commit(group, topic, queue_id, offset)

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the committed offset, None if the group never committed one there."""
        of_queues = self._committed.get((topic, group))
        return None if of_queues is None else of_queues.get(queue_id)

    def pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Record where a group pulls. In memory only, for tools."""
        key = (topic, group)
        of_queues = self._pulled.get(key)
        if of_queues is None:
            of_queues = self._pulled[key] = {}
        of_queues[queue_id] = offset

    def find_pulled(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where the group last pulled since the store started."""
        of_queues = self._pulled.get((topic, group))
        return None if of_queues is None else of_queues.get(queue_id)

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return a group's committed offsets in a topic by queue."""
        return self._committed.get((topic, group), {})

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has committed."""
        return [topic for topic, other in self._committed if other == group]

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have committed in a topic."""
        return [group for other, group in self._committed if other == topic]

    def all(self) -> Iterator[tuple[str, str, OfQueues]]:
        """Yield (topic, group, offsets) of everything committed."""
        for (topic, group), of_queues in self._committed.items():
            yield topic, group, of_queues

    def remove_group(self, group: str) -> None:
        """Forget a group's offsets."""
        self._remove([key for key in self._committed if key[1] == group])

    def remove_topic(self, topic: str) -> None:
        """Forget all groups' offsets in a topic."""
        self._remove([key for key in self._committed if key[0] == topic])

    def unsaved(self) -> dict[Key, tuple[int, ...]]:
        """Return what moved or was forgotten and was not taken since: queue ids by topic and group."""
        return {key: tuple(queue_ids) for key, queue_ids in self._unsaved.items()}

    def keys(self) -> dict[Key, tuple[int, ...]]:
        """Return the queue ids of everything committed."""
        return {key: tuple(of_queues) for key, of_queues in self._committed.items()}

    def still_unsaved(self, piece: Piece) -> Piece:
        """Return which of these offsets are still to be saved."""
        unsaved = self._unsaved.get((piece.topic, piece.group), ())
        return piece._replace(
            queue_ids=tuple(queue_id for queue_id in piece.queue_ids if queue_id in unsaved)
        )

    def take(self, piece: Piece) -> Row:
        """Return current offsets. They count as saved from now on."""
        key = (piece.topic, piece.group)
        unsaved = self._unsaved.get(key)
        if unsaved is not None:
            unsaved.difference_update(piece.queue_ids)
            if not unsaved:
                del self._unsaved[key]
        of_queues = self._committed.get(key, {})
        return Row(*key, {queue_id: of_queues.get(queue_id) for queue_id in piece.queue_ids})

    def not_saved(self, row: Row) -> None:
        """Count offsets as unsaved again: the log did not take them."""
        self._unsaved.setdefault((row.topic, row.group), set()).update(row.offsets)

    def replace(self, offsets: Mapping[Key, Mapping[int, int]]) -> None:
        """Take what a store knew at its opening. What was pulled since stays, unless it is behind."""
        pulled = self._committed
        self._committed = {key: dict(of_queues) for key, of_queues in offsets.items()}
        self._unsaved.clear()
        for (topic, group), of_queues in pulled.items():
            for queue_id, offset in of_queues.items():
                self.advance(group, topic, queue_id, offset)

    def _remove(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._unsaved.setdefault(key, set()).update(self._committed.pop(key))
            self._pulled.pop(key, None)
