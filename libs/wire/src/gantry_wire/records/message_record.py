"""Layout of the message record, in the log and in pull replies: builds, reads and checks records.

    size, magic, body CRC, queue id, flag, queue offset, position, system flag, born time, born host (8 or 20 bytes),
    store time, store host (8 or 20), reconsume times, prepared position, body length     fixed part: 88 … 112 bytes
    body | topic length (1 byte, V2: 2), topic | properties length (2), properties

Integers are big-endian. A blank (size, magic) fills the end of a segment. Knows no files and no offset arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, NamedTuple, TypeAlias, cast
from zlib import crc32

from gantry_wire.errors import MalformedRecord
from gantry_wire.limits import TOPIC_BYTES_MAX
from gantry_wire.messages.ids import HOST_V4_BYTES, HOST_V6_BYTES, offset_message_id, unpack_host
from gantry_wire.messages.properties import parse_properties

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194
CRC_MASK = 0x7FFFFFFF

SYS_COMPRESSED = 0x1
SYS_MULTI_TAGS = 0x2
SYS_TRANSACTION_PREPARED = 0x4
SYS_TRANSACTION_COMMIT = 0x8
SYS_TRANSACTION_ROLLBACK = 0xC
SYS_TRANSACTION_MASK = 0xC
SYS_BORN_HOST_V6 = 0x10
SYS_STORE_HOST_V6 = 0x20
SYS_INNER_BATCH = 0x80
SYS_COMPRESSION_MASK = 0x700
SYS_COMPRESSION_LZ4 = 0x100
SYS_COMPRESSION_ZSTD = 0x200
SYS_COMPRESSION_ZLIB = 0x300

RECORD_HEAD = Struct(">iIiiiqqi")
"""Size, magic, body CRC, queue id, flag, queue offset, position, system flag."""
BLANK = Struct(">iI")
"""Bytes from here to the end of the segment, magic."""
_FIXED_V4_V4 = Struct(">iIiiiqqiq8sq8siqi")
"""The head, then born time, born host, store time, store host, reconsume times, prepared position, body length."""
_FIXED = (
    _FIXED_V4_V4,
    Struct(">iIiiiqqiq20sq8siqi"),
    Struct(">iIiiiqqiq8sq20siqi"),
    Struct(">iIiiiqqiq20sq20siqi"),
)
"""Layouts by which of the two hosts is IPv6: index = (system flag >> 4) & 3."""
_HOST_BITS = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6
_NO_HOST_BITS = ~_HOST_BITS
_BYTE, _SHORT = Struct(">b"), Struct(">h")
_TAIL_V1_BYTES = 3  # topic length and properties length
_ONE_BYTE = tuple(bytes((n,)) for n in range(TOPIC_BYTES_MAX + 1))
_PUT_FIXED, _PUT_SHORT, _TAKE_SHORT = _FIXED_V4_V4.pack, _SHORT.pack, _SHORT.unpack_from
_SYS_FLAG = Struct(">i")
_SYS_FLAG_AT = RECORD_HEAD.size - _SYS_FLAG.size
_SYS_FLAG_FIELD = 7

RECORD_BYTES_MIN = _FIXED_V4_V4.size + _TAIL_V1_BYTES


Buffer: TypeAlias = "bytes | bytearray | memoryview[int]"
"""Source of records. Readers keep no reference to it."""


class RecordHead(NamedTuple):
    """The first 40 bytes of a record. In a blank only size and magic are valid."""

    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    position: int
    sys_flag: int


class Record(NamedTuple):
    """All fields of one stored message."""

    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    position: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_position: int
    body: bytes
    topic: bytes
    properties: bytes

    @property
    def born_address(self) -> tuple[str, int]:
        """Address and port of the client that sent the message."""
        return unpack_host(self.born_host)

    @property
    def store_address(self) -> tuple[str, int]:
        """Address and port of the store that stored it."""
        return unpack_host(self.store_host)

    @property
    def message_id(self) -> str:
        """The offset message id."""
        return offset_message_id(self.store_host, self.position)

    def property_map(self) -> dict[str, str]:
        """Return the properties as a dict. Raises MalformedProperties if they are not UTF-8."""
        return parse_properties(self.properties)

    def readable_properties(self) -> dict[str, str]:
        """Return the properties as a dict, with bytes that are not UTF-8 replaced.

        No checksum covers properties, so one changed bit may make them unreadable, of a message that is whole otherwise.
        """
        return parse_properties(self.properties.decode(errors="replace"))


_new_record = cast("Callable[[type[Record], tuple[Any, ...]], Record]", tuple.__new__)


def record_size(
    body_size: int, topic_size: int, properties_size: int, born_host_size: int = 8, store_host_size: int = 8
) -> int:
    """Return the size of a record."""
    return (
        RECORD_BYTES_MIN
        - 2 * HOST_V4_BYTES
        + born_host_size
        + store_host_size
        + body_size
        + topic_size
        + properties_size
        + (topic_size > TOPIC_BYTES_MAX)
    )


def build_record(  # noqa: PLR0913, PLR0917 - a record has these fields; one call per message is the budget
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    position: int,
    body: bytes,
    properties: bytes,
    flag: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_position: int = 0,
) -> bytes:
    """Return the bytes of one record. The caller checks the lengths. Hosts are packed (see ids.pack_host).

    Sets the IPv6 bits of the system flag from the hosts, whatever the client sent.
    """
    body_size, topic_size, properties_size = len(body), len(topic), len(properties)
    size = RECORD_BYTES_MIN + body_size + topic_size + properties_size
    sys_flag &= _NO_HOST_BITS
    pack, magic = _PUT_FIXED, MAGIC_V1
    if len(born_host) != HOST_V4_BYTES or len(store_host) != HOST_V4_BYTES:
        v6 = (len(born_host) == HOST_V6_BYTES) | (len(store_host) == HOST_V6_BYTES) << 1
        sys_flag |= v6 << 4
        pack = _FIXED[v6].pack
        size += _FIXED[v6].size - _FIXED_V4_V4.size
    if topic_size > TOPIC_BYTES_MAX:
        size, magic, topic_length = size + 1, MAGIC_V2, _PUT_SHORT(topic_size)
    else:
        topic_length = _ONE_BYTE[topic_size]
    crc = crc32(body) & CRC_MASK
    fixed = pack(
        size, magic, crc, queue_id, flag, queue_offset, position, sys_flag, born_timestamp, born_host,
        store_timestamp, store_host, reconsume_times, prepared_position, body_size,
    )  # fmt: skip
    return b"".join((fixed, body, topic_length, topic, _PUT_SHORT(properties_size), properties))


def fixed_layout(born_host: bytes, store_host: bytes) -> tuple[Struct, int]:
    """Return the layout of a record's fixed part for these hosts, and the matching bits of the system flag."""
    v6 = (len(born_host) == HOST_V6_BYTES) | (len(store_host) == HOST_V6_BYTES) << 1
    return _FIXED[v6], v6 << 4


