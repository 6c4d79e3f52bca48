"""Topics, groups and settings of a replica that follows: what its log says so far. Loaded only by stores with replicas.

The tables of the opened store stay untouched: the end of the opening settles them, against their files too. These are read only: a topic that the
log does not name does not exist, and a group that a consumer may create has its defaults until the leader creates it.
"""

from collections.abc import Callable, Mapping

from broker_store.commit.topics import PERM_RW, TopicTable, new_topic, topic_policy
from broker_store.config.broker_config import BrokerConfig
from broker_store.config.config_files import DataVersionCounter
from broker_store.config_log.config_entries import ConfigEntries
from broker_store.config_log.config_entry import Table
from broker_store.config_log.settings_table import settings_in
from broker_store.config_log.topics_table import settle_topics
from broker_store.groups.group_records import settle_groups
from broker_store.groups.groups import GroupTable, check_group_to_put
from broker_store.settings import Settings
from gantry_wire.bodies.cluster import (
    DataVersion,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
)
from gantry_wire.errors import IllegalName
from gantry_wire.names import SYSTEM_GROUP_PREFIX

REFRESH_SECONDS = 0.25
"""Ten thousand topics take 50 ms to read again: changes are read at most so often."""


class ReplayedTopics(TopicTable):
    """All topics. Creates none."""

    def ensure(self, name: str, queues: int, perm: int = PERM_RW, sys_flag: int = 0) -> TopicConfig:
        """Return a topic, or what the leader creates it like."""
        return self.find(name) or new_topic(name, queues, perm, sys_flag)


class ReplayedGroups(GroupTable):
    """All groups. Creates and changes none."""

    def find_or_create(self, name: str) -> SubscriptionGroupConfig | None:
        """Return a group, or what the leader creates at the consumer's next heartbeat. None where a consumer may not create it."""
        found = self.find(name)
        if found is not None or not (self.auto_create or name.startswith(SYSTEM_GROUP_PREFIX)):
            return found
        try:
            check_group_to_put(name)
        except IllegalName:
            return None
        return SubscriptionGroupConfig(group_name=name)

    def set_consume_enable(self, name: str, enable: bool) -> None:
        """Change nothing: the leader pauses groups."""


class ReplayedConfig(BrokerConfig):
    """All settings. Those that readers need apply here, too; the others are shown."""

    def __init__(self, values: Mapping[str, str], version: DataVersionCounter) -> None:
        super().__init__(values, version)
        self._changed: dict[str, str] = {}

    def items(self) -> dict[str, str]:
        """See BrokerConfig."""
        return dict(sorted({**super().items(), **self._changed}.items()))

    def take_over(self, changed: Mapping[str, str], version: DataVersion) -> None:
        """Let the changes of the log count, and no other."""
        self._changed = dict(changed)
        bound = {key: value for key, value in changed.items() if key in self.changeable()}
        if bound != {**self.refused, **self.kept}:
            self.forget_changes()
            self.restore(bound)
        self.version.take_over(version)


class ReplayedTables:
    """All three."""

    def __init__(
        self,
        settings: Settings,
        entries: ConfigEntries,
        config: ReplayedConfig,
        now_ms: Callable[[], int],
        steady: Callable[[], float],
    ) -> None:
        self._entries, self._steady = entries, steady
        self.topics = ReplayedTopics(topic_policy(settings), DataVersionCounter(now_ms), (), _unheard)
        self.groups = ReplayedGroups(
            DataVersionCounter(now_ms),
            SubscriptionGroupWrapper(),
            auto_create=settings.auto_create_groups,
            on_change=_unheard,
        )
        self.config = config
        self._seen, self._read_s = -1, 0.0

    def refresh(self) -> None:
        """Read what has changed, at most a few times a second."""
        entries = self._entries
        if entries.changes == self._seen:
            return
        now_s = self._steady()
        if self._seen >= 0 and now_s - self._read_s < REFRESH_SECONDS:
            return
        self._seen, self._read_s = entries.changes, now_s
        settle_topics(self.topics, entries, None, was_stopped=False)
        settle_groups(self.groups, entries, None, was_stopped=False)
        newest = entries.newest(Table.SETTINGS)
        if newest is not None:
            self.config.take_over(settings_in(entries), newest.data_version)


def _unheard(_name: str) -> None:
    """Report nothing: readers ask the tables each time."""
