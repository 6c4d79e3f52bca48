"""Stored messages as consumers receive them. Pure.

Bodies are decompressed, since clients differ in what they decompress, and carry an MD5 digest, which all of them can check.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from gantry_wire.limits import INT32_MAX
from gantry_wire.messages import properties as p
from gantry_wire.messages.ids import unpack_host
from gantry_wire.names import DLQ_PREFIX, RETRY_PREFIX
from gantry_wire.records.message_record import Record
from gateway.grpc.messages.property_rules import is_reserved
from gateway.grpc.messages.protobuf_fields import bytes_tag, int_tag, part, varint
from gateway.grpc.messages.sent import TIME_MS_MAX, TRACEPARENT
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.duration import Duration, duration
from gateway.grpc.proto.enums import DigestType, Encoding, MessageType
from gateway.grpc.proto.message import Message
from gateway.grpc.proto.timestamp import timestamp
from gateway.messages.message_view import unpacked

_TIME_MS_MIN = -62_135_596_800_000
"""The first millisecond of a Timestamp."""
_DIGITS_MAX = 18
_GZIP_HEAD = b"\x1f\x8b"
_RETRY, _DEAD = RETRY_PREFIX.encode(), DLQ_PREFIX.encode()
_DELAYS = frozenset({p.DELAY, p.TIMER_DELIVER_MS, p.TIMER_DELAY_SEC, p.TIMER_DELAY_MS})
_TYPES = (
    (p.SHARDING_KEY, MessageType.FIFO),
    (p.PRIORITY, MessageType.PRIORITY),
    (p.LITE_TOPIC, MessageType.LITE),
)
_RESPONSE_MESSAGE = bytes_tag(2)
"""Of ReceiveMessageResponse, and of PullMessageResponse."""
_TOPIC, _USER_PROPERTY, _SYSTEM, _BODY = map(bytes_tag, (1, 2, 3, 4))
_KEY, _VALUE = map(bytes_tag, (1, 2))
_KEYS, _MESSAGE_ID, _BORN, _BORN_HOST, _STORED, _STORE_HOST = map(bytes_tag, (2, 3, 7, 8, 9, 10))
_DELIVERY, _HANDLE, _INVISIBLE, _RECOVERY, _DEAD_LETTER = map(bytes_tag, (11, 12, 15, 19, 20))
_ENCODING, _TYPE, _QUEUE_ID, _QUEUE_OFFSET, _ATTEMPT, _PRIORITY = map(int_tag, (5, 6, 13, 14, 16, 22))
_MD5 = bytes_tag(4) + varint(36) + int_tag(1) + varint(DigestType.MD5) + bytes_tag(2) + varint(32)
"""What stands before the 32 digits of a digest."""
_TEXTS = ((p.TAGS, bytes_tag(1)), (p.SHARDING_KEY, bytes_tag(17)), (p.LITE_TOPIC, bytes_tag(21)))
"""Properties that are fields as they are."""
_TRACE = bytes_tag(18)
_SPECIAL = frozenset(
    {
        *_DELAYS, *(name for name, _ in (*_TYPES, *_TEXTS)), p.TRANSACTION_PREPARED, p.KEYS, p.TRACE_CONTEXT, TRACEPARENT,
        p.TIMER_OUT_MS, p.CHECK_IMMUNITY_TIME, p.DLQ_ORIGIN_TOPIC, p.ORIGIN_MESSAGE_ID,
    }
)  # fmt: skip
"""Properties that `_special` and `_type` read: most messages have none of them."""


class Delivery(NamedTuple):
    """What a lease adds to a record."""

    topic: Resource
    """As the consumer names it, also for a message of its group's retry topic."""
    receipt_handle: str
    attempt: int
    """1 for the first delivery."""
    invisible: Duration


def delivered_part(record: Record, delivery: Delivery) -> bytes:
    """Return a leased message as a serialized ReceiveMessageResponse."""
    lease = b"%b%b%b%b" % (
        part(_HANDLE, delivery.receipt_handle.encode()),
        part(_INVISIBLE, delivery.invisible.SerializeToString()),
        _ATTEMPT,
        varint(delivery.attempt),
    )
    return part(_RESPONSE_MESSAGE, _message(record, delivery.topic, lease))


def pulled_part(record: Record, topic: Resource) -> bytes:
    """Return a message without a lease as a serialized PullMessageResponse."""
    return part(_RESPONSE_MESSAGE, _message(record, topic, b""))


def message_of(record: Record, topic: Resource) -> Message:
    """Return a message without a lease, such as the half of a transaction."""
    return Message.FromString(_message(record, topic, b""))


