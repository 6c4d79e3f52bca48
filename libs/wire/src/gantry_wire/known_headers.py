"""Binary send headers that equal an earlier one in all but opaque, queue id, born time and properties: read without taking them apart.

A producer sends the same names and values over and over. So the bytes around the four that vary are compared with those of
a header that was read in full before; when they are the same, so is their meaning. Anything else is for `binary_header.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from gantry_wire.errors import WireError
from gantry_wire.header import header_from_fields
from gantry_wire.message_headers import SendHeaderV2

if TYPE_CHECKING:
    from gantry_wire.command import Command

CODES = frozenset({310, 320})
SIZES_MAX = 512
"""Sizes of headers that are remembered, each with where its varying values lie. One more takes the place of the oldest."""
PATTERNS_MAX = 4096
"""Headers that are remembered: about a kilobyte each. With one more the oldest size goes, and all that have it."""
_FIELDS_AT = 21
"""Fields begin behind code, language, version, opaque, flag, an empty remark and their own size."""
_QUEUE, _BORN, _TEXT = b"e", b"g", b"i"
_QUEUE_DIGITS_MAX, _BORN_DIGITS_MAX = 9, 18
_SHORT, _INT = Struct(">h"), Struct(">i")


class HeaderPattern:
    """Everything that does not vary in the headers of one producer."""

    __slots__ = ("_new_command", "_new_header", "code", "flag", "header", "note")

    def __init__(self, command: Command, header: SendHeaderV2) -> None:
        self.code = command.code
        self.flag = command.flag
        self.header = header
        """What the first one said; its queue id, born time and properties are its own."""
        self.note: Any = None
        """For whoever handles sends: what it found out about this pattern."""
        copy_of: Command = cast("Any", command).__copy__()  # msgspec's, which its types do not tell
        copy_of.fields, copy_of.body = None, b""
        self._new_command = cast("Callable[[], Command]", cast("Any", copy_of).__copy__)
        self._new_header = cast("Callable[[], SendHeaderV2]", cast("Any", header).__copy__)

    def command(self, known: KnownSend, body: bytes) -> Command | None:
        """Return a command of this pattern; None when it has to be read in full, which says what is wrong."""
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
"""A header like an earlier one: its pattern, and its opaque, queue id, born time and properties as they came, unchecked."""
_Parts: TypeAlias = "tuple[bytes, int, bytes, bytes, bytes, bytes, bytes, bytes, bytes]"

_Shape: TypeAlias = "tuple[Callable[[bytes], _Parts], dict[bytes, HeaderPattern]]"
"""Takes headers of one size apart: what varies, and what stands before, between and behind that. Then the patterns of that size, by
everything that does not vary: they go with it, for cut at other places the same bytes could mean something else."""


class KnownHeaders:
    """The headers that were read in full, in the order in which their sizes came."""

    __slots__ = ("_count", "_shapes")

    def __init__(self) -> None:
        self._shapes: dict[int, _Shape] = {}
        self._count = 0

    def find(self, data: bytes) -> KnownSend | None:
        """Return what a binary header says if it is like an earlier one, None when it has to be read in full."""
        shape = self._shapes.get(len(data))
        if shape is None:
            return None
        head, opaque, to_queue, queue, to_born, born, to_text, text, rest = shape[0](data)
        pattern = shape[1].get(head + to_queue + to_born + to_text + rest)
        return None if pattern is None else (pattern, opaque, queue, born, text)

    def remember(self, data: bytes, command: Command) -> None:
        """Keep a header that was read in full as the pattern of those to come, if it is a send of the usual shape."""
        fields = command.fields
        if command.code not in CODES or command.remark or not isinstance(fields, dict):
            return
        cuts = _cuts_of(data)
        if cuts is None:
            return
        head, _, to_queue, _, to_born, _, to_text, _, rest = cuts.unpack(data)
        known = self._shapes.get(len(data))
        if known is not None and known[0](data)[2::2] != (to_queue, to_born, to_text, rest):
            return  # another one of the same size was first, whose values lie elsewhere
        try:
            header = header_from_fields(fields, SendHeaderV2)
        except WireError:
            return
        self._make_room(len(data))
        _, patterns = self._shapes.setdefault(len(data), (cuts.unpack, {}))
        key = head + to_queue + to_born + to_text + rest
        self._count += key not in patterns
        patterns[key] = HeaderPattern(command, header)

    def _make_room(self, size: int) -> None:
        """Forget the oldest sizes until one more header, of this size, can be kept: clients come and go, and write other lengths."""
        while self._count >= PATTERNS_MAX or (len(self._shapes) >= SIZES_MAX and size not in self._shapes):
            _, patterns = self._shapes.pop(next(iter(self._shapes)))
            self._count -= len(patterns)


_headers = KnownHeaders()
"""Of this process. What they mean depends on their bytes alone."""
find_known, remember = _headers.find, _headers.remember


def _cuts_of(data: bytes) -> Struct | None:
    """Return how the varying values lie, None when they are not all there, not in this order, or of no usual length."""
    found: dict[bytes, tuple[int, int]] = {}
    at = _FIELDS_AT
    while at < len(data):
        key_end = at + _SHORT.size + (data[at] << 8 | data[at + 1])
        value_at = key_end + _INT.size
        end = value_at + _INT.unpack_from(data, key_end)[0]
        found[data[at + _SHORT.size : key_end]] = (value_at, end)
        if end == value_at:
            return None  # an empty value is one that is not there
        at = end
    if not found.keys() >= {_QUEUE, _BORN, _TEXT}:
        return None
    queue, born, text = found[_QUEUE], found[_BORN], found[_TEXT]
    in_order = queue[1] < born[0] and born[1] < text[0]
    if not in_order or queue[1] - queue[0] > _QUEUE_DIGITS_MAX or born[1] - born[0] > _BORN_DIGITS_MAX:
        return None
    cuts = (9, *queue, *born, *text, len(data))
    sizes = [end - start for start, end in pairwise(cuts)]
    return Struct(">5si" + "".join(f"{size}s" for size in sizes))  # 5: code, language, version; then opaque
