"""Topics of this broker: their queues and permissions, how a send creates one, and how they are loaded."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, cast

from broker_store.clocks.store_clock import StoreClock
from broker_store.config.config_files import DataVersionCounter
from broker_store.config.delay_levels import parse_levels
from broker_store.settings import Settings
from gantry_chassis.logs.structured import get_logger
from gantry_wire.bodies import fastjson
from gantry_wire.bodies.cluster import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    GANTRY_SYSTEM_PREFIX,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    OP_HALF_TOPIC,
    REPLY_TOPIC_SUFFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    TIMER_TOPIC,
    TRACE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)

PERM_INHERIT = 1
PERM_WRITE = 2
PERM_READ = 4
PERM_RW = PERM_READ | PERM_WRITE

UNIT_FLAG = 1
UNIT_SUB_FLAG = 2

QUEUES_MAX = 65_536
"""RocketMQ sets no bound. This one keeps a typing error from creating a million directories."""
DELAY_LEVELS = 18
"""Queues of SCHEDULE_TOPIC_XXXX. More where the list of levels is longer."""

SEGMENT_TOPIC = f"{GANTRY_SYSTEM_PREFIX}SEGMENT"
PROBE_TOPIC = f"{GANTRY_SYSTEM_PREFIX}PROBE"
OFFSETS_TOPIC = f"{GANTRY_SYSTEM_PREFIX}OFFSETS"
MARKS_TOPIC = f"{GANTRY_SYSTEM_PREFIX}MARKS"
TASKS_TOPIC = f"{GANTRY_SYSTEM_PREFIX}TASKS"
PARKED_TOPIC = f"{GANTRY_SYSTEM_PREFIX}PARKED"
ACCESS_TOPIC = f"{GANTRY_SYSTEM_PREFIX}ACCESS"
"""Users, policies and tokens, one entry a record."""
CONFIG_TOPIC = f"{GANTRY_SYSTEM_PREFIX}CONFIG"
"""Topics, groups and changed settings, one change a record."""
COMMITTED_TOPIC = f"{GANTRY_SYSTEM_PREFIX}COMMITTED"
"""Committed offsets of groups, many a record."""
STATE_TOPICS = frozenset({ACCESS_TOPIC, CONFIG_TOPIC, COMMITTED_TOPIC})
"""Only the store itself writes there: every start reads what they hold as its own state."""
PINNED_TOPICS = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, TASKS_TOPIC)
"""System queues whose undecided items retention never deletes."""

FLUSH_ATTRIBUTE = "gantry.flush"
TYPE_ATTRIBUTE, PRIORITY_TYPE = "message.type", "PRIORITY"
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    FLUSH_ATTRIBUTE: ("sync", "async"),
    TYPE_ATTRIBUTE: ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", PRIORITY_TYPE),
    "queue.type": ("SimpleCQ",),
    "cleanup.policy": ("DELETE",),
    "reserve.time": ("-1",),
}
"""Allowed attributes and their values: Gantry's, and RocketMQ's that ask for existing behaviour."""


class TopicPolicy(NamedTuple):
    """The settings that decide about topics."""

    cluster_name: str
    broker_name: str
    auto_create: bool = True
    template_queues: int = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = True
    delay_levels: int = DELAY_LEVELS


class IllegalAttributes(ValueError):
    """Attributes of a topic are not `+name=value,-name`, or a value is not allowed."""


class TopicTable:
    """All topics by name. Every change raises the data version and is reported."""

    def __init__(
        self,
        policy: TopicPolicy,
        version: DataVersionCounter,
        known: Iterable[TopicConfig],
        on_change: Callable[[str], None],
    ) -> None:
        """`on_change` is called with the topic's name after each change."""
        self._policy = policy
        self._on_change = on_change
        self.version = version
        self.loaded_ms = version.value.timestamp
        """Time of the newest change that the loaded topics include."""
        self._topics: dict[str, TopicConfig] = {}
        self.removing: set[str] = set()
        """Topics whose deletion is being logged. They cannot be created until it is done."""
        presets = preset_topics(policy)
        self._system = frozenset(preset.topic_name for preset in presets) | {TRACE_TOPIC}
        self._fill(known)

    def take_over(self, known: Iterable[TopicConfig], version: DataVersion) -> None:
        """Replace all topics, and the version. Reports nothing: no part has read them yet, except for pulls of a rebuild."""
        self.version.value = version
        self.loaded_ms = version.timestamp
        self._fill(known)

    def presets(self) -> dict[str, TopicConfig]:
        """Return the topics that a broker with these settings has from the beginning."""
        return TopicTable(self._policy, DataVersionCounter(int), (), lambda _name: None).all()

    def _fill(self, known: Iterable[TopicConfig]) -> None:
        self._topics.clear()
        self._topics.update({topic.topic_name: topic for topic in known})
        for preset in preset_topics(self._policy):
            self._topics.setdefault(preset.topic_name, preset)
        self.keep_delay_queues(self._policy.delay_levels)
        self._set_auto_create(enable=self._policy.auto_create)

    def keep_delay_queues(self, count: int) -> None:
        """Keep at least `count` queues for delay levels."""
        schedule = self._topics[SCHEDULE_TOPIC]
        if queue_count(schedule) < count:
            schedule.read_queue_nums = schedule.write_queue_nums = count

    def set_auto_create(self, *, enable: bool) -> None:
        """Set whether TBW102 is a template for topics that a send creates."""
        if self._set_auto_create(enable=enable):
            self._changed(AUTO_CREATE_TOPIC)

    def _set_auto_create(self, *, enable: bool) -> bool:
        """As `set_auto_create`. Returns whether that changes anything."""
        perm = PERM_RW | PERM_INHERIT if enable else PERM_RW
        if self._topics[AUTO_CREATE_TOPIC].perm != perm:
            self._topics[AUTO_CREATE_TOPIC].perm = perm
            return True
        return False

    def find(self, name: str) -> TopicConfig | None:
        """Return a topic's configuration, None if it does not exist."""
        return self._topics.get(name)

    def names(self) -> list[str]:
        """Return the names of all topics, internal ones included."""
        return list(self._topics)

    def all(self) -> dict[str, TopicConfig]:
        """Return all topics by name. Read only."""
        return self._topics

    def is_system(self, name: str) -> bool:
        """Whether clients may not create, change or delete this topic."""
        return name in self._system or name.startswith((SYSTEM_TOPIC_PREFIX, GANTRY_SYSTEM_PREFIX))

    def is_internal(self, name: str) -> bool:
        """Whether the topic is Gantry's own: refused to clients, hidden from lists and nameservers."""
        return name.startswith(GANTRY_SYSTEM_PREFIX)

    def system_names(self) -> list[str]:
        """Return the system topics that clients may see."""
        return sorted(name for name in self._system if not self.is_internal(name))

    def put(self, topic: TopicConfig) -> None:
        """Create or replace a topic."""
        self._topics[topic.topic_name] = topic
        self._changed(topic.topic_name)

    def delete(self, name: str) -> bool:
        """Delete a topic. False when it does not exist."""
        if self._topics.pop(name, None) is None:
            return False
        self._changed(name)
        return True

    def ensure(self, name: str, queues: int, perm: int = PERM_RW, sys_flag: int = 0) -> TopicConfig:
        """Return a retry, dead-letter or system topic; create it with `queues` queues if missing."""
        topic = self._topics.get(name)
        if topic is None:
            self._refuse_removing(name)
            topic = new_topic(name, queues, perm, sys_flag)
            self.put(topic)
        return topic

    def create_for_send(
        self, name: str, template_name: str, client_queues: int, *, unit_mode: bool = False
    ) -> TopicConfig | None:
        """Create an unknown topic for a send. None where nothing allows it.

        The template is any existing topic with the INHERIT permission; retry topics need none. A topic
        without a queue is not created, because no message could go there. RocketMQ creates it and then
        refuses every send.
        """
        self._refuse_removing(name)
        sys_flag = UNIT_FLAG if unit_mode else 0
        template = self._topics.get(template_name)
        queues = 0 if template is None else min(client_queues, template.write_queue_nums)
        if template is not None and template.perm & PERM_INHERIT and queues > 0:
            topic = new_topic(name, queues, template.perm & ~PERM_INHERIT, sys_flag)
            topic.topic_filter_type = template.topic_filter_type
            self.put(topic)
            return topic
        if name.startswith(RETRY_PREFIX):
            return self.ensure(name, 1, PERM_RW, UNIT_SUB_FLAG if unit_mode else 0)
        return None

    def _refuse_removing(self, name: str) -> None:
        if name in self.removing:
            raise RefusedRequest(
                ResponseCode.SYSTEM_BUSY, f"topic[{name}] is being deleted, try again in a moment"
            )

    def _changed(self, name: str) -> None:
        self.version.bump()
        self._on_change(name)


