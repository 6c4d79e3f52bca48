"""Messages of replicas, and shipments of log bytes, as private requests between stores (9060 to 9069). Layout only; docs/protocol.md, 11.6.

All are one-way and have no fields. A body begins with the sender's name and the session; numbers are big-endian. What does not fit the layout, or
breaks a bound, closes the connection: its sender is no replica of this version, or bytes were changed on the way.

A shipment is cut into parts, so that no frame is larger than PART_BYTES_MAX and some fields: a run of records may be larger than a frame may be.
"""

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import TypeAlias
from zlib import crc32

from broker_store.log.files.files import Data
from broker_store.replication.epochs import ENTRIES_MAX, NUMBER_MAX, EpochTable, MalformedEpochTable
from broker_store.replication.messages import (
    Beat,
    DurableEnd,
    HaveBytes,
    Hello,
    Leads,
    Message,
    Refused,
    Resigned,
    Session,
    WantBytes,
    Welcome,
)
from broker_store.replication.register.record import NAME_CHARS_MAX, NONCE_CHARS_MAX
from gantry_wire.codes import GantryCode
from gantry_wire.errors import WireError
from gantry_wire.limits import RECORD_BYTES_MAX

SHIPMENT_BYTES_MAX = 288 * 1024 * 1024
"""Bytes of one shipment. The largest run of records that stay together fits: 64 outcomes of one item, each with the largest body."""
PART_BYTES_MAX = 1024 * 1024
LIFE_BYTES_MAX = NONCE_CHARS_MAX
GROUP_BYTES_MAX = 4 * NAME_CHARS_MAX
FRAME_BODY_BYTES_MAX = 2 * PART_BYTES_MAX
"""No body is larger."""

_NO_CONFIRM = -1
_TEXT = Struct(">H")
_SESSION = Struct(">Q")
_HELLO = Struct(">qq")
_WELCOME = Struct(">qqqqq")
_REFUSED = Struct(">q")
_BEAT = Struct(">qqqqq")
_DURABLE_END = Struct(">qqqqqB")
_RESIGNED = Struct(">qq")
_LEADS = Struct(">q")
_WANT = Struct(">qI")
_HAVE = Struct(">qI")
_PART = Struct(">qqIII")
_NAME = re.compile(r"[%|a-zA-Z0-9_.:@-]+")
_LIFE = re.compile(r"[a-zA-Z0-9_-]+")
_ORIGIN = re.compile(r"[a-zA-Z0-9_-]*")

assert SHIPMENT_BYTES_MAX > 64 * RECORD_BYTES_MAX
_LARGEST_HEAD = 3 * _TEXT.size + NAME_CHARS_MAX + LIFE_BYTES_MAX + GROUP_BYTES_MAX + 64
assert _LARGEST_HEAD + EpochTable.wire_bytes(ENTRIES_MAX) <= FRAME_BODY_BYTES_MAX
assert _LARGEST_HEAD + PART_BYTES_MAX <= FRAME_BODY_BYTES_MAX


