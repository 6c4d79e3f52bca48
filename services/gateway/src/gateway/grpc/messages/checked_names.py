"""Checks names of topics and groups as RocketMQ's proxy does. Pure."""

from gantry_wire import names as wire_names
from gantry_wire.errors import IllegalName
from gateway.grpc.codes import Refused
from gateway.grpc.names import full_name
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.enums import Code

_SYSTEM_TOPICS = wire_names.SEND_FORBIDDEN_TOPICS | {
    wire_names.AUTO_CREATE_TOPIC,
    wire_names.BENCHMARK_TOPIC,
    wire_names.TRACE_TOPIC,
    "CHECKPOINT_TOPIC",
}
_SYSTEM_TOPIC_PREFIXES = (wire_names.SYSTEM_TOPIC_PREFIX, wire_names.GANTRY_SYSTEM_PREFIX)
_SYSTEM_GROUP_PREFIXES = (
    wire_names.SYSTEM_GROUP_PREFIX,
    wire_names.GANTRY_SYSTEM_PREFIX,
    wire_names.RETRY_PREFIX,
    wire_names.DLQ_PREFIX,
)
"""Groups of the system, and names that only topics of groups have."""
_SYSTEM_GROUPS = frozenset({*wire_names.PRESET_GROUPS, wire_names.GATEWAY_GROUP, wire_names.REDRIVE_GROUP})


def topic_of(resource: Resource, namespace: str) -> str:
    """Return a topic's full name; `namespace` is the call's, for a resource that has none.

    Raises Refused with ILLEGAL_TOPIC for an illegal name or a system topic.
    """
    name, full = resource.name, full_name(resource, namespace)
    if (
        name in _SYSTEM_TOPICS
        or name.startswith(_SYSTEM_TOPIC_PREFIXES)
        or full.startswith(_SYSTEM_TOPIC_PREFIXES)
    ):
        raise Refused(Code.ILLEGAL_TOPIC, f"topic {name[: wire_names.TOPIC_BYTES_MAX]} belongs to the system")
    try:
        wire_names.check_topic(full)
    except IllegalName as error:
        raise Refused(Code.ILLEGAL_TOPIC, str(error)) from error
    return full


def group_of(resource: Resource, namespace: str) -> str:
    """Return a consumer group's full name. Raises Refused with ILLEGAL_CONSUMER_GROUP."""
    name, full = resource.name, full_name(resource, namespace)
    if (
        name in _SYSTEM_GROUPS
        or name.startswith(_SYSTEM_GROUP_PREFIXES)
        or full.startswith(_SYSTEM_GROUP_PREFIXES)
    ):
        raise Refused(
            Code.ILLEGAL_CONSUMER_GROUP, f"group {name[: wire_names.TOPIC_BYTES_MAX]} belongs to the system"
        )
    try:
        wire_names.check_group(full)
    except IllegalName as error:
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, str(error)) from error
    return full