def queue_count(topic: TopicConfig) -> int:
    """Return the number of queues that may be read or written."""
    return max(topic.read_queue_nums, topic.write_queue_nums)


def new_topic(name: str, queues: int, perm: int = PERM_RW, sys_flag: int = 0) -> TopicConfig:
    """Return the configuration of a topic with equal numbers of read and write queues."""
    return TopicConfig(
        topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=sys_flag
    )


def preset_topics(policy: TopicPolicy) -> list[TopicConfig]:
    """Return the topics that every broker has, and Gantry's own."""
    cluster_perm = PERM_RW | PERM_INHERIT if policy.cluster_topic_enable else PERM_INHERIT
    broker_perm = PERM_RW | PERM_INHERIT if policy.broker_topic_enable else PERM_INHERIT
    topics = [
        new_topic(AUTO_CREATE_TOPIC, policy.template_queues, PERM_RW | PERM_INHERIT),
        new_topic(SELF_TEST_TOPIC, 1),
        new_topic(BENCHMARK_TOPIC, 1024),
        new_topic(policy.cluster_name, 16, cluster_perm),
        new_topic(policy.broker_name, 1, broker_perm),
        new_topic(OFFSET_MOVED_TOPIC, 1),
        new_topic(SCHEDULE_TOPIC, max(DELAY_LEVELS, policy.delay_levels)),
        new_topic(f"{policy.cluster_name}_{REPLY_TOPIC_SUFFIX}", 1),
        new_topic(HALF_TOPIC, 1),
        new_topic(OP_HALF_TOPIC, 1),
        new_topic(TRANS_CHECK_MAX_TIME_TOPIC, 1),
        new_topic(f"rmq_sys_REVIVE_LOG_{policy.cluster_name}", 8),
        new_topic(TIMER_TOPIC, 1),
        new_topic(f"rmq_sys_SYNC_BROKER_MEMBER_{policy.broker_name}", 1, PERM_INHERIT),
        new_topic(SEGMENT_TOPIC, 1),
        new_topic(PROBE_TOPIC, 1),
        new_topic(OFFSETS_TOPIC, 1),
        new_topic(MARKS_TOPIC, 1),
        new_topic(TASKS_TOPIC, 1),
        new_topic(PARKED_TOPIC, 1),
        new_topic(ACCESS_TOPIC, 1),
        new_topic(COMMITTED_TOPIC, 1),
        new_topic(CONFIG_TOPIC, 1),
    ]
    if policy.trace_topic_enable:
        topics.append(new_topic(TRACE_TOPIC, 1))
    return topics


