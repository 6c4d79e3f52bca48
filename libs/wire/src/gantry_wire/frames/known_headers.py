"""Fast path for binary send headers that differ from an earlier one only in opaque, queue id, born time and properties.

A producer repeats the same names and values. So this module compares the bytes around the four values with those of a header
decoded in full before: equal bytes have equal meaning. `binary_header.py` decodes all other headers.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, TypeAlias, cast

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
_QUEUE, _BORN, _TEXT = b"e", b"g", b"i"
_QUEUE_DIGITS_MAX, _BORN_DIGITS_MAX = 9, 18
_SIGNATURE = "Signature"
_SHORT, _INT = Struct(">h"), Struct(">i")


class HeaderPattern:
    """The constant part of the headers of one producer."""

    __slots__ = ("_new_command", "_new_header", "code", "flag", "header", "note", "template")

    def __init__(self, template: FrameTemplate, command: Command, header: SendHeaderV2) -> None:
        self.template = template
        """The positions of the varying values. At other positions the same bytes could mean something else."""
        self.code = command.code
        self.flag = command.flag
        self.header = header
        """The first header of the pattern. Its queue id, born time and properties belong to that header only."""
        self.note: Any = None
        """What the handler of sends keeps with this pattern."""
        copy_of: Command = cast("Any", command).__copy__()  # msgspec defines it, but its type stubs do not
        copy_of.fields, copy_of.body = None, b""
        self._new_command = cast("Callable[[], Command]", cast("Any", copy_of).__copy__)
        self._new_header = cast("Callable[[], SendHeaderV2]", cast("Any", header).__copy__)

    def command(self, known: KnownSend, body: bytes) -> Command | None:
        """Return a command of this pattern, or None if a value is invalid: the full decoder then reports the error."""
        _, opaque, queue, born, raw = known
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


KnownSend: TypeAlias = "tuple[HeaderPattern, int, bytes, bytes, bytes]"
"""A header that matches a pattern: the pattern, and the received opaque, queue id, born time and properties, unchecked."""


class KnownHeaders:
    """Cache of the headers that one store decoded in full."""

    __slots__ = ("_patterns", "_templates")

    def __init__(self, sizes_max: int = SIZES_MAX, patterns_max: int = PATTERNS_MAX) -> None:
        self._templates: BoundedCache[int, FrameTemplate] = BoundedCache(sizes_max)
        self._patterns: BoundedCache[tuple[bytes, ...], HeaderPattern] = BoundedCache(patterns_max)
        """Patterns by their constant bytes."""

    def __len__(self) -> int:
        return len(self._patterns)

    def find(self, data: bytes) -> KnownSend | None:
        """Return the pattern and values of a binary header, or None if no pattern matches and it needs full decoding."""
        template = self._templates.get(len(data))
        if template is None:
            return None
        parts = template.cut(data)
        pattern = self._patterns.get(parts[::2])
        if pattern is None or pattern.template is not template:
            return None
        return pattern, parts[1], parts[3], parts[5], parts[7]

    def read(self, raw: RawFrame, known: KnownSend | None) -> Command:
        """Read a binary header, and cache it if it is a send of the usual shape. `known` is the result of `find` for it.

        Raises MalformedHeader.
        """
        if known is not None and (command := known[0].command(known, raw.body)) is not None:
            return command
        command = decode_command(raw)
        fields = command.fields
        if not isinstance(fields, dict) or _SIGNATURE in fields:
            return command  # each signed header has another signature
        if command.code in CODES and not command.remark:
            self._remember(raw.header, command, fields)
        return command

    def _remember(self, data: bytes, command: Command, fields: dict[str, str]) -> None:
        learned = _template_of(data)
        if learned is None:
            return
        parts = learned.cut(data)
        template = self._templates.get(len(data))
        if template is None:
            template = learned
        elif template.cut(data) != parts:
            return  # the cached template of this size has its values elsewhere
        try:
            header = header_from_fields(fields, SendHeaderV2)
        except WireError:
            return
        if template is learned:
            self._templates.keep(len(data), template)
        self._patterns.keep(parts[::2], HeaderPattern(template, command, header))


def _template_of(data: bytes) -> FrameTemplate | None:
    """Return a template of the varying values, or None if one is missing, too long or out of order."""
    found: dict[bytes, tuple[int, int]] = {}
    at = _FIELDS_AT
    while at < len(data):
        key_end = at + _SHORT.size + (data[at] << 8 | data[at + 1])
        value_at = key_end + _INT.size
        end = value_at + _INT.unpack_from(data, key_end)[0]
        found[data[at + _SHORT.size : key_end]] = (value_at, end)
        if end == value_at:
            return None  # an empty value means an absent field
        at = end
    if not found.keys() >= {_QUEUE, _BORN, _TEXT}:
        return None
    queue, born, text = found[_QUEUE], found[_BORN], found[_TEXT]
    in_order = queue[1] < born[0] and born[1] < text[0]
    if not in_order or queue[1] - queue[0] > _QUEUE_DIGITS_MAX or born[1] - born[0] > _BORN_DIGITS_MAX:
        return None
    return FrameTemplate(data, (_OPAQUE, Hole(*queue, RAW), Hole(*born, RAW), Hole(*text, RAW)))
