"""Namespaces: a prefix of the names of topics and groups. RocketMQ's rule. Pure."""

from __future__ import annotations

from gantry_wire.names import (
    AUTO_CREATE_TOPIC,
    DLQ_PREFIX,
    RETRY_PREFIX,
    SEND_FORBIDDEN_TOPICS,
    SYSTEM_GROUP_PREFIX,
    SYSTEM_TOPIC_PREFIX,
    TRACE_TOPIC,
)

SEPARATOR = "%"
_SYSTEM = SEND_FORBIDDEN_TOPICS | {
    AUTO_CREATE_TOPIC,
    TRACE_TOPIC,
    "BenchmarkTest",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
}


def wrap(namespace: str, name: str) -> str:
    """Return the cluster's name of a topic or group. System names and already prefixed ones stay as they are."""
    if not namespace or not name or _is_system(name):
        return name
    prefix, bare = _split(name)
    start = namespace + SEPARATOR
    return name if bare.startswith(start) else f"{prefix}{start}{bare}"


def unwrap(namespace: str, name: str) -> str:
    """Return the name of a topic or group for clients of this namespace."""
    if not namespace:
        return name
    prefix, bare = _split(name)
    return prefix + bare.removeprefix(namespace + SEPARATOR)


def _is_system(name: str) -> bool:
    return name in _SYSTEM or name.startswith((SYSTEM_TOPIC_PREFIX, SYSTEM_GROUP_PREFIX))


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
