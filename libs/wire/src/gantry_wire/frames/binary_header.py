"""Reads and writes RocketMQ's binary header (serialize type 1). Knows nothing of JSON or frames.

bytes  field
2      code, truncated to 16 bits
1      language
2      version
4      opaque
4      flag
4 + n  remark, UTF-8; length 0 is none
4 + m  fields: m bytes of { 2 key length, key, 4 value length, value }
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

from gantry_wire.codes import BINARY_CODE_ALIASES, LanguageCode, language_name
from gantry_wire.errors import MalformedHeader
from gantry_wire.limits import INT16_MAX

_FIXED = Struct(">hbhiii")
"""Code, language, version, opaque, flag, length of the remark."""
_INT = Struct(">i")
_SHORT = Struct(">h")


LAYOUTS_MAX = 512
"""Number of cached field layouts, one per size of the header fields."""

_Layout: TypeAlias = (
    "tuple[Callable[[bytes, int], tuple[Any, ...]], tuple[bytes, ...], tuple[int, ...], tuple[str, ...]]"
)
_layouts: dict[int, _Layout] = {}
_decode_text = bytes.decode


class BinaryHeader(NamedTuple):
    """The fields of a binary header."""

    code: int
    language: str
    version: int
    opaque: int
    flag: int
    remark: str | None
    fields: dict[str, str] | None


def decode_binary_header(data: bytes) -> BinaryHeader:
    """Read a whole binary header. Raises MalformedHeader if its lengths are wrong or a text is not UTF-8."""
    if len(data) < _FIXED.size + _INT.size:
        raise MalformedHeader(
            f"binary header of {len(data)} bytes, at least {_FIXED.size + _INT.size} are needed"
        )
    code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(data)
    remark_end = _FIXED.size + remark_size
    if remark_size < 0 or remark_end + _INT.size > len(data):
        raise MalformedHeader(f"remark of {remark_size} bytes does not fit the header")
    (fields_size,) = _INT.unpack_from(data, remark_end)
    start = remark_end + _INT.size
    if fields_size != len(data) - start:
        raise MalformedHeader(f"header fields of {fields_size} bytes where {len(data) - start} are left")
    try:
        remark = data[_FIXED.size : remark_end].decode() if remark_size else None
        fields = _decode_known(data, start, fields_size) if fields_size else None
    except UnicodeDecodeError as error:
        raise MalformedHeader("binary header is not UTF-8") from error
    return BinaryHeader(
        BINARY_CODE_ALIASES.get(code, int(code)),
        language_name(language),
        version,
        opaque,
        flag,
        remark,
        fields,
    )


def encode_binary_header(header: BinaryHeader) -> bytes:
    """Write a binary header. Omits fields with an empty value: RocketMQ reads those back as null."""
    remark = (header.remark or "").encode()
    fields = b"".join(_encode_field(key, value) for key, value in (header.fields or {}).items() if value)
    code = (header.code + 0x8000 & 0xFFFF) - 0x8000
    fixed = _FIXED.pack(
        code, LanguageCode[header.language], header.version, header.opaque, header.flag, len(remark)
    )
    return b"".join((fixed, remark, _INT.pack(len(fields)), fields))


def _decode_known(data: bytes, at: int, size: int) -> dict[str, str]:
    """Read fields in one unpack if their layout equals the cached one of the same size, else one by one.

    A client repeats the same names with values of the same sizes, so comparing names and lengths suffices.
    """
    layout = _layouts.get(size)
    if layout is None:
        fields = _decode_fields(data, at)
        if len(_layouts) < LAYOUTS_MAX:
            _layouts[size] = _layout_of(data, at)
        return fields
    unpack_from, heads, sizes, names = layout
    parts = unpack_from(data, at)
    if parts[0::3] != heads or parts[1::3] != sizes:
        return _decode_fields(data, at)
    return dict(zip(names, map(_decode_text, parts[2::3]), strict=True))


def _layout_of(data: bytes, at: int) -> _Layout:
    """Return the layout of these fields. They were read before, so their lengths are correct."""
    heads: list[bytes] = []
    sizes: list[int] = []
    while at < len(data):
        key_end = at + _SHORT.size + (data[at] << 8 | data[at + 1])
        heads.append(data[at:key_end])
        sizes.append(_INT.unpack_from(data, key_end)[0])
        at = key_end + _INT.size + sizes[-1]
    lies = Struct(">" + "".join(f"{len(head)}si{size}s" for head, size in zip(heads, sizes, strict=True)))
    names = tuple(head[_SHORT.size :].decode() for head in heads)
    # An empty value means an absent field. Keep a layout that matches nothing, so that the slow path handles it.
    return lies.unpack_from, tuple(heads) if all(sizes) else (), tuple(sizes), names


def _decode_fields(data: bytes, at: int) -> dict[str, str]:
    """Read the fields in one pass. Hot loop for Java clients with binary headers: it calls no function of ours."""
    fields: dict[str, str] = {}
    end = len(data)
    text = data.decode("latin-1")  # one character per byte, so that ASCII can be sliced from it
    size_at, room = _INT.unpack_from, end - _INT.size
    while at < end:
        key_start = at + _SHORT.size
        key_end = key_start + (data[at] << 8 | data[at + 1]) if key_start <= room else end
        if key_end > room:
            raise MalformedHeader("the header fields end inside a name or a length")
        value_start = key_end + _INT.size
        size: int = size_at(data, key_end)[0]
        at = value_start + size
        if size < 0 or at > end:
            raise MalformedHeader(f"a header field of {size} bytes does not fit the header")
        if size:
            key, value = text[key_start:key_end], text[value_start:at]
            if not value.isascii():
                value = data[value_start:at].decode()
            fields[key if key.isascii() else data[key_start:key_end].decode()] = value
    return fields


def _encode_field(key: str, value: str) -> bytes:
    name, text = key.encode(), value.encode()
    assert len(name) <= INT16_MAX, "a header field name fits 16 bits"
    return b"".join((_SHORT.pack(len(name)), name, _INT.pack(len(text)), text))
