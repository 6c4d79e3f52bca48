"""The JSON schema of bodies, from a file: Spark's DDL, a StructType as JSON, or a JSON Schema.

All are converted to the JSON form of a StructType, which is sent to the tasks as text. Of a JSON Schema, types, `required` and the formats
`date` and `date-time` are used; other constraints are ignored, and unsupported types are refused.
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
    """Return the schema in a file. `parse_ddl` is Spark's. Raises Refused with the invalid place."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read the schema {path}: {getattr(error, 'strerror', None) or error}") from None
    if not text.lstrip().startswith("{"):
        return _checked(parse_ddl(text.strip()), path)
    try:
        declared = json.loads(text)
    except json.JSONDecodeError as error:
        raise Refused(f"the schema {path} is not JSON: {error}") from None
    if declared.get("type") == "struct" and "fields" in declared:
        return _checked(declared, path)
    return _checked(_from_json_schema(declared, "$"), path)


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
                f"the schema {path} has the columns {seen[name.lower()]} and {name}, which Spark cannot distinguish"
            )
        seen[name.lower()] = name
    return schema


def _from_json_schema(declared: Mapping[str, Any], place: str) -> Struct:
    """Return an object of a JSON Schema as a struct."""
    if declared.get("type") != "object" or not isinstance(declared.get("properties"), dict):
        raise Refused(
            f"the schema has no columns at {place}: write a Spark DDL (`id BIGINT, name STRING`), a StructType as JSON, "
            'or a JSON Schema with "type": "object" and "properties"'
        )
    required = set(declared.get("required", ()))
    fields = [
        {
            "name": name,
            "type": _type(inner, f"{place}.{name}"),
            "nullable": name not in required or _may_be_null(inner),
            "metadata": {},
        }
        for name, inner in declared["properties"].items()
    ]
    return {"type": "struct", "fields": fields}


def _type(declared: Any, place: str) -> str | Struct:
    kind = declared.get("type") if isinstance(declared, dict) else None
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind == "object" and "properties" in declared:
        return _from_json_schema({**declared, "type": "object"}, place)
    if kind == "object" and isinstance(declared.get("additionalProperties"), dict):
        values = _type(declared["additionalProperties"], f"{place}.*")
        return {"type": "map", "keyType": "string", "valueType": values, "valueContainsNull": True}
    if kind == "array":
        return {
            "type": "array",
            "elementType": _type(declared.get("items"), f"{place}[]"),
            "containsNull": True,
        }
    if kind not in _PLAIN:
        raise Refused(
            f"the schema at {place} has no single type that a column can have: use string, integer, number, boolean, "
            'object with "properties" or "additionalProperties", or array with "items"'
        )
    return _plain(kind, declared)


def _plain(kind: str, declared: Mapping[str, Any]) -> str:
    """Return the type of a scalar; formats make times of texts and small numbers of integers."""
    if kind == "string" and declared.get("contentEncoding") == "base64":
        return "binary"
    if kind == "integer" and declared.get("format") == "int32":
        return "integer"
    return _FORMATS.get(declared.get("format", ""), "string") if kind == "string" else _PLAIN[kind]


def _may_be_null(declared: Any) -> bool:
    return isinstance(declared.get("type"), list) and "null" in declared["type"]