def behind_body(topic: bytes) -> tuple[int, bytes]:
    """Return the magic of a topic's records, and the bytes after the body: the topic with its length."""
    if len(topic) > TOPIC_BYTES_MAX:
        return MAGIC_V2, _PUT_SHORT(len(topic)) + topic
    return MAGIC_V1, _ONE_BYTE[len(topic)] + topic


def properties_length(size: int) -> bytes:
    """Return the length field before the properties."""
    return _PUT_SHORT(size)


def rebuild_record(record: Record) -> bytes:
    """Return the bytes of a decoded record."""
    return build_record(
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.position,
        record.body,
        record.properties,
        record.flag,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.store_timestamp,
        record.store_host,
        record.reconsume_times,
        record.prepared_position,
    )


def build_blank(size: int) -> bytes:
    """Return the marker of `size` unused bytes, itself included, at the end of the segment."""
    return BLANK.pack(size, MAGIC_BLANK)


def peek_header(buffer: Buffer, at: int = 0) -> RecordHead:
    """Return the record head at `at`, unchecked. Raises MalformedRecord if there is no room for a size and a magic."""
    if len(buffer) - at >= RECORD_HEAD.size:
        return RecordHead._make(RECORD_HEAD.unpack_from(buffer, at))
    if len(buffer) - at < BLANK.size:
        raise MalformedRecord(f"{len(buffer) - at} bytes are too few for a record")
    size, magic = BLANK.unpack_from(buffer, at)
    return RecordHead(size, magic, 0, 0, 0, 0, 0, 0)


