"""Base of all request and reply headers: typed in code, a map of text to text on the wire.

Reads as tolerantly as RocketMQ: bare numbers and booleans, "0" and "1" for booleans, unknown keys. Writes every value as text,
because the C++ client silently ignores other types. Knows no codes and no frames.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec

from gantry_wire.errors import MissingField
from gantry_wire.limits import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]

HeaderT = TypeVar("HeaderT", bound="Header")

_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}")


class Header(msgspec.Struct, kw_only=True, rename="camel", gc=False):
    """Base of all typed headers. Attribute names are ours, wire names RocketMQ's."""

    def to_fields(self) -> dict[str, str]:
        """Return the header as text fields for the wire, without fields that are None."""
        fields: dict[str, str] = {}
        values: tuple[object, ...] = msgspec.structs.astuple(self)
        for name, value in zip(self.__struct_encode_fields__, values, strict=True):
            if type(value) is str:
                fields[name] = value
            elif value is not None:
                fields[name] = str(value) if type(value) is int else field_text(value)
        return fields


def field_text(value: object) -> str:
    """Return a header value as text for the wire: `true` or `false` for booleans, plain decimals for numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def header_from_fields(fields: dict[str, str], kind: type[HeaderT]) -> HeaderT:
    """Return text fields as a typed header. Raises MissingField if a required field is absent or unreadable.

    Treats unreadable optional fields as absent, as RocketMQ does.
    """
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError:
        return _read_each(fields, kind)


def _read_each(fields: dict[str, str], kind: type[HeaderT]) -> HeaderT:
    values: dict[str, Any] = {}
    for info in msgspec.structs.fields(kind):
        text = fields.get(info.encode_name)
        value = None if text is None else _convert(text, info.type)
        if value is not None:
            values[info.name] = value
        elif info.required:
            raise MissingField(info.encode_name)
    return kind(**values)


def _convert(text: str, kind: Any) -> Any:
    """Convert one field as msgspec does, else as Java reads numbers and booleans; None if both fail."""
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError:
        pass
    if kind in (bool, bool | None):
        return False  # Java: every text but "true" is false
    if _DECIMAL.fullmatch(text):
        try:
            return msgspec.convert(int(text), kind)
        except msgspec.ValidationError:
            return None
    return None
