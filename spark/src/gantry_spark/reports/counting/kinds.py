"""Kinds of topics; `sql/kind_of.sql` has the same rules for SQL."""

from __future__ import annotations

from typing import Final

USER, RETRY, DEAD_LETTERS, SYSTEM = "user", "retry", "dead letters", "system"
_SYSTEM_PREFIXES: Final = ("GANTRY_SYS_", "RMQ_SYS_", "rmq_sys_")
_SYSTEM_TOPICS: Final = frozenset({"SCHEDULE_TOPIC_XXXX", "TRANS_CHECK_MAX_TIME_TOPIC", "OFFSET_MOVED_EVENT"})


def kind_of(topic: str) -> str:
    """Return whether a topic has user messages, retries, dead letters, or is a system topic."""
    if topic.startswith(_SYSTEM_PREFIXES) or topic in _SYSTEM_TOPICS:
        return SYSTEM
    if topic.startswith("%RETRY%"):
        return RETRY
    return DEAD_LETTERS if topic.startswith("%DLQ%") else USER
