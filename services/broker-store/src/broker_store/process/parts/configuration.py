"""Topics, groups and changed settings as one part: what begins their records, keeps them in the log, and writes their files at a stop."""

from collections.abc import Awaitable, Callable

from broker_store.config.broker_config import BrokerConfig
from broker_store.config_log.config_entry import Table
from broker_store.config_log.settings_table import (
    KeptSettings,
    SettingsChanges,
    SettingsFile,
    apply_file,
    settle_settings,
)
from broker_store.config_log.table_records import TableRecords
from broker_store.groups.group_records import settle_groups
from broker_store.opening.opened_store import OpenedStore
from broker_store.ports import Commands
from broker_store.process.foundation import Foundation, Surroundings
from broker_store.process.parts.sending import Sending
from gantry_chassis.logs.structured import get_logger
from gantry_wire.errors import RefusedRequest

_log = get_logger()


class Configuration:
    """The configuration of one store as a feature."""

    def __init__(
        self, around: Surroundings, store: OpenedStore, foundation: Foundation, sending: Sending,
        groups: TableRecords, config: BrokerConfig,
    ) -> None:  # fmt: skip
        """Apply the settings of the file. Blocks for a read. `groups` records the groups."""
        self._store = store
        self._entries = entries = store.states.config
        self._reading = foundation.reading
        self._sending = sending
        self._config = config
        file = SettingsFile(store.files, store.config_dir)
        settings = sending.records_of(KeptSettings(config), file)
        self.changes = SettingsChanges(config, settings.changed, settings.when_saved)
        self._settings_found = apply_file(config, file)
        self._records = {Table.TOPICS: sending.topic_records, Table.GROUPS: groups, Table.SETTINGS: settings}
        log = sending.config_log
        around.metrics.gauge(
            "gantry_store_config_entries", "Topics, groups, changed settings and deletions kept in the log.",
            lambda: len(entries),
        )  # fmt: skip
        around.metrics.counted(
            "gantry_store_config_rolled",
            "Entries of configuration appended again so that a segment can be deleted.",
            lambda: log.rolled,
        )

    def begin(self) -> None:
        """Let the newer of file and log count, for groups and settings, and record changes from now on. Blocks.

        The log is read to its end, and the group commit runs.
        """
        store, entries = self._store, self._entries
        was_stopped = store.was_stopped
        groups = settle_groups(
            self._reading.groups, entries, self._reading.groups_found, was_stopped=was_stopped
        )
        settings = settle_settings(self._config, entries, self._settings_found, was_stopped=was_stopped)
        assert store.topics_origin is not None, "the opening settles the topics"
        self._records[Table.SETTINGS].begin(settings)
        self._records[Table.GROUPS].begin(groups)
        self._records[Table.TOPICS].begin(store.topics_origin)

    def commands(self) -> Commands:
        """Return nothing: requests change the tables."""
        return {}

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return nothing: retention calls `roll`."""
        return {}

    def closed(self, _peer: object) -> None:
        """Do nothing: no state depends on a connection."""

    async def close(self) -> None:
        """Do nothing: requests that run may still change the tables."""

    async def save(self) -> None:
        """Wait until everything is in the log and in the files. Nothing changes any more."""
        for records in self._records.values():
            await records.close()

    async def roll(self, below: int) -> None:
        """Append again what only records below a position hold. What cannot be appended keeps its segment."""
        # A snapshot that is older than a deletion, and a log that has lost it, would give back what was deleted.
        self._entries.drop_deletions(min(below, self._sending.checkpoints.position))
        changing = {key for records in self._records.values() for key in records.owed}
        try:
            await self._sending.config_log.roll(below, changing)
        except RefusedRequest as refusal:
            _log.warning(
                "entries of configuration keep a segment that is due for deletion", reason=refusal.remark
            )
