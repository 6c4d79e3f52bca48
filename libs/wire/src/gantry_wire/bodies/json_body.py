"""Reads and writes typed JSON bodies. Reads exactly first; on failure reads again, as tolerantly as fastjson."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, TypeVar, cast

import msgspec
from msgspec import inspect

from gantry_wire.bodies import fastjson
from gantry_wire.errors import MalformedBody
from gantry_wire.headers.typed_header import field_text

BodyT = TypeVar("BodyT", bound=msgspec.Struct)


class Body(msgspec.Struct, kw_only=True, rename="camel"):
    """Base of all bodies. Attribute names are ours, wire names RocketMQ's. None fields are not written."""

    is_plain: ClassVar[bool] = False
    """True if the body contains no bare keys and no None fields, so msgspec can write it directly."""


def encode_body(body: msgspec.Struct, *, standard: bool = False) -> bytes:
    """Return a body as fastjson writes it, or as standard JSON (integer keys quoted, keys sorted, ASCII)."""
    return fastjson.dumps(body, standard=standard)


def decode_body(data: bytes, kind: type[BodyT]) -> BodyT:
    """Return JSON as a typed body. Raises MalformedBody if it is not JSON or has another shape.

    Also accepts fastjson's dialect, nulls for defaults, enum ordinals, numbers as text and text as numbers.
    """
    try:
        return _decoder(kind).decode(data)
    except (ValueError, RecursionError):
        pass
    content = _fit(fastjson.loads(data), _shape(kind))
    try:
        return msgspec.convert(content, kind, strict=False, str_keys=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MalformedBody(f"the body is not a valid {kind.__name__}: {error}") from error


@lru_cache(maxsize=256)
def _decoder(kind: type[BodyT]) -> msgspec.json.Decoder[BodyT]:
    return msgspec.json.Decoder(kind, strict=False)


@lru_cache(maxsize=256)
def _shape(kind: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(kind)


def _fit(value: Any, shape: inspect.Type) -> Any:
    """Convert parsed JSON towards a shape, value by value. The check that follows refuses the values left unconverted."""
    if isinstance(shape, inspect.UnionType):
        shape = next(kind for kind in shape.types if not isinstance(kind, inspect.NoneType))
    if isinstance(shape, inspect.StructType):
        return _fit_struct(value, shape)
    if isinstance(shape, inspect.DictType):
        return _fit_dict(value, shape)
    if isinstance(shape, inspect.CollectionType) and isinstance(value, list):
        return [_fit(item, shape.item_type) for item in cast("list[Any]", value)]
    if isinstance(shape, inspect.EnumType):
        return _fit_enum(value, shape.cls)
    if isinstance(shape, inspect.StrType) and isinstance(value, (bool, int, float)):
        return field_text(value)
    return value


def _fit_struct(value: Any, shape: inspect.StructType) -> Any:
    if not isinstance(value, Mapping):
        return value
    content = cast("Mapping[str, Any]", value)
    found = ((field, content.get(field.encode_name)) for field in shape.fields)
    return {field.encode_name: _fit(item, field.type) for field, item in found if item is not None}


def _fit_dict(value: Any, shape: inspect.DictType) -> Any:
    if not isinstance(value, Mapping):
        return value
    content = cast("Mapping[str, Any]", value)
    return {
        _fit_key(key, shape.key_type): _fit(item, shape.value_type)
        for key, item in content.items()
        if item is not None
    }


def _fit_key(key: str, shape: inspect.Type) -> Any:
    if isinstance(shape, inspect.StructType) and isinstance(key, fastjson.ObjectKey):
        return decode_body(key.encode(), shape.cls)
    return key


def _fit_enum(value: Any, kind: type[Enum]) -> Any:
    members = list(kind)
    is_ordinal = isinstance(value, int) and 0 <= value < len(members)
    return members[value].value if is_ordinal else value
