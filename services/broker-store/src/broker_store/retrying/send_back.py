"""The copy of a message that a consumer sends back: for its %RETRY% topic or its dead letters. Pure.

RocketMQ's rules: semantics of CONSUMER_SEND_MSG_BACK in docs/protocol.md. In addition a dead letter holds
its reason.
"""

from typing import NamedTuple

from broker_store.commit.message import Message, Mode
from broker_store.commit.queues import Queue
from broker_store.commit.special_sends import TIMERS
from broker_store.retrying.policy import FIRST_LEVEL
from gantry_wire.limits import INT32_MAX
from gantry_wire.messages.properties import (
    DELAY,
    GANTRY_DLQ_ATTEMPTS,
    GANTRY_DLQ_CONSUMER,
    GANTRY_DLQ_REASON,
    GANTRY_KEY,
    GANTRY_ORIGIN,
    GANTRY_SETTLED,
    KEYS,
    ORIGIN_MESSAGE_ID,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_TOPIC,
    TAGS,
    TIMER_OUT_MS,
    UNIQ_KEY,
    WAIT,
    edit_properties,
    tags_code,
)
from gantry_wire.records.message_record import Record

_NOT_TAKEN_ALONG = (*TIMERS, TIMER_OUT_MS, REAL_TOPIC, REAL_QUEUE_ID, GANTRY_SETTLED, GANTRY_KEY)
"""They describe how this copy came here, not the message."""
_OF_THE_DEAD = (GANTRY_DLQ_REASON, GANTRY_DLQ_ATTEMPTS, GANTRY_DLQ_CONSUMER)


class SentBack(NamedTuple):
    """A send-back request, with the group's settings for it."""

    tries_max: int
    delay_level: int
    """-1 for dead letters, 0 for the group's policy, else this level."""
    consumer: str
    reason: str
    """The consumer's error, "" for none."""


class Decision(NamedTuple):
    """The result for a sent-back message."""

    is_dead: bool
    level: int
    """Delay level of a retry. 0 where the group's own policy sets the wait."""
    reason: str


def decide(record: Record, asked: SentBack, *, has_policy: bool) -> Decision:
    """Decide whether a message is dead, else how long it waits."""
    times = record.reconsume_times
    if asked.delay_level < 0:
        return Decision(True, 0, "the consumer gave it up")
    if times >= asked.tries_max:
        return Decision(True, 0, f"its {asked.tries_max} tries are used up")
    if asked.delay_level == 0 and has_policy:
        return Decision(False, 0, "")
    return Decision(False, asked.delay_level or FIRST_LEVEL + times, "")


def copy_of(record: Record, decision: Decision, asked: SentBack, queue: Queue, mode: Mode) -> Message:
    """Return the copy to store for a message that was sent back. Keeps born time, born host, flag and body."""
    properties = record.property_map()
    topic = record.topic.decode(errors="replace")
    put = {
        RETRY_TOPIC: properties.get(RETRY_TOPIC, topic),
        ORIGIN_MESSAGE_ID: properties.get(ORIGIN_MESSAGE_ID, record.message_id),
        GANTRY_ORIGIN: properties.get(GANTRY_ORIGIN, f"{topic}:{record.queue_id}:{record.queue_offset}"),
        WAIT: "false",
        DELAY: str(decision.level),
    }
    drop = _NOT_TAKEN_ALONG if decision.is_dead else (*_NOT_TAKEN_ALONG, *_OF_THE_DEAD)
    if decision.is_dead:
        put[GANTRY_DLQ_REASON] = asked.reason or decision.reason
        put[GANTRY_DLQ_ATTEMPTS] = str(record.reconsume_times + 1)
        put[GANTRY_DLQ_CONSUMER] = asked.consumer
    raw = edit_properties(record.properties, put, drop)
    tag = properties.get(TAGS)
    return Message(
        queue, record.body, raw, tags_code(tag) if tag else 0, properties.get(UNIQ_KEY, ""), properties.get(KEYS),
        mode, None, 0, record.flag, record.sys_flag, record.born_timestamp, record.born_host,
        min(record.reconsume_times + 1, INT32_MAX),
    )  # fmt: skip