def decode_record(buffer: Buffer, at: int = 0, *, check_crc: bool = True) -> Record:
    """Return the record at `at`. Raises MalformedRecord if its size, magic, inner lengths or CRC are invalid."""
    left = len(buffer) - at
    layout = _FIXED_V4_V4  # the layout of nearly all records; trying it first saves a second read
    fixed = layout.unpack_from(buffer, at) if left >= RECORD_BYTES_MIN else None
    if (
        fixed is None
        or fixed[1] != MAGIC_V1
        or fixed[_SYS_FLAG_FIELD] & _HOST_BITS
        or not RECORD_BYTES_MIN <= fixed[0] <= left
    ):
        layout = _layout_at(buffer, at)
        fixed = layout.unpack_from(buffer, at)
    size, magic, body_size = fixed[0], fixed[1], fixed[-1]
    body_at, end = at + layout.size, at + size
    body_end = body_at + body_size
    topic_length = _BYTE if magic == MAGIC_V1 else _SHORT
    topic_at = body_end + topic_length.size
    if body_size < 0 or topic_at + _SHORT.size > end:
        raise MalformedRecord(f"body of {body_size} bytes does not fit a record of {size}")
    topic_size: int = topic_length.unpack_from(buffer, body_end)[0]
    topic_end = topic_at + topic_size
    properties_at = topic_end + _SHORT.size
    if topic_size < 0 or properties_at > end or properties_at + _TAKE_SHORT(buffer, topic_end)[0] != end:
        raise MalformedRecord(f"topic and properties do not fill a record of {size} bytes")
    body = bytes(buffer[body_at:body_end])
    if check_crc and crc32(body) & CRC_MASK != fixed[2]:
        raise MalformedRecord(f"body of the record at position {fixed[6]} fails its CRC")
    return _new_record(
        Record, (*fixed[:-1], body, bytes(buffer[topic_at:topic_end]), bytes(buffer[properties_at:end]))
    )


def _layout_at(buffer: Buffer, at: int) -> Struct:
    """Return the fixed layout of the record at `at`. Raises MalformedRecord if its size, magic or hosts are impossible."""
    left = len(buffer) - at
    if left < RECORD_BYTES_MIN:
        raise MalformedRecord(f"{left} bytes are too few for a record")
    size, magic = BLANK.unpack_from(buffer, at)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise MalformedRecord(f"magic {magic:#x} is not a record's")
    v6: int = _SYS_FLAG.unpack_from(buffer, at + _SYS_FLAG_AT)[0] >> 4 & 3
    layout = _FIXED[v6]
    size_min = layout.size + _TAIL_V1_BYTES
    if not size_min <= size <= left:
        raise MalformedRecord(f"record size {size} is outside {size_min}..{left}")
    return layout


def scan_records(buffer: Buffer, base_position: int | None = None) -> Iterator[Record]:
    """Yield consecutive records until the bytes end, or a blank or zeros begin.

    `base_position` is the position of the first byte; if given, every record must contain its actual position.
    Raises MalformedRecord for anything else.
    """
    at = 0
    while at < len(buffer):
        size, magic = peek_header(buffer, at)[:2]
        if magic == MAGIC_BLANK or (size == 0 and magic == 0):
            return
        record = decode_record(buffer, at)
        if base_position is not None and record.position != base_position + at:
            raise MalformedRecord(
                f"the record at position {base_position + at} contains the position {record.position}"
            )
        yield record
        at += record.size
