"""Records of RocketMQ's message trace, one for each message sent or consumed, and the messages that contain them. Pure.

A record's fields are separated by 0x01, records by 0x02.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from gantrymq.hooks import EndContext, SendContext
from gantrymq.message import Message, SendResult

FIELD, RECORD = "\x01", "\x02"
TRACE_BYTES_MAX = 128_000


class MessageType(IntEnum):
    """RocketMQ's kinds of messages, by their ordinal."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAY = 3
    ORDER = 4


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One record as text, and the keys of its trace message."""

    text: str
    keys: tuple[str, ...] = field(default_factory=tuple)


def sent_record(
    context: SendContext, message: Message, result: SendResult | None, kind: MessageType, region: str
) -> TraceRecord:
    """Return the record of a message that was sent, or failed."""
    unique = message.unique_id or ""
    parts = (
        "Pub", context.started_ms, region, context.group, message.topic, unique, message.tag or "", message.keys,
        context.address, len(message.body), round(context.seconds * 1000), int(kind),
        result.offset_message_id if result else "", "true" if result else "false",
    )  # fmt: skip
    return _record(parts, unique, message.keys)


def ended_record(context: EndContext, region: str) -> TraceRecord:
    """Return the record of a transaction's decision."""
    message = context.message
    unique, tag, keys = message.unique_id or "", message.tag or "", message.keys
    parts = (
        "EndTransaction", context.started_ms, region, context.group, message.topic, unique, tag, keys, context.address,
        int(MessageType.COMMIT), context.transaction_id, context.state, "true" if context.from_check else "false",
    )  # fmt: skip
    return _record(parts, unique, keys)


def before_record(
    group: str, region: str, request_id: str, *, started_ms: int, message_id: str, retries: int, keys: str
) -> TraceRecord:
    """Return the record of a message that is about to be consumed."""
    parts = ("SubBefore", started_ms, region, group, request_id, message_id, retries, keys)
    return _record(parts, message_id, keys)


def after_record(
    group: str,
    request_id: str,
    *,
    message_id: str,
    milliseconds: int,
    success: bool,
    keys: str,
    context_code: int,
    ended_ms: int,
) -> TraceRecord:
    """Return the record of a message that was consumed. `context_code`: 0 success, 1 time-out, 2 error, 3 null, 4 failed."""
    parts = (
        "SubAfter", request_id, message_id, milliseconds, "true" if success else "false", keys, context_code, ended_ms,
        group,
    )  # fmt: skip
    return _record(parts, message_id, keys)


def _record(parts: Iterable[object], message_id: str, keys: str) -> TraceRecord:
    text = FIELD.join(str(part).replace(FIELD, " ").replace(RECORD, " ") for part in parts) + RECORD
    return TraceRecord(text, (message_id, *keys.split()))


def trace_messages(topic: str, records: Iterable[TraceRecord]) -> list[Message]:
    """Return records as messages of bounded size, each with the ids and keys of its records."""
    messages: list[Message] = []
    texts: list[str] = []
    keys: dict[str, None] = {}
    size = 0
    for record in records:
        if texts and size + len(record.text) > TRACE_BYTES_MAX:
            messages.append(Message(topic, "".join(texts).encode(), keys=keys))
            texts, keys, size = [], {}, 0
        texts.append(record.text)
        keys.update(dict.fromkeys(filter(None, record.keys)))
        size += len(record.text)
    if texts:
        messages.append(Message(topic, "".join(texts).encode(), keys=keys))
    return messages