class MalformedReplication(WireError):
    """Bytes of a replica do not have the layout of their code, or break a bound. Close the connection; the role asks for a new session."""

    close = True


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a shipment: `data` belongs at `at` of its `size` bytes. The last part completes it."""

    head: Beat
    position: int
    """Of the first byte of the shipment in the log."""
    end: int
    """The log ends there once the shipment is written: behind its bytes, or at the end of the segment if they end with a blank."""
    size: int
    at: int
    data: bytes


Decoded: TypeAlias = Message | Part | WantBytes | HaveBytes
_Bodies: TypeAlias = "Callable[[_Reader, Session], Decoded]"


def encode_message(sender: str, message: Message) -> tuple[GantryCode, bytes]:
    """Return the code and the body of a message."""
    code, fixed = _encoded(message)
    return code, _head(sender, message.session) + fixed


def _encoded(message: Message) -> tuple[GantryCode, bytes]:
    match message:
        case Beat():
            encoded = GantryCode.REPLICA_BEAT, _beat(message)
        case DurableEnd():
            numbers = message.epoch, message.version, message.durable, message.end, message.sent_at
            encoded = GantryCode.REPLICA_DURABLE_END, _DURABLE_END.pack(*numbers, message.is_fit)
        case Hello():
            fixed = _text(message.group) + _text(message.origin) + _HELLO.pack(message.end, message.version)
            encoded = GantryCode.REPLICA_HELLO, fixed + message.table.to_wire()
        case Welcome():
            numbers = message.epoch, message.version, message.common, message.sent_at, message.first
            fixed = _WELCOME.pack(*numbers)
            encoded = GantryCode.REPLICA_WELCOME, fixed + message.table.to_wire()
        case Resigned():
            fixed = _RESIGNED.pack(message.epoch, message.version) + _text(message.successor)
            encoded = GantryCode.REPLICA_RESIGNED, fixed
        case Leads():
            encoded = GantryCode.REPLICA_LEADS, _LEADS.pack(message.version)
        case Refused():
            encoded = GantryCode.REPLICA_REFUSED, _REFUSED.pack(message.version)
    return encoded


def encode_repair(sender: str, message: WantBytes | HaveBytes) -> tuple[GantryCode, bytes]:
    """Return the code and the body of a question for bytes of the log, or of its answer."""
    start = _head(sender, message.session)
    if isinstance(message, WantBytes):
        return GantryCode.REPLICA_WANTS_BYTES, start + _WANT.pack(message.position, message.size)
    data = message.data
    return GantryCode.REPLICA_HAS_BYTES, start + _HAVE.pack(message.position, crc32(data)) + data


def encode_shipment(sender: str, head: Beat, position: int, end: int, data: bytes) -> Iterator[bytes]:
    """Yield the bodies (9065) of a shipment, to be sent in this order over one connection."""
    size = len(data)
    assert 0 < size <= SHIPMENT_BYTES_MAX
    assert position + size <= end
    start = _head(sender, head.session) + _beat(head)
    view = memoryview(data)
    for at in range(0, size, PART_BYTES_MAX):
        piece: Data = view[at : at + PART_BYTES_MAX] if size > PART_BYTES_MAX else data
        yield b"".join((start, _PART.pack(position, end, size, at, crc32(piece)), piece))


def decode_body(code: int, body: bytes) -> tuple[str, Decoded]:
    """Return the sender and its message, or the part of a shipment. Raises MalformedReplication, also for another code."""
    read = _READ.get(code)
    if read is None:
        raise MalformedReplication(f"code {code} is none of replicas")
    if len(body) > FRAME_BODY_BYTES_MAX:
        raise MalformedReplication(f"{len(body)} bytes are more than {FRAME_BODY_BYTES_MAX}")
    try:
        reader = _Reader(body)
        sender = reader.text(NAME_CHARS_MAX, _NAME)
        session = Session(reader.text(LIFE_BYTES_MAX, _LIFE), _number(*reader.numbers(_SESSION)))
        decoded = read(reader, session)
    except (struct.error, UnicodeDecodeError, MalformedEpochTable) as error:
        raise MalformedReplication(f"a body of {code} is malformed: {error}") from error
    if reader.left:
        raise MalformedReplication(f"a body of {code} has {reader.left} bytes too many")
    return sender, decoded


class _Reader:
    """Reads a body from its start."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._body) - self._at

    def numbers(self, kind: Struct) -> tuple[int, ...]:
        found = kind.unpack_from(self._body, self._at)
        self._at += kind.size
        return found

    def text(self, bytes_max: int, pattern: re.Pattern[str] | None, bytes_min: int = 1) -> str:
        (size,) = self.numbers(_TEXT)
        content = self._body[self._at : self._at + size]
        self._at += size
        text = content.decode()
        is_whole = bytes_min <= size <= bytes_max and len(content) == size
        if not is_whole or (pattern is not None and not pattern.fullmatch(text)):
            raise MalformedReplication(f"a text of {size} bytes is none: {text[:40]!r}")
        return text

    def rest(self) -> bytes:
        content = self._body[self._at :]
        self._at = len(self._body)
        return content


def _head(sender: str, session: Session) -> bytes:
    return _text(sender) + _text(session.life) + _SESSION.pack(session.number)


def _text(text: str) -> bytes:
    content = text.encode()
    return _TEXT.pack(len(content)) + content


def _beat(beat: Beat) -> bytes:
    confirm = _NO_CONFIRM if beat.confirm is None else beat.confirm
    return _BEAT.pack(beat.epoch, beat.version, confirm, beat.sent_at, beat.first)


def _number(number: int) -> int:
    """Return a count or a position. Raises MalformedReplication."""
    if not 0 <= number <= NUMBER_MAX:
        raise MalformedReplication(f"{number} is no count and no position")
    return number


