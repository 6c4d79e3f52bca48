"""Formats leased records as the JSON of a receive's reply. Pure.

Most messages of a topic differ only in body, id, place and times: the JSON of their properties is cached (`received_kept`), and
those of one size are formatted together (`received_even`). Unusual records are formatted by `message_view`.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception
from typing import NamedTuple
from zlib import crc32

import msgspec

from gantry_wire.errors import MalformedRecord
from gantry_wire.names import RETRY_PREFIX
from gantry_wire.records.message_record import CRC_MASK, MAGIC_V1, decode_record
from gateway.messages.message_view import message, rfc3339
from gateway.ports.leases import Leased, ReceiveAsk
from gateway.receive.receipts import Receipts
from gateway.receive.received_even import Said, even_run
from gateway.receive.received_kept import host_part, kept, shown_time

_FIXED = Struct(">iIiiiqqiq8sq8siqi")
_UNIQUE = b"UNIQ_KEY\x01"
_RETRY = RETRY_PREFIX.encode()
_PLAIN_FLAGS_NOT = 0x1 | 0x10 | 0x20
"""Compressed, or with an IPv6 host."""
_END = 2

_encode = msgspec.json.encode

Text = tuple[int, int, int, int, bytes]
"""1 for the retry topic, size, queue id, offset, and the JSON of a record without its closing brace."""
Places = tuple[int, int, Sequence[int], int]
"""1 for the retry topic, queue id, offsets, lease."""


class Shown(NamedTuple):
    """Messages as JSON, and their places."""

    parts: list[bytes]
    places: list[Places]

    def all_places(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield 1 for the retry topic, queue id, offset and lease of each message."""
        for is_retry, queue_id, offsets, lease in self.places:
            for offset in offsets:
                yield is_retry, queue_id, offset, lease


def shown(ask: ReceiveAsk, broker: str, leased: Leased, receipts: Receipts) -> Shown:
    """Return leased messages with their handles. Raises MalformedRecord."""
    data, runs, topic, until_ms = bytes(leased.records), leased.runs, ask.topic, leased.until_ms
    broker_bytes, wanted_topic = broker.encode(), topic.encode()
    until, shown_broker, make = rfc3339(until_ms).encode(), _encode(broker), receipts.make
    said = Said(wanted_topic, shown_broker, broker_bytes, until, receipts)
    parts, places = list[bytes](), list[Places]()
    at = 0
    for run in runs:
        count, lease, attempt = run
        even = even_run(data, at, run, said)
        if even is not None:
            parts += even.parts
            places.append((0, even.queue_id, even.offsets, lease))
            at += even.size
            continue
        for _ in range(count):
            plain = _plain(data, at, wanted_topic, shown_broker)
            is_retry, size, queue_id, offset, text = plain or _closer(data, at, broker, topic)
            at += size
            handle = make(broker_bytes, is_retry, queue_id, offset, lease)
            parts.append(
                b'%s,"receiptHandle":"%s","invisibleUntil":"%s","deliveryAttempt":%d}'
                % (text, handle, until, attempt)
            )
            places.append((is_retry, queue_id, (offset,), lease))
    if at != len(data):
        raise MalformedRecord(f"{len(data) - at} bytes follow the last leased record")
    return Shown(parts, places)


def _closer(data: bytes, at: int, broker: str, topic: str) -> Text:
    """Return the JSON of any record. Raises MalformedRecord."""
    record = decode_record(data, at)
    is_retry = record.topic != topic.encode() and record.topic.startswith(_RETRY)
    one = message(record, broker)
    if is_retry:
        one.topic = topic
    return int(is_retry), record.size, record.queue_id, record.queue_offset, _encode(one)[:-1]


def _plain(data: bytes, at: int, wanted_topic: bytes, broker: bytes) -> Text | None:
    """Return the JSON of a plain record; None for an unusual one."""
    try:
        (
            size, magic, crc, queue_id, _flag, offset, position, sys_flag, born_ms, _born, stored_ms, host,
            reconsume_times, _prepared, body_size,
        ) = _FIXED.unpack_from(data, at)  # fmt: skip
        body_at = at + _FIXED.size
        topic_at: int = body_at + body_size
        topic_end: int = topic_at + 1 + data[topic_at]
    except (StructError, IndexError):
        return None
    body, end = data[body_at:topic_at], at + size
    if (
        magic != MAGIC_V1
        or sys_flag & _PLAIN_FLAGS_NOT
        or body_size < 0
        or end > len(data)
        or data[topic_at + 1 : topic_end] != wanted_topic
        or topic_end + 2 + int.from_bytes(data[topic_end : topic_end + 2]) != end
        or crc32(body) & CRC_MASK != crc
    ):
        return None
    try:
        text = _encode(body.decode())
    except UnicodeDecodeError:
        return None
    properties = data[topic_end + 2 : end]
    start = properties.find(_UNIQUE)
    if start < 0 or (start and properties[start - 1] != _END) or properties.find(_UNIQUE, start + 1) >= 0:
        return None
    unique, _, behind = properties[start + len(_UNIQUE) :].partition(b"\x02")
    if not unique.isalnum():  # valid in JSON without escapes?
        return None
    others = properties[:start] + behind
    found = kept(others, wanted_topic, data, at)
    id_ = b"%s%016X" % (host_part(host), position)
    return (
        0,
        size,
        queue_id,
        offset,
        b'{"messageId":"%s","topic":"%s","broker":%s,"queueId":%d,"queueOffset":%d%s,"bornTimestamp":"%s","storeTimestamp":"%s"'
        b',"reconsumeTimes":%d,"offsetMessageId":"%s"%s%s%s'
        % (
            unique,
            wanted_topic,
            broker,
            queue_id,
            offset,
            found[0],
            shown_time(born_ms),
            shown_time(stored_ms),
            reconsume_times,
            id_,
            found[1],
            text,
            found[2],
        ),
    )
