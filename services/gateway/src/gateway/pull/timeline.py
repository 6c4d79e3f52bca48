"""The timeline of a message, from its records in the log: each record shows where the message came from. Pure."""

from collections.abc import Iterable

from gantry_wire.messages.properties import (
    DELAY,
    DLQ_ORIGIN_TOPIC,
    GANTRY_DLQ_ATTEMPTS,
    GANTRY_DLQ_CONSUMER,
    GANTRY_DLQ_REASON,
    GANTRY_ORIGIN,
    GANTRY_SETTLED,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_TOPIC,
    TIMER_OUT_MS,
)
from gantry_wire.names import (
    DLQ_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)
from gantry_wire.private_requests.settling import MessageEvent
from gantry_wire.records.message_record import Record
from gateway.messages.message_view import rfc3339
from gateway.messages.schemas import TimelineEvent

WAITING_TOPICS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})
SYSTEM_TOPICS = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)
"""Where a message may be stored besides its own topic and the groups' topics."""


_TRANSACTIONAL = {HALF_TOPIC: "half", TRANS_CHECK_MAX_TIME_TOPIC: "gaveUp"}
_CAME_FROM = {SCHEDULE_TOPIC: "delivered", TIMER_TOPIC: "delivered", HALF_TOPIC: "committed"}


def belongs(record: Record, topic: str) -> bool:
    """Return whether a record with the message's id in a system topic belongs to the message of this topic."""
    held = record.topic.decode(errors="replace")
    if held == topic or held.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return True
    real = record.property_map().get(REAL_TOPIC, "")
    return real == topic or real.startswith((RETRY_PREFIX, DLQ_PREFIX))


def origin_of(record: Record) -> str:
    """Return the topic from which a record came into a retry or dead-letter topic, or will; "" for other records, and if it is not known."""
    named = record.property_map()
    held = record.topic.decode(errors="replace")
    if not any(name.startswith((RETRY_PREFIX, DLQ_PREFIX)) for name in (held, named.get(REAL_TOPIC, ""))):
        return ""
    placed = named.get(GANTRY_ORIGIN, "").partition(":")[0]
    return placed or named.get(DLQ_ORIGIN_TOPIC, "") or named.get(RETRY_TOPIC, "")


def record_event(record: Record, broker: str) -> TimelineEvent:
    """Return the event of a record: that the message was stored there, and why."""
    topic = record.topic.decode(errors="replace")
    properties = record.property_map()
    name, group, detail = _meaning(topic, properties, record.reconsume_times)
    return TimelineEvent(
        name,
        rfc3339(record.store_timestamp),
        broker,
        topic,
        record.queue_id,
        record.queue_offset,
        record.message_id,
        group,
        {name: value for name, value in detail.items() if value},
    )


def state_events(record: Record, broker: str, events: Iterable[MessageEvent]) -> list[TimelineEvent]:
    """Return the store's further events of a record: decisions, leases, acknowledgements."""
    return [
        TimelineEvent(
            one.kind,
            None if one.time_ms is None else rfc3339(one.time_ms),
            broker,
            record.topic.decode(errors="replace"),
            record.queue_id,
            record.queue_offset,
            record.message_id,
            one.group,
            one.detail | ({"outcome": one.outcome} if one.outcome else {}),
        )
        for one in events
    ]


def in_order(events: Iterable[TimelineEvent]) -> list[TimelineEvent]:
    """Return events by time; a current state, which has no time, is last. At equal times the decision is first."""
    return sorted(events, key=lambda one: (one.at is None, one.at or "", one.event != "settled"))


def _meaning(
    topic: str, properties: dict[str, str], reconsume_times: int
) -> tuple[str, str | None, dict[str, str]]:
    """Return the event's name, its group, and further details."""
    if topic in WAITING_TOPICS:
        return _waiting(properties, reconsume_times)
    if topic in _TRANSACTIONAL:
        return _TRANSACTIONAL[topic], None, {"targetTopic": properties.get(REAL_TOPIC, "")}
    if topic.startswith(DLQ_PREFIX):
        detail = {
            "reason": properties.get(GANTRY_DLQ_REASON, ""),
            "attempts": properties.get(GANTRY_DLQ_ATTEMPTS, "") or str(reconsume_times),
            "consumer": properties.get(GANTRY_DLQ_CONSUMER, ""),
        }
        return "dead", topic.removeprefix(DLQ_PREFIX), detail
    return _arrival(topic, properties, reconsume_times)


def _arrival(
    topic: str, properties: dict[str, str], reconsume_times: int
) -> tuple[str, str | None, dict[str, str]]:
    """Return how a message got into a client topic, or into a group's retry topic."""
    source = properties.get(GANTRY_SETTLED, "").partition(":")[0]
    group = topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else None
    if source.startswith(DLQ_PREFIX):
        return "redriven", source.removeprefix(DLQ_PREFIX), {}
    if group is not None:
        return "retried", group, {"attempt": str(reconsume_times + 1)}
    return _CAME_FROM.get(source, "stored"), None, {}


def _waiting(properties: dict[str, str], reconsume_times: int) -> tuple[str, str | None, dict[str, str]]:
    target = properties.get(REAL_TOPIC, "")
    out_ms = properties.get(TIMER_OUT_MS, "")
    detail = {
        "targetTopic": target,
        "targetQueueId": properties.get(REAL_QUEUE_ID, ""),
        "deliverAt": rfc3339(int(out_ms)) if out_ms.isdecimal() else "",
        "delayLevel": properties.get(DELAY, ""),
    }
    if target.startswith(RETRY_PREFIX):
        detail["attempt"] = str(reconsume_times + 1)
        return "scheduled", target.removeprefix(RETRY_PREFIX), detail
    return "scheduled", None, detail
