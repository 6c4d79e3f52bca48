"""The SQL92 expression of each group and topic, from heartbeats. Pure: callers pass the time and save.

The rules are those of RocketMQ's ConsumerFilterManager: a newer subscription version replaces an older one,
a group that left is dead, and dead entries are removed after 24 h. consumerFilter.json holds the table in
RocketMQ's format, without bloom filters, which nothing here uses. A RocketMQ broker then skips the entry
and takes it from the next heartbeat.
"""

from collections.abc import Iterable, Iterator

import msgspec

from broker_store.filters.compiled import compiled
from gantry_wire.bodies import fastjson
from gantry_wire.bodies.clients import SubscriptionData
from gantry_wire.sql92.compiling import SqlFilter
from gantry_wire.sql92.errors import MalformedSql
from gantry_wire.subscription import SQL92, TAG

CLEAN_AFTER_MS = 24 * 3600 * 1000
DEAD_BEFORE_LOAD_MS = 30_000
"""Groups read from the file count as having left this long ago, until a heartbeat arrives."""
ENTRIES_MAX = 20_000
"""Most filters kept. Beyond it new ones are not recorded, and pulls that need them get code 27."""


class FilterData(msgspec.Struct, kw_only=True, rename="camel"):
    """One group's expression for one topic. A dead time at or after the birth means that the group has left."""

    born_time: int
    client_version: int
    consumer_group: str
    dead_time: int = 0
    expression: str
    expression_type: str
    topic: str

    @property
    def is_dead(self) -> bool:
        """Whether the group has left."""
        return self.dead_time >= self.born_time

    @property
    def compiled(self) -> SqlFilter:
        """The filter. Entries of the table compile."""
        return compiled(self.expression)


class _OfTopic(msgspec.Struct, kw_only=True, rename="camel"):
    group_filter_data: dict[str, FilterData] = msgspec.field(default_factory=dict[str, FilterData])
    topic: str = ""


class _File(msgspec.Struct, kw_only=True, rename="camel"):
    filter_data_by_topic: dict[str, _OfTopic] = msgspec.field(default_factory=dict[str, _OfTopic])


class FilterTable:
    """All filters by topic and group. `changes` grows with every change that must be saved."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, FilterData]] = {}
        self._topics_of: dict[str, set[str]] = {}
        self._count = 0
        self.changes = 0

    def find(self, topic: str, group: str) -> FilterData | None:
        """Return a group's filter of a topic."""
        of_topic = self._topics.get(topic)
        return None if of_topic is None else of_topic.get(group)

    def all(self) -> Iterator[FilterData]:
        """Yield every entry."""
        for of_topic in self._topics.values():
            yield from of_topic.values()

    def register(self, group: str, subscriptions: Iterable[SubscriptionData], now_ms: int) -> None:
        """Record the subscriptions of a heartbeat, which are all the group has. Other topics' entries become dead."""
        named: set[str] = set()
        for subscription in subscriptions:
            named.add(subscription.topic)
            if (subscription.expression_type or TAG) != TAG and subscription.sub_string:
                self._register(group, subscription, now_ms)
        for topic in self._topics_of.get(group, set()) - named:
            self._bury(self._topics[topic][group], now_ms)

    def leave(self, group: str, now_ms: int) -> None:
        """Record that the last client of a group has left."""
        for topic in self._topics_of.get(group, ()):
            self._bury(self._topics[topic][group], now_ms)

    def clean(self, now_ms: int) -> int:
        """Remove what has been dead for CLEAN_AFTER_MS. Returns how many entries."""
        late = [data for data in self.all() if data.is_dead and now_ms - data.dead_time >= CLEAN_AFTER_MS]
        for data in late:
            self._remove(data)
        return len(late)

    def forget_topic(self, topic: str) -> None:
        """Forget a deleted topic."""
        for data in list(self._topics.get(topic, {}).values()):
            self._remove(data)

    def encode(self) -> bytes:
        """Return the content of consumerFilter.json."""
        return fastjson.dumps(
            _File(
                filter_data_by_topic={
                    topic: _OfTopic(group_filter_data=of_topic, topic=topic)
                    for topic, of_topic in self._topics.items()
                }
            )
        )

    def load(self, content: object, now_ms: int) -> bool:
        """Load the content of a file. False when its format differs. Skips expressions that do not compile."""
        try:
            file = msgspec.convert(content, _File, strict=False, str_keys=True)
        except msgspec.ValidationError:
            return False
        for of_topic in file.filter_data_by_topic.values():
            for data in of_topic.group_filter_data.values():
                if not data.is_dead:
                    data.dead_time = max(now_ms - DEAD_BEFORE_LOAD_MS, data.born_time)
                if _compiles(data.expression_type, data.expression):
                    self._put(data)
        return True

    def _register(self, group: str, subscription: SubscriptionData, now_ms: int) -> None:
        topic, version = subscription.topic, subscription.sub_version
        known = self.find(topic, group)
        if known is not None and version <= known.client_version:
            if version == known.client_version and known.is_dead:
                known.dead_time = 0
                self.changes += 1
            return
        kind, expression = subscription.expression_type, subscription.sub_string
        if known is not None and (known.expression_type, known.expression) == (kind, expression):
            known.client_version, known.dead_time = version, 0
            self.changes += 1
        elif _compiles(kind, expression):
            self._put(
                FilterData(
                    born_time=now_ms,
                    client_version=version,
                    consumer_group=group,
                    expression=expression,
                    expression_type=kind,
                    topic=topic,
                )
            )
        elif (
            known is not None
        ):  # the pull is answered that there is no filter: the old one is not the group's
            self._remove(known)

    def _put(self, data: FilterData) -> None:
        of_topic = self._topics.setdefault(data.topic, {})
        if data.consumer_group not in of_topic:
            if self._count >= ENTRIES_MAX:
                return
            self._count += 1
        of_topic[data.consumer_group] = data
        self._topics_of.setdefault(data.consumer_group, set()).add(data.topic)
        self.changes += 1

    def _remove(self, data: FilterData) -> None:
        topic, group = data.topic, data.consumer_group
        del self._topics[topic][group]
        self._topics_of[group].discard(topic)
        if not self._topics[topic]:
            del self._topics[topic]
        if not self._topics_of[group]:
            del self._topics_of[group]
        self._count -= 1
        self.changes += 1

    def _bury(self, data: FilterData, now_ms: int) -> None:
        if not data.is_dead:
            data.dead_time = max(now_ms, data.born_time)
            self.changes += 1


def _compiles(kind: str, expression: str) -> bool:
    try:
        compiled(expression)
    except MalformedSql:
        return False
    return kind == SQL92
