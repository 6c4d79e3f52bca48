"""Binary send headers that equal an earlier one in all but queue id, born time and properties: read without taking them apart.

A producer sends the same names and values over and over. So the bytes around the three that vary are compared with those of
a header that was read in full before; when they are the same, so is their meaning. Anything else is for `binary_header.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from gantry_wire.errors import WireError
from gantry_wire.header import header_from_fields
from gantry_wire.message_headers import SendHeaderV2

if TYPE_CHECKING:
    from gantry_wire.command import Command

CODES = frozenset({310, 320})
SHAPES_MAX = 512
"""Sizes of headers that are remembered, each with where its three varying values lie."""
PROTOTYPES_MAX = 4096
"""Headers that are remembered: about a kilobyte each."""
_OPAQUE_AT, _OPAQUE_END = 5, 9
_FIELDS_AT = 21
"""Fields begin behind code, language, version, opaque, flag, an empty remark and their own size."""
_QUEUE, _BORN, _TEXT = b"e", b"g", b"i"
_QUEUE_DIGITS_MAX, _BORN_DIGITS_MAX = 9, 18
_SHORT, _INT = Struct(">h"), Struct(">i")
_take_int = _INT.unpack_from


class _Shape(NamedTuple):
    """Where the values of queue id, born time and properties lie in a header of one size."""

    queue_at: int
    queue_end: int
    born_at: int
    born_end: int
    text_at: int
    text_end: int


_shapes: dict[int, _Shape] = {}
_prototypes: dict[bytes, tuple[Callable[[], Command], Callable[[], SendHeaderV2]]] = {}
"""Makers of copies, by everything that does not vary."""


def read_known(data: bytes, body: bytes) -> Command | None:
    """Return the command of a binary header that is like an earlier one, None when it has to be read in full."""
    shape = _shapes.get(len(data))
    if shape is None:
        return None
    queue_at, queue_end, born_at, born_end, text_at, text_end = shape
    rest = (
        data[:_OPAQUE_AT]
        + data[_OPAQUE_END:queue_at]
        + data[queue_end:born_at]
        + data[born_end:text_at]
        + data[text_end:]
    )
    prototype = _prototypes.get(rest)
    if prototype is None:
        return None
    queue, born = data[queue_at:queue_end], data[born_at:born_end]
    if not queue.isdigit() or not born.isdigit():
        return None
    try:
        text = data[text_at:text_end].decode()
    except UnicodeDecodeError:
        return None  # reading it in full says what is wrong
    command, header = prototype[0](), prototype[1]()
    header.queue_id, header.born_timestamp, header.properties = int(queue), int(born), text
    (command.opaque,) = _take_int(data, _OPAQUE_AT)
    command.fields, command.body = header, body
    return command


def remember(data: bytes, command: Command) -> None:
    """Keep a header that was read in full as the pattern of those to come, if it is a send of the usual shape."""
    fields = command.fields
    if command.code not in CODES or command.remark or not isinstance(fields, dict):
        return
    if len(_prototypes) >= PROTOTYPES_MAX:
        return
    shape = _shape_of(data)
    if shape is None or _shapes.get(len(data), shape) != shape or len(_shapes) >= SHAPES_MAX:
        return  # unusual, or another one of the same size was first
    try:
        header = header_from_fields(fields, SendHeaderV2)
    except WireError:
        return
    _shapes[len(data)] = shape
    queue_at, queue_end, born_at, born_end, text_at, text_end = shape
    parts = (data[:_OPAQUE_AT], data[_OPAQUE_END:queue_at], data[queue_end:born_at], data[born_end:text_at])
    make_command = cast("Any", command).__copy__  # msgspec's, which its types do not tell
    pattern: Command = make_command()
    pattern.fields, pattern.body = None, b""
    _prototypes[b"".join((*parts, data[text_end:]))] = (
        cast("Any", pattern).__copy__,
        cast("Any", header).__copy__,
    )


def _shape_of(data: bytes) -> _Shape | None:
    """Return where the varying values lie, None when they are not all there, not in this order, or of no usual length."""
    found: dict[bytes, tuple[int, int]] = {}
    at = _FIELDS_AT
    while at < len(data):
        key_end = at + _SHORT.size + (data[at] << 8 | data[at + 1])
        value_at = key_end + _INT.size
        end = value_at + _take_int(data, key_end)[0]
        found[data[at + _SHORT.size : key_end]] = (value_at, end)
        if end == value_at:
            return None  # an empty value is one that is not there
        at = end
    if not found.keys() >= {_QUEUE, _BORN, _TEXT}:
        return None
    queue, born, text = found[_QUEUE], found[_BORN], found[_TEXT]
    in_order = queue[1] < born[0] and born[1] < text[0]
    usual = queue[1] - queue[0] <= _QUEUE_DIGITS_MAX and born[1] - born[0] <= _BORN_DIGITS_MAX
    return _Shape(*queue, *born, *text) if in_order and usual else None
