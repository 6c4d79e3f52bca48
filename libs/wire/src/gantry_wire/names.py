"""Legal names and system names of topics and groups. Knows no configuration."""

import re

from gantry_wire.errors import IllegalName
from gantry_wire.limits import GROUP_BYTES_MAX, RETRY_TOPIC_BYTES_MAX, TOPIC_BYTES_MAX

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
GANTRY_SYSTEM_PREFIX = "GANTRY_SYS_"
"""Prefix of our own topics. Clients cannot use them and lists omit them."""

AUTO_CREATE_TOPIC = "TBW102"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
REPLY_TOPIC_SUFFIX = "REPLY_TOPIC"
"""The reply topic of a cluster is `<cluster>_REPLY_TOPIC`."""

GATEWAY_GROUP = "GANTRY_GATEWAY"
"""Group of our services' sends and pulls. Preset, never listed, commits no offsets. The name grants no permission: any client may send it."""

REDRIVE_GROUP = "GANTRY_REDRIVE"
"""Group for which redriven dead letters are settled, so that each is redriven once only."""

SEND_FORBIDDEN_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)

PRESET_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_RULE = "may hold only letters, digits and % | - _"


def check_topic(topic: str) -> None:
    """Raise IllegalName unless the name is legal for a topic."""
    is_derived = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    _check("topic", topic, RETRY_TOPIC_BYTES_MAX if is_derived else TOPIC_BYTES_MAX)


def check_group(group: str) -> None:
    """Raise IllegalName unless the name is legal for a group."""
    _check("group", group, GROUP_BYTES_MAX)


def retry_topic(group: str) -> str:
    """Return the topic that holds a group's messages for redelivery."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the topic that holds a group's dead letters."""
    return DLQ_PREFIX + group


def _check(kind: str, name: str, size_max: int) -> None:
    if not name:
        raise IllegalName(f"the {kind} name is empty")
    if not _LEGAL.fullmatch(name):
        raise IllegalName(f"the {kind} name {name[:64]!r} is illegal, it {_RULE}")
    if len(name) > size_max:
        raise IllegalName(f"the {kind} name has {len(name)} characters, the limit is {size_max}")
