"""The newest entry of every topic, group and changed setting in the log. A derived state.

Entries of one key count in the order of their stamps. A topic's deletion (`deleted` in GANTRY_SYS_SEGMENT) deletes its entry as well: a
crash may have taken the entry's own deletion, which follows it.
"""

from collections.abc import Iterable

from broker_store.commit.topics import CONFIG_TOPIC
from broker_store.config_log.config_entry import (
    TABLE_OF,
    ConfigEntry,
    Key,
    Kind,
    Stamp,
    Table,
    UnreadableEntry,
    decode_entry,
    encode_entry,
)
from broker_store.state_records.keyed_entries import Codec, Kept, KeyedEntries


class ConfigEntries(KeyedEntries[ConfigEntry]):
    """All entries. A few hundred bytes each, bounded by the topics, groups and settings that clients make."""

    def __init__(self) -> None:
        self._newest: dict[Table, Stamp] = {}
        self.changes = 0
        """Grows with every change of what the entries say."""
        self.unrecorded: dict[Key, None] = {}
        """Topics that only their removal deletes: the entry's own deletion, which gives the table a new DataVersion, is not there yet."""
        super().__init__(
            "config",
            CONFIG_TOPIC,
            Codec(encode_entry, decode_entry, UnreadableEntry, "topics, groups and settings"),
        )

    def newest(self, table: Table) -> Stamp | None:
        """Return the stamp of a table's last change in the log, None if the log has no change of it."""
        return self._newest.get(table)

    def live(self, table: Table) -> dict[Key, bytes]:
        """Return the values of a table that are not deleted."""
        return live_of(self.entries(), table)

    def replaces(self, entry: ConfigEntry, position: int, kept: Kept[ConfigEntry]) -> bool:
        """Whether the entry is newer. The record of the kept one counts again where the deletion of its topic preceded it."""
        return (entry.stamp.counter, position) > (kept.entry.stamp.counter, kept.position) or (
            entry.stamp == kept.entry.stamp and position == kept.position
        )

    def apply(self, entry: ConfigEntry, position: int) -> bool:
        """As KeyedEntries."""
        table = TABLE_OF[entry.kind]
        newest = self._newest.get(table)
        if newest is None or entry.stamp.counter > newest.counter:
            self._newest[table] = entry.stamp
        is_news = super().apply(entry, position)
        if is_news:
            self.changes += 1
            self.unrecorded.pop(entry.key, None)
        return is_news

    def clear(self) -> None:
        """Forget every entry."""
        super().clear()
        self._newest = {}
        self.changes += 1
        self.unrecorded = {}

    def topic_deleted(self, topic: str) -> None:
        """Count a topic as deleted. One that was created again has a record behind the deletion, which is replayed next."""
        key = Key(Kind.TOPIC, topic)
        kept = self._kept.get(key)
        if kept is not None and kept.entry.value is not None:
            self._kept[key] = kept._replace(entry=kept.entry._replace(value=None))
            self.changes += 1
            self.unrecorded[key] = None

    def drop_deletions(self, below: int) -> None:
        """Forget deletions whose record lies below the position of a snapshot.

        Whatever they deleted lies below them. The newest change of a table stays: it holds the table's DataVersion.
        """
        self.drop(list(self._droppable(below)))

    def _droppable(self, below: int) -> Iterable[Key]:
        for entry, position in self._kept.values():
            if entry.value is None and position < below and entry.stamp != self._newest[TABLE_OF[entry.kind]]:
                yield entry.key


def live_of(entries: Iterable[ConfigEntry], table: Table) -> dict[Key, bytes]:
    """Return the values of a table that are not deleted."""
    return {
        entry.key: entry.value
        for entry in entries
        if entry.value is not None and TABLE_OF[entry.kind] is table
    }