def _read_hello(reader: _Reader, session: Session) -> Hello:
    group = reader.text(GROUP_BYTES_MAX, None)
    if len(group) > NAME_CHARS_MAX:
        raise MalformedReplication(f"a group of {len(group)} characters")
    origin = reader.text(LIFE_BYTES_MAX, _ORIGIN, bytes_min=0)
    end, version = map(_number, reader.numbers(_HELLO))
    return Hello(session, group, origin, EpochTable.from_wire(reader.rest()), end, version)


def _read_welcome(reader: _Reader, session: Session) -> Welcome:
    *counts, sent_at, first = reader.numbers(_WELCOME)
    epoch, version, common = map(_number, counts)
    return Welcome(
        session, epoch, version, common, EpochTable.from_wire(reader.rest()), sent_at, _number(first)
    )


def _read_refused(reader: _Reader, session: Session) -> Refused:
    return Refused(session, *map(_number, reader.numbers(_REFUSED)))


def _read_beat(reader: _Reader, session: Session) -> Beat:
    epoch, version, confirm, sent_at, first = reader.numbers(_BEAT)
    known = None if confirm == _NO_CONFIRM else _number(confirm)
    return Beat(session, _number(epoch), _number(version), known, sent_at, _number(first))


def _read_durable_end(reader: _Reader, session: Session) -> DurableEnd:
    *counts, sent_at, fit = reader.numbers(_DURABLE_END)
    epoch, version, durable, end = map(_number, counts)
    if durable > end:
        raise MalformedReplication(f"a log that ends at {end} is durable up to {durable}")
    if fit > 1:
        raise MalformedReplication(f"{fit} is neither fit nor unfit")
    return DurableEnd(session, epoch, version, durable, end, sent_at, is_fit=bool(fit))


def _read_resigned(reader: _Reader, session: Session) -> Resigned:
    epoch, version = map(_number, reader.numbers(_RESIGNED))
    return Resigned(session, epoch, version, reader.text(NAME_CHARS_MAX, _NAME))


def _read_leads(reader: _Reader, session: Session) -> Leads:
    return Leads(session, *map(_number, reader.numbers(_LEADS)))


def _read_part(reader: _Reader, session: Session) -> Part:
    head = _read_beat(reader, session)
    position, end, size, at, crc = reader.numbers(_PART)
    data = reader.rest()
    if not (_number(position) + size <= _number(end) and 0 < size <= SHIPMENT_BYTES_MAX):
        raise MalformedReplication(f"a shipment of {size} bytes from {position} to {end}")
    if not (0 < len(data) <= PART_BYTES_MAX and at + len(data) <= size):
        raise MalformedReplication(f"a part of {len(data)} bytes at {at} of {size}")
    if crc32(data) != crc:
        raise MalformedReplication(f"the CRC of the part at {at} of the shipment from {position} differs")
    return Part(head, position, end, size, at, data)


def _read_want(reader: _Reader, session: Session) -> WantBytes:
    position, size = reader.numbers(_WANT)
    if not 0 < size <= PART_BYTES_MAX:
        raise MalformedReplication(f"{size} bytes are none, or more than {PART_BYTES_MAX}")
    return WantBytes(session, _number(position), size)


def _read_have(reader: _Reader, session: Session) -> HaveBytes:
    position, crc = reader.numbers(_HAVE)
    data = reader.rest()
    if len(data) > PART_BYTES_MAX:
        raise MalformedReplication(f"{len(data)} bytes are more than {PART_BYTES_MAX}")
    if crc32(data) != crc:
        raise MalformedReplication(f"the CRC of {len(data)} bytes from {position} differs")
    return HaveBytes(session, _number(position), data)


_READ: Mapping[int, _Bodies] = {
    GantryCode.REPLICA_HELLO: _read_hello,
    GantryCode.REPLICA_WELCOME: _read_welcome,
    GantryCode.REPLICA_REFUSED: _read_refused,
    GantryCode.REPLICA_BEAT: _read_beat,
    GantryCode.REPLICA_DURABLE_END: _read_durable_end,
    GantryCode.REPLICA_SHIPMENT: _read_part,
    GantryCode.REPLICA_RESIGNED: _read_resigned,
    GantryCode.REPLICA_LEADS: _read_leads,
    GantryCode.REPLICA_WANTS_BYTES: _read_want,
    GantryCode.REPLICA_HAS_BYTES: _read_have,
}
CODES = frozenset(_READ)
"""All codes of replicas."""
