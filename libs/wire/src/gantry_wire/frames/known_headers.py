"""Fast path for binary send headers that differ from an earlier one only in opaque, queue id, born time, properties and signature.

A producer repeats the same names and values. So this module compares the bytes around these values with those of a header
decoded in full before: equal bytes have equal meaning. `binary_header.py` decodes all other headers. A signed header of RocketMQ's
Java clients has every field twice; the values that vary must then be the same both times.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple, TypeAlias, cast

from gantry_wire.bounded_cache import BoundedCache
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.frame_stream import RawFrame
from gantry_wire.frames.frame_template import INT32, RAW, FrameTemplate, Hole
from gantry_wire.headers.messages import SendHeaderV2
from gantry_wire.headers.typed_header import header_from_fields

CODES = frozenset({310, 320})
SIZES_MAX = 512
"""Maximum number of header sizes in the cache, each with the positions of its varying values."""
PATTERNS_MAX = 4096
"""Maximum number of headers in the cache, about 1 KB each."""
_OPAQUE = Hole(5, 9, INT32)
"""Follows code, language and version."""
_FIELDS_AT = 21
"""The fields follow code, language, version, opaque, flag, an empty remark and their own size."""
PROPERTIES = "i"
VARYING = ("e", "g", PROPERTIES)
"""Queue id, born time and properties."""
_ONCE = tuple(name.encode() for name in VARYING)
_QUEUE, _BORN, _ = _ONCE
_SIGNATURE = b"Signature"
_HOLES = frozenset({*_ONCE, _SIGNATURE})
_BYTES_MAX = {_QUEUE: 9, _BORN: 18}
"""Digits of the numbers."""
_SHORT, _INT = Struct(">h"), Struct(">i")


class HeaderPattern:
    """The constant part of the headers of one producer."""

    __slots__ = (
        "_new_command",
        "_new_header",
        "access_note",
        "code",
        "fields",
        "flag",
        "header",
        "note",
        "template",
    )

    def __init__(
        self, template: FrameTemplate, command: Command, header: SendHeaderV2, fields: dict[str, str] | None
    ) -> None:
        self.template = template
        """The positions of the varying values. At other positions the same bytes could mean something else."""
        self.code = command.code
        self.flag = command.flag
        self.header = header
        """The first header of the pattern. Its queue id, born time and properties belong to that header only."""
        self.note: Any = None
        """What the handler of sends keeps with this pattern."""
        self.fields = fields
        """All fields of the first header, if it was signed."""
        self.access_note: Any = None
        """What access control keeps with this pattern."""
        copy_of: Command = cast("Any", command).__copy__()  # msgspec defines it, but its type stubs do not
        copy_of.fields, copy_of.body = None, b""
        self._new_command = cast("Callable[[], Command]", cast("Any", copy_of).__copy__)
        self._new_header = cast("Callable[[], SendHeaderV2]", cast("Any", header).__copy__)

    def command(self, known: KnownSend, body: bytes) -> Command | None:
        """Return a command of this pattern, or None if a value is invalid: the full decoder then reports the error."""
        _, opaque, queue, born, raw, _ = known
        if not queue.isdigit() or not born.isdigit():
            return None
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return None
        command, header = self._new_command(), self._new_header()
        header.queue_id, header.born_timestamp, header.properties = int(queue), int(born), text
        command.opaque, command.fields, command.body = opaque, header, body
        return command


KnownSend: TypeAlias = "tuple[HeaderPattern, int, bytes, bytes, bytes, bytes]"
"""A header that matches a pattern: the pattern, and the received opaque, queue id, born time, properties and signature, unchecked.

The signature is empty where the pattern has none.
"""


class _Shape(NamedTuple):
    """Where headers of one size have their varying values."""

    template: FrameTemplate
    signature_at: int
    """The hole of the signature; 0 if there is none, because the first hole is the opaque."""
    is_doubled: bool
    """Whether queue id, born time and properties stand there twice."""


class KnownHeaders:
    """Cache of the headers that one store decoded in full."""

    __slots__ = ("_patterns", "_shapes")

    def __init__(self, sizes_max: int = SIZES_MAX, patterns_max: int = PATTERNS_MAX) -> None:
        self._shapes: BoundedCache[int, _Shape] = BoundedCache(sizes_max)
        self._patterns: BoundedCache[tuple[bytes, ...], HeaderPattern] = BoundedCache(patterns_max)
        """Patterns by their constant bytes."""

    def __len__(self) -> int:
        return len(self._patterns)

    def find(self, data: bytes) -> KnownSend | None:
        """Return the pattern and values of a binary header, or None if no pattern matches and it needs full decoding."""
        shape = self._shapes.get(len(data))
        if shape is None:
            return None
        template, signature_at, is_doubled = shape
        parts = template.cut(data)
        pattern = self._patterns.get(parts[::2])
        if pattern is None or pattern.template is not template:
            return None
        if not signature_at:
            return pattern, parts[1], parts[3], parts[5], parts[7], b""
        values = parts[1::2]
        signature = values[signature_at]
        values = values[:signature_at] + values[signature_at + 1 :]
        if is_doubled and values[1:4] != values[4:]:
            return None
        return pattern, values[0], values[1], values[2], values[3], signature

    def read(self, raw: RawFrame, known: KnownSend | None) -> Command:
        """Read a binary header, and cache it if it is a send of the usual shape. `known` is the result of `find` for it.

        Raises MalformedHeader.
        """
        if known is not None and (command := known[0].command(known, raw.body)) is not None:
            return command
        command = decode_command(raw)
        fields = command.fields
        if isinstance(fields, dict) and command.code in CODES and not command.remark:
            self._remember(raw.header, command, fields)
        return command

    def _remember(self, data: bytes, command: Command, fields: dict[str, str]) -> None:
        learned = _shape_of(data)
        if learned is None:
            return
        parts = learned.template.cut(data)
        shape = self._shapes.get(len(data))
        if shape is None:
            shape = learned
        elif shape[1:] != learned[1:] or shape.template.cut(data) != parts:
            return  # the cached template of this size has its values elsewhere
        try:
            header = header_from_fields(fields, SendHeaderV2)
        except WireError:
            return
        if shape is learned:
            self._shapes.keep(len(data), shape)
        signed = dict(fields) if shape.signature_at else None
        self._patterns.keep(parts[::2], HeaderPattern(shape.template, command, header, signed))


def _shape_of(data: bytes) -> _Shape | None:
    """Return where the varying values are, or None if one is missing, too long or out of order."""
    names: list[bytes] = []
    holes = [_OPAQUE]
    at = _FIELDS_AT
    while at < len(data):
        key_end = at + _SHORT.size + (data[at] << 8 | data[at + 1])
        value_at = key_end + _INT.size
        end = value_at + _INT.unpack_from(data, key_end)[0]
        if end == value_at:
            return None  # an empty value means an absent field
        name = data[at + _SHORT.size : key_end]
        if name in _HOLES:
            if end - value_at > _BYTES_MAX.get(name, end):
                return None
            names.append(name)
            holes.append(Hole(value_at, end, RAW))
        at = end
    signature_at = names.index(_SIGNATURE) + 1 if _SIGNATURE in names else 0
    varying = tuple(name for number, name in enumerate(names, 1) if number != signature_at)
    if varying != _ONCE and not (signature_at and varying == 2 * _ONCE):
        return None
    return _Shape(FrameTemplate(data, holes), signature_at, varying != _ONCE)
