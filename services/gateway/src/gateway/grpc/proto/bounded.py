"""Parses what clients send, unless it holds more fields than any request needs.

An empty message takes two bytes, and some 70 once it is parsed: a few kilobytes of gzip would take gigabytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError

from gateway.grpc.proto.declaring import ProtoMessage

FREE_BYTES: Final = 64 * 1024
"""Smaller ones are parsed at once: whatever their fields are, they take a few MiB."""
FIELDS_MAX: Final = 200_000
"""Fields of a request and of the messages in it, maps with one per entry. A full send has 1000 messages with 128 properties."""
_BYTES_WIRE: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}

M = TypeVar("M", bound=ProtoMessage)
_Tree = dict[int, Any]
"""Of a message: the same of each field that is a message, by its number."""


class TooManyFields(Exception):
    """A request holds over FIELDS_MAX fields."""


def parse(kind: type[M], data: bytes) -> M:
    """Return a parsed message. Raises DecodeError and TooManyFields."""
    if len(data) > FREE_BYTES:
        _count(data, 0, len(data), _tree(kind), 0)
    return kind.FromString(data)


def _count(data: bytes, at: int, end: int, tree: _Tree, count: int) -> int:
    """Return the number of fields so far and in `data[at:end]`. Raises TooManyFields, and DecodeError for what no parser reads."""
    while at < end:
        count += 1
        if count > FIELDS_MAX:
            raise TooManyFields
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == _BYTES_WIRE:
            size, at = _varint(data, at)
            inner = tree.get(tag >> 3)
            if at + size > end:
                raise DecodeError("a field is longer than its message")
            if inner is not None:
                count = _count(data, at, at + size, inner, count)
            at += size
        elif wire == 0:
            _value, at = _varint(data, at)
        else:
            at += _FIXED_BYTES.get(wire, 0)  # a group has no length: its fields follow
    return count


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in data[at : at + 10]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise DecodeError("a number has no end")


@lru_cache(maxsize=64)
def _tree(kind: type[ProtoMessage]) -> _Tree:
    described: Any = kind
    return _tree_of(described.DESCRIPTOR)


def _tree_of(descriptor: Any) -> _Tree:
    return {
        field.number: _tree_of(field.message_type)
        for field in descriptor.fields
        if field.message_type is not None and not field.message_type.GetOptions().map_entry
    }