def _message(record: Record, topic: Resource, lease: bytes) -> bytes:
    """Return a serialized Message.

    Bytes of properties that are not UTF-8 are replaced: such a message came from a client of another protocol.
    """
    properties = record.readable_properties()
    body, encoding = _body(record)
    parts = [part(_TOPIC, topic.SerializeToString())]
    for name, value in properties.items():
        if not is_reserved(name) and not (name == TRACEPARENT and properties.get(p.TRACE_CONTEXT) == value):
            entry = part(_KEY, name.encode()) + part(_VALUE, value.encode())
            parts.append(part(_USER_PROPERTY, entry))
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    is_plain = _SPECIAL.isdisjoint(properties)
    kind = MessageType.NORMAL if is_plain else _type(record, properties)
    flags = b"%b%b%b%b" % (_ENCODING, varint(encoding), _TYPE, varint(kind))
    special = b"" if is_plain else _special(record, properties)
    system = b"%b%b%b%b%b%b" % (_MD5, digest.encode(), flags, _system(record, properties), special, lease)
    parts.append(part(_SYSTEM, system))
    parts.append(part(_BODY, body))
    return b"".join(parts)


def _body(record: Record) -> tuple[bytes, Encoding]:
    """Return the body and its encoding. LZ4 and ZSTD have none: those bodies are delivered as stored."""
    body, compression = unpacked(record)
    is_gzip = compression is not None and body.startswith(_GZIP_HEAD)
    return body, Encoding.GZIP if is_gzip else Encoding.IDENTITY


def _system(record: Record, properties: Mapping[str, str]) -> bytes:
    """Return what every message has."""
    message_id = properties.get(p.UNIQ_KEY) or record.message_id
    host = properties.get(p.BORN_HOST)
    return b"".join(
        (
            part(_MESSAGE_ID, message_id.encode()),
            _BORN,
            _time(record.born_timestamp),
            part(_BORN_HOST, host.encode() if host else _host(record.born_host)),
            _STORED,
            _time(record.store_timestamp),
            part(_STORE_HOST, _address(record.store_host)),
            _QUEUE_ID,
            varint(record.queue_id),
            _QUEUE_OFFSET,
            varint(record.queue_offset),
        )
    )


def _special(record: Record, properties: Mapping[str, str]) -> bytes:
    """Return what only some messages have."""
    parts = [part(tag, properties[name].encode()) for name, tag in _TEXTS if name in properties]
    trace = properties.get(p.TRACE_CONTEXT) or properties.get(TRACEPARENT)
    if trace:
        parts.append(part(_TRACE, trace.encode()))
    if p.KEYS in properties:
        parts += [part(_KEYS, key.encode()) for key in properties[p.KEYS].split(" ") if key]
    priority = _number(properties.get(p.PRIORITY))
    if priority is not None and priority <= INT32_MAX:
        parts.append(_PRIORITY + varint(priority))
    deliver_ms = _number(properties.get(p.TIMER_DELIVER_MS) or properties.get(p.TIMER_OUT_MS))
    if deliver_ms is not None and not _is_retry(record):
        parts.append(_DELIVERY + _time(deliver_ms))
    recovery_s = _number(properties.get(p.CHECK_IMMUNITY_TIME))
    if recovery_s is not None and recovery_s <= INT32_MAX:
        parts.append(part(_RECOVERY, duration(recovery_s * 1000).SerializeToString()))
    parts.append(_dead_letter_origin(record, properties))
    return b"".join(parts)


def _dead_letter_origin(record: Record, properties: Mapping[str, str]) -> bytes:
    """Return where a dead letter came from: from RocketMQ's properties, or those of Gantry's stores."""
    topic, message_id = properties.get(p.DLQ_ORIGIN_TOPIC), properties.get(p.DLQ_ORIGIN_MESSAGE_ID)
    if not (topic and message_id) and record.topic.startswith(_DEAD):
        topic, message_id = properties.get(p.RETRY_TOPIC), properties.get(p.ORIGIN_MESSAGE_ID)
    if not (topic and message_id):
        return b""
    return part(_DEAD_LETTER, part(_KEY, topic.encode()) + part(_VALUE, message_id.encode()))


def _type(record: Record, properties: Mapping[str, str]) -> MessageType:
    """Return the type by properties, in RocketMQ's order. The delay of a retry does not make a message a delayed one."""
    if properties.get(p.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if not _DELAYS.isdisjoint(properties) and not _is_retry(record):
        return MessageType.DELAY
    return next((kind for name, kind in _TYPES if name in properties), MessageType.NORMAL)


def _is_retry(record: Record) -> bool:
    return record.topic.startswith(_RETRY)


@lru_cache(maxsize=4096)
def _time(ms: int) -> bytes:
    """Return a Timestamp with its length. A time outside the calendar is clamped, since clients refuse a whole batch for it."""
    return part(b"", timestamp(min(max(ms, _TIME_MS_MIN), TIME_MS_MAX)).SerializeToString())


@lru_cache(maxsize=1024)
def _host(packed: bytes) -> bytes:
    return unpack_host(packed)[0].encode()


@lru_cache(maxsize=1024)
def _address(packed: bytes) -> bytes:
    return "{}:{}".format(*unpack_host(packed)).encode()


def _number(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if text is not None and is_number else None
