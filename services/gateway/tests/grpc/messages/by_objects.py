"""Delivered messages built from the protobuf runtime's objects: the reference for the product, which writes their bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from gantry_wire.limits import INT32_MAX
from gantry_wire.messages import properties as p
from gantry_wire.names import DLQ_PREFIX, RETRY_PREFIX
from gantry_wire.records.message_record import Record
from gateway.grpc.messages.delivered import Delivery
from gateway.grpc.messages.property_rules import is_reserved
from gateway.grpc.messages.sent import TIME_MS_MAX, TRACEPARENT
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.duration import duration
from gateway.grpc.proto.enums import DigestType, Encoding, MessageType
from gateway.grpc.proto.message import DeadLetterQueue, Digest, Message, SystemProperties
from gateway.grpc.proto.timestamp import Timestamp, timestamp
from gateway.messages.message_view import unpacked

_TIME_MS_MIN = -62_135_596_800_000
"""The first millisecond of a Timestamp."""
_DIGITS_MAX = 18
_GZIP_HEAD = b"\x1f\x8b"
_RETRY, _DEAD = RETRY_PREFIX.encode(), DLQ_PREFIX.encode()
_TEXTS = (
    (p.TAGS, "tag"),
    (p.SHARDING_KEY, "message_group"),
    (p.LITE_TOPIC, "lite_topic"),
    (TRACEPARENT, "trace_context"),
    (p.TRACE_CONTEXT, "trace_context"),
)
"""Properties that are fields as they are; the last of two for one field wins."""
_DELAYS = frozenset({p.DELAY, p.TIMER_DELIVER_MS, p.TIMER_DELAY_SEC, p.TIMER_DELAY_MS})
_TYPES = (
    (p.SHARDING_KEY, MessageType.FIFO),
    (p.PRIORITY, MessageType.PRIORITY),
    (p.LITE_TOPIC, MessageType.LITE),
)
_RARE = frozenset(
    {
        p.PRIORITY,
        p.TIMER_DELIVER_MS,
        p.TIMER_OUT_MS,
        p.CHECK_IMMUNITY_TIME,
        p.DLQ_ORIGIN_TOPIC,
        p.ORIGIN_MESSAGE_ID,
    }
)
"""Properties that `_add_rare` reads."""


def delivered(record: Record, delivery: Delivery) -> Message:
    """Return a leased message."""
    message = message_of(record, delivery.topic)
    system = message.system_properties
    system.receipt_handle = delivery.receipt_handle
    system.delivery_attempt = delivery.attempt
    system.invisible_duration.CopyFrom(delivery.invisible)
    return message


def message_of(record: Record, topic: Resource) -> Message:
    """Return a stored message that is not leased: one that is pulled, or the half of a transaction.

    Bytes of properties that are not UTF-8 are replaced: such a message came from a client of another protocol.
    """
    properties = record.readable_properties()
    body, encoding = _body(record)
    trace = properties.get(p.TRACE_CONTEXT)
    hidden = TRACEPARENT if trace and properties.get(TRACEPARENT) == trace else ""
    return Message(
        topic=topic,
        user_properties={
            name: value for name, value in properties.items() if not is_reserved(name) and name != hidden
        },
        system_properties=_system(record, properties, body, encoding),
        body=body,
    )


def _body(record: Record) -> tuple[bytes, Encoding]:
    """Return the body and its encoding. LZ4 and ZSTD have none: those bodies are delivered as stored."""
    body, compression = unpacked(record)
    is_gzip = compression is not None and body.startswith(_GZIP_HEAD)
    return body, Encoding.GZIP if is_gzip else Encoding.IDENTITY


def _system(
    record: Record, properties: Mapping[str, str], body: bytes, encoding: Encoding
) -> SystemProperties:
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    system = SystemProperties(
        keys=[key for key in properties.get(p.KEYS, "").split(" ") if key],
        message_id=properties.get(p.UNIQ_KEY) or record.message_id,
        body_digest=Digest(type=DigestType.MD5, checksum=digest),
        body_encoding=encoding,
        message_type=_type(record, properties),
        born_timestamp=_time(record.born_timestamp),
        born_host=properties.get(p.BORN_HOST) or record.born_address[0],
        store_timestamp=_time(record.store_timestamp),
        store_host="{}:{}".format(*record.store_address),
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
    )
    for name, field in _TEXTS:
        if name in properties:
            setattr(system, field, properties[name])
    if not _RARE.isdisjoint(properties):
        _add_rare(system, record, properties)
    return system


def _add_rare(system: SystemProperties, record: Record, properties: Mapping[str, str]) -> None:
    priority = _number(properties.get(p.PRIORITY))
    if priority is not None and priority <= INT32_MAX:
        system.priority = priority
    deliver_ms = _number(properties.get(p.TIMER_DELIVER_MS) or properties.get(p.TIMER_OUT_MS))
    if deliver_ms is not None and not _is_retry(record):
        system.delivery_timestamp.CopyFrom(_time(deliver_ms))
    recovery_s = _number(properties.get(p.CHECK_IMMUNITY_TIME))
    if recovery_s is not None and recovery_s <= INT32_MAX:
        system.orphaned_transaction_recovery_duration.CopyFrom(duration(recovery_s * 1000))
    origin = _dead_letter_origin(record, properties)
    if origin is not None:
        system.dead_letter_queue.CopyFrom(origin)


def _dead_letter_origin(record: Record, properties: Mapping[str, str]) -> DeadLetterQueue | None:
    """Return where a dead letter came from: from RocketMQ's properties, or those of Gantry's stores."""
    topic, message_id = properties.get(p.DLQ_ORIGIN_TOPIC), properties.get(p.DLQ_ORIGIN_MESSAGE_ID)
    if not (topic and message_id) and record.topic.startswith(_DEAD):
        topic, message_id = properties.get(p.RETRY_TOPIC), properties.get(p.ORIGIN_MESSAGE_ID)
    return DeadLetterQueue(topic=topic, message_id=message_id) if topic and message_id else None


def _type(record: Record, properties: Mapping[str, str]) -> MessageType:
    """Return the type by properties, in RocketMQ's order. The delay of a retry does not make a message a delayed one."""
    if properties.get(p.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if not _DELAYS.isdisjoint(properties) and not _is_retry(record):
        return MessageType.DELAY
    return next((kind for name, kind in _TYPES if name in properties), MessageType.NORMAL)


def _is_retry(record: Record) -> bool:
    return record.topic.startswith(_RETRY)


def _time(ms: int) -> Timestamp:
    """Return a time; one outside the calendar is clamped, since clients refuse a whole batch for it."""
    return timestamp(min(max(ms, _TIME_MS_MIN), TIME_MS_MAX))


def _number(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if text is not None and is_number else None
