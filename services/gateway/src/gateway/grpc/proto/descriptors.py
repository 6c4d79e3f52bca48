"""Writes protobuf's descriptors of files, messages, enums and services as bytes: field numbers of descriptor.proto.

Written here, a start does not import protobuf's own descriptor module, which takes longer than everything else in this package.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

_VARINT, _BYTES = 0, 2
_LABEL_OPTIONAL, _LABEL_REPEATED = 1, 3
_UINT64_MASK = (1 << 64) - 1


class FieldType(IntEnum):
    """Types of fields that RocketMQ's messages have, by protobuf's numbers."""

    FLOAT = 2
    INT64 = 3
    INT32 = 5
    BOOL = 8
    STRING = 9
    MESSAGE = 11
    BYTES = 12
    ENUM = 14


class FieldSpec(NamedTuple):
    """One field. `type_name` is the full name of a message or enum; `oneof` the index of the field's oneof."""

    name: str
    number: int
    type: FieldType
    type_name: str = ""
    is_repeated: bool = False
    oneof: int | None = None
    is_optional: bool = False
    """Its oneof is the synthetic one of an optional field."""

    def encoded(self) -> bytes:
        """Return a FieldDescriptorProto."""
        label = _LABEL_REPEATED if self.is_repeated else _LABEL_OPTIONAL
        data = _text(1, self.name) + _number(3, self.number) + _number(4, label) + _number(5, self.type)
        if self.type_name:
            data += _text(6, self.type_name)
        if self.oneof is not None:
            data += _number(9, self.oneof)
        if self.is_optional:
            data += _number(17, 1)
        return data


def message(
    name: str,
    fields: Iterable[FieldSpec],
    oneofs: Iterable[str] = (),
    nested: Iterable[bytes] = (),
    enums: Iterable[bytes] = (),
    *,
    is_map_entry: bool = False,
) -> bytes:
    """Return a DescriptorProto."""
    data = _text(1, name) + _parts(2, (one.encoded() for one in fields))
    data += _parts(3, nested) + _parts(4, enums)
    if is_map_entry:
        data += _part(7, _number(7, 1))
    return data + _parts(8, (_text(1, oneof) for oneof in oneofs))


def map_entry(name: str) -> bytes:
    """Return the DescriptorProto of an entry of a map of strings."""
    fields = (FieldSpec("key", 1, FieldType.STRING), FieldSpec("value", 2, FieldType.STRING))
    return message(name, fields, is_map_entry=True)


def enum(declared: type[IntEnum]) -> bytes:
    """Return an EnumDescriptorProto."""
    values = (_text(1, name) + _number(2, value) for name, value in declared.__members__.items())
    return _text(1, declared.__name__) + _parts(2, values)


def method(
    name: str, request: str, response: str, *, streams_requests: bool, streams_responses: bool
) -> bytes:
    """Return a MethodDescriptorProto. `request` and `response` are full names."""
    data = _text(1, name) + _text(2, request) + _text(3, response)
    if streams_requests:
        data += _number(5, 1)
    return data + _number(6, 1) if streams_responses else data


def service(name: str, methods: Iterable[bytes]) -> bytes:
    """Return a ServiceDescriptorProto."""
    return _text(1, name) + _parts(2, methods)


class FileParts(NamedTuple):
    """What a file holds, each part encoded."""

    dependencies: Iterable[str]
    messages: Iterable[bytes]
    enums: Iterable[bytes]
    services: Iterable[bytes]


def file(name: str, package: str, parts: FileParts) -> bytes:
    """Return a FileDescriptorProto of the syntax proto3."""
    data = _text(1, name) + _text(2, package)
    data += b"".join(_text(3, dependency) for dependency in parts.dependencies)
    data += _parts(4, parts.messages) + _parts(5, parts.enums) + _parts(6, parts.services)
    return data + _text(12, "proto3")


def _varint(value: int) -> bytes:
    value &= _UINT64_MASK
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _part(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _text(number: int, text: str) -> bytes:
    return _part(number, text.encode())


def _parts(number: int, parts: Iterable[bytes]) -> bytes:
    return b"".join(_part(number, one) for one in parts)
