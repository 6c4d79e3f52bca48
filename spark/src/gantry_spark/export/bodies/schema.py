"""What the JSON of bodies holds, from a file: Spark's DDL, a StructType as JSON, or a JSON Schema.

All become the JSON form of a StructType, which travels to the tasks as text. Of a JSON Schema types, `required` and the formats
`date` and `date-time` count; other constraints are not judged, what has no type of its own here is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gantry_spark.export.failures import Refused

Struct = dict[str, Any]
"""The JSON form of a StructType: {"type": "struct", "fields": [{"name", "type", "nullable", "metadata"}…]}."""

_FORMATS: Final = {"date-time": "timestamp", "date": "date"}
_PLAIN: Final = {"integer": "long", "number": "double", "boolean": "boolean", "string": "string"}


def load(path: Path, parse_ddl: Callable[[str], Struct]) -> Struct:
    """Return the schema in a file. `parse_ddl` is Spark's. Raises Refused with the place that is not understood."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read the schema {path}: {getattr(error, 'strerror', None) or error}") from None
    if not text.lstrip().startswith("{"):
        return _checked(parse_ddl(text.strip()), path)
    try:
        told = json.loads(text)
    except json.JSONDecodeError as error:
        raise Refused(f"the schema {path} is no JSON: {error}") from None
    if told.get("type") == "struct" and "fields" in told:
        return _checked(told, path)
    return _checked(_from_json_schema(told, "$"), path)


def names(schema: Struct) -> list[str]:
    """Return the columns of a schema."""
    return [field["name"] for field in schema["fields"]]


def _checked(schema: Struct, path: Path) -> Struct:
    if not schema["fields"]:
        raise Refused(f"the schema {path} has no columns")
    seen: dict[str, str] = {}
    for name in names(schema):
        if name.lower() in seen:
            raise Refused(
                f"the schema {path} has the columns {seen[name.lower()]} and {name}, which Spark takes for one"
            )
        seen[name.lower()] = name
    return schema


def _from_json_schema(told: Mapping[str, Any], place: str) -> Struct:
    """Return an object of a JSON Schema as a struct."""
    if told.get("type") != "object" or not isinstance(told.get("properties"), dict):
        raise Refused(
            f"the schema says nothing of columns at {place}: write a Spark DDL (`id BIGINT, name STRING`), a StructType as JSON, "
            'or a JSON Schema with "type": "object" and "properties"'
        )
    required = set(told.get("required", ()))
    fields = [
        {
            "name": name,
            "type": _type(inner, f"{place}.{name}"),
            "nullable": name not in required or _may_be_null(inner),
            "metadata": {},
        }
        for name, inner in told["properties"].items()
    ]
    return {"type": "struct", "fields": fields}


def _type(told: Any, place: str) -> str | Struct:
    kind = told.get("type") if isinstance(told, dict) else None
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind == "object" and "properties" in told:
        return _from_json_schema({**told, "type": "object"}, place)
    if kind == "object" and isinstance(told.get("additionalProperties"), dict):
        values = _type(told["additionalProperties"], f"{place}.*")
        return {"type": "map", "keyType": "string", "valueType": values, "valueContainsNull": True}
    if kind == "array":
        return {"type": "array", "elementType": _type(told.get("items"), f"{place}[]"), "containsNull": True}
    if kind not in _PLAIN:
        raise Refused(
            f"the schema at {place} has no single type that a column can have: use string, integer, number, boolean, "
            'object with "properties" or "additionalProperties", or array with "items"'
        )
    return _plain(kind, told)


def _plain(kind: str, told: Mapping[str, Any]) -> str:
    """Return the type of a value without parts; formats make times of texts and small numbers of integers."""
    if kind == "string" and told.get("contentEncoding") == "base64":
        return "binary"
    if kind == "integer" and told.get("format") == "int32":
        return "integer"
    return _FORMATS.get(told.get("format", ""), "string") if kind == "string" else _PLAIN[kind]


def _may_be_null(told: Any) -> bool:
    return isinstance(told.get("type"), list) and "null" in told["type"]
