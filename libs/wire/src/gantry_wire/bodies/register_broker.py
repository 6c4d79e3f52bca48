"""The body of REGISTER_BROKER in both forms: JSON, and a zlib stream of length-prefixed parts.

    4 length, DataVersion as JSON | 4 count, then per topic 4 length, `name readQueues writeQueues perm filterType [attributes]`
    | 4 length, list of filter servers as JSON | brokers from 5.0 on: 4 count, then per mapping 4 length, JSON (skipped)

Decompression stops at INFLATED_BYTES_MAX.
"""

from __future__ import annotations

import zlib
from struct import Struct

import msgspec

from gantry_wire.bodies.cluster import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.errors import MalformedBody
from gantry_wire.limits import INFLATED_BYTES_MAX

_INT = Struct(">i")
_CRC_MASK = 0x7FFFFFFF
_TOPIC_PARTS_MIN = 5
_ZLIB_START = b"x"  # JSON never begins with it


def body_crc(body: bytes) -> int:
    """Return the bodyCrc32 header value of a body as sent."""
    return zlib.crc32(body) & _CRC_MASK


def decode_register_body(body: bytes, *, compressed: bool) -> RegisterBrokerBody:
    """Return the topics that a broker registers. Raises MalformedBody for wrong lengths. An empty body has no topics.

    RocketMQ 5.3.3 with compressedRegister=true labels its zlib body as not compressed, so the first byte is checked too.
    """
    if not body:
        return RegisterBrokerBody()
    if not compressed and not body.startswith(_ZLIB_START):
        return decode_body(body, RegisterBrokerBody)
    parts = _Parts(_inflate(body))
    version = decode_body(parts.take(), DataVersion)
    topics = [_parse_topic(parts.take()) for _ in range(parts.count())]
    try:
        servers = msgspec.json.decode(parts.take() or b"[]", type=list[str])
    except (ValueError, RecursionError) as error:
        raise MalformedBody("the list of filter servers is not a JSON list") from error
    table = {topic.topic_name: topic for topic in topics}
    wrapper = TopicConfigSerializeWrapper(data_version=version, topic_config_table=table)
    return RegisterBrokerBody(filter_server_list=servers, topic_config_serialize_wrapper=wrapper)


def encode_register_body(body: RegisterBrokerBody, *, compressed: bool) -> bytes:
    """Return the body of a register request, compressed or not."""
    if not compressed:
        return encode_body(body)
    wrapper = body.topic_config_serialize_wrapper
    parts = [_sized(encode_body(wrapper.data_version)), _INT.pack(len(wrapper.topic_config_table))]
    parts += (_sized(_format_topic(topic)) for topic in wrapper.topic_config_table.values())
    parts += (_sized(msgspec.json.encode(body.filter_server_list)), _INT.pack(0))
    return zlib.compress(b"".join(parts))


class _Parts:
    """Reads length-prefixed parts from the front of a stream."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def count(self) -> int:
        """Return the next number of parts. Each part has at least a length, so the bytes left bound the number."""
        if self._at + _INT.size > len(self._data):
            raise MalformedBody("the register body ends inside a length")
        (count,) = _INT.unpack_from(self._data, self._at)
        self._at += _INT.size
        if not 0 <= count <= len(self._data) - self._at:
            raise MalformedBody(f"a length of {count} does not fit the register body")
        return count

    def take(self) -> bytes:
        size = self.count()
        self._at += size
        return self._data[self._at - size : self._at]


def _inflate(body: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(body, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise MalformedBody("the register body is not a zlib stream") from error
    if stream.unconsumed_tail or not stream.eof:
        raise MalformedBody(f"the register body is cut, or inflates beyond {INFLATED_BYTES_MAX} bytes")
    return data


def _parse_topic(text: bytes) -> TopicConfig:
    try:
        parts = text.decode().split(" ", _TOPIC_PARTS_MIN)
        if len(parts) < _TOPIC_PARTS_MIN:
            raise MalformedBody(f"a topic has {len(parts)} parts, {_TOPIC_PARTS_MIN} are needed")
        name, read, write, perm, kind = parts[:_TOPIC_PARTS_MIN]
        attributes = parts[_TOPIC_PARTS_MIN] if len(parts) > _TOPIC_PARTS_MIN else ""
        return TopicConfig(
            topic_name=name,
            read_queue_nums=int(read),
            write_queue_nums=int(write),
            perm=int(perm),
            topic_filter_type=kind,
            attributes=msgspec.json.decode(attributes, type=dict[str, str]) if attributes else {},
        )
    except (ValueError, RecursionError) as error:
        raise MalformedBody("a topic of the register body cannot be read") from error


def _format_topic(topic: TopicConfig) -> bytes:
    attributes = msgspec.json.encode(topic.attributes).decode()
    return (
        f"{topic.topic_name} {topic.read_queue_nums} {topic.write_queue_nums} {topic.perm} "
        f"{topic.topic_filter_type} {attributes}"
    ).encode()


def _sized(part: bytes) -> bytes:
    return _INT.pack(len(part)) + part
