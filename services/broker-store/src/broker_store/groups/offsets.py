"""Progress of each group in each queue: committed offsets, and the offsets last pulled. Pure; offset_keeper saves them.

Offsets are never checked against a queue's bounds, as in RocketMQ: a pull corrects them.
consumerOffset.json holds them as `{"offsetTable":{"topic@group":{0:12,1:9}}}` with bare integer keys.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

import msgspec

OfQueues = dict[int, int]
"""Queue id → offset."""
TopicGroup = tuple[str, str]

JOURNAL_FIELD = "gantryJournal"
"""The number of the last journal entry that the file includes. Another broker's file has none."""
_SEPARATOR = "@"


class Moved(NamedTuple):
    """A group's progress in a topic since the last call: only the queues that moved."""

    topic: str
    group: str
    offsets: OfQueues


class OffsetTable:
    """Committed offsets by (topic, group) and queue."""

    def __init__(self) -> None:
        self._committed: dict[TopicGroup, OfQueues] = {}
        self._pulled: dict[TopicGroup, OfQueues] = {}
        self._moved: dict[TopicGroup, set[int]] = {}
        self.changes = 0
        """Grows with every change. While it is equal there is nothing to save."""
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
        self.changes += 1
        moved = self._moved.get(key)
        if moved is None:
            self._moved[key] = {queue_id}
        else:
            moved.add(queue_id)

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

    def take_moved(self) -> list[Moved]:
        """Return what moved since the last call."""
        moved, self._moved = self._moved, {}
        return [
            Moved(topic, group, {queue_id: of_queues[queue_id] for queue_id in sorted(queue_ids)})
            for (topic, group), queue_ids in moved.items()
            if (of_queues := self._committed.get((topic, group))) is not None
        ]

    def encode(self, version: bytes, journal_number: int = 0) -> bytes:
        """Return the file's content. `version` is its DataVersion as JSON.

        `journal_number` is that of the last included journal entry. RocketMQ ignores the field.
        """
        lines = ",\n\t\t".join(
            f"{_name(topic, group)}:{{{','.join([f'{queue_id}:{offset}' for queue_id, offset in of_queues.items()])}}}"
            for (topic, group), of_queues in self._committed.items()
        )
        return (
            f'{{\n\t"dataVersion":{version.decode()},\n\t"{JOURNAL_FIELD}":{journal_number},'
            f'\n\t"offsetTable":{{\n\t\t{lines}\n\t}}\n}}'
        ).encode()

    def load(self, content: object) -> int:
        """Load the content of a file. Returns its journal number. Skips invalid offsets."""
        if not isinstance(content, dict):
            return 0
        document = cast("dict[object, object]", content)
        table = document.get("offsetTable")
        for name, offsets in _items(table):
            topic, separator, group = str(name).partition(_SEPARATOR)
            if separator and topic and group:
                self._load_queues((topic, group), offsets)
        number = document.get(JOURNAL_FIELD)
        return number if isinstance(number, int) else 0

    def _load_queues(self, key: TopicGroup, offsets: object) -> None:
        of_queues = self._committed.setdefault(key, {})
        for queue_id, offset in _items(offsets):
            try:
                of_queues[int(cast("int", queue_id))] = int(cast("int", offset))
            except (TypeError, ValueError):
                continue

    def _remove(self, keys: Iterable[TopicGroup]) -> None:
        for key in keys:
            del self._committed[key]
            self._pulled.pop(key, None)
            self._moved.pop(key, None)
            self.changes += 1


def _name(topic: str, group: str) -> str:
    return msgspec.json.encode(f"{topic}{_SEPARATOR}{group}").decode()


def _items(table: object) -> Iterable[tuple[object, object]]:
    return cast("dict[object, object]", table).items() if isinstance(table, dict) else ()