def change_attributes(present: dict[str, str], text: str) -> dict[str, str]:
    """Apply `+name=value,-name` to a topic's attributes.

    Raises IllegalAttributes with a message that says what to write.
    """
    changes: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        sign, name, equals, value = part[0], *part[1:].partition("=")
        if (sign == "+" and name and equals and value) or (sign == "-" and name and not equals):
            changes[sign + name] = value
        else:
            raise IllegalAttributes(f"attribute {part!r}: write +name=value or -name")
    return merge_attributes(present, changes)


def merge_attributes(present: dict[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """As `change_attributes`, for changes in a map with `+name` and `-name` keys. A plain name also sets."""
    attributes = dict(present)
    for key, value in changes.items():
        name = key.lstrip("+-")
        if key.startswith("-"):
            attributes.pop(name, None)
        else:
            _check_attribute(name, value)
            attributes[name] = value
    return attributes


def _check_attribute(name: str, value: str) -> None:
    allowed = ATTRIBUTES.get(name)
    if allowed is None:
        raise IllegalAttributes(f"unsupported key: {name}; there are {', '.join(sorted(ATTRIBUTES))}")
    if value not in allowed:
        raise IllegalAttributes(f"attribute {name}={value}: write {' or '.join(allowed)}")


_log = get_logger()


def read_topics(content: object) -> TopicConfigSerializeWrapper | None:
    """Return what the content of topics.json says, None with a log message if it is no table of topics."""
    if not isinstance(content, dict):
        _log.error("topics.json has an unknown format and is ignored", reason="it is no JSON object")
        return None
    try:
        return decode_body(fastjson.dumps(cast("dict[str, object]", content)), TopicConfigSerializeWrapper)
    except WireError as error:
        _log.error("topics.json has an unknown format and is ignored", reason=str(error))
        return None


def load_topics(
    known: TopicConfigSerializeWrapper | None,
    settings: Settings,
    clock: StoreClock,
    on_change: Callable[[str], None],
) -> TopicTable:
    """Return the topics of topics.json, None without one, and those that every broker has."""
    wrapper = known or TopicConfigSerializeWrapper(data_version=DataVersionCounter(clock.now_ms).value)
    version = DataVersionCounter(clock.now_ms, wrapper.data_version)
    return TopicTable(topic_policy(settings), version, wrapper.topic_config_table.values(), on_change)


def topic_policy(settings: Settings) -> TopicPolicy:
    """Return what the settings decide about topics."""
    return TopicPolicy(
        settings.cluster_name,
        settings.broker_name,
        settings.auto_create_topics,
        settings.topic_queues_default,
        settings.cluster_topic_enable,
        settings.broker_topic_enable,
        settings.trace_topic_enable,
        len(parse_levels(settings.delay_levels).durations_ms),
    )
