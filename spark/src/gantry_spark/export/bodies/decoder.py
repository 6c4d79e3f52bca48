"""Decodes JSON bodies into typed columns, strictly: a value that does not fit makes its row undecodable, never a null.

Runs in Spark's tasks. Text is not accepted for numbers (except decimals, which are often quoted), nor numbers for text; unknown fields are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from gantry_spark.export.failures import Refused

WHY_CHARS_MAX: Final = 300
_INTEGERS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}


class Decoded(NamedTuple):
    """Bodies as columns: `rows` are the numbers of the decoded bodies, `bad` those of the others, with the reason."""

    rows: list[int]
    columns: list[pa.Array]
    bad: list[tuple[int, str]]


class BodyDecoder:
    """Decodes bodies by a schema (the JSON form of a StructType); `fields` are the columns, with `prefix` before their names."""

    def __init__(self, schema: dict[str, Any], prefix: str = "") -> None:
        """Build the decoder. Raises Refused for a type that JSON cannot fill."""
        self.fields = [
            pa.field(prefix + field["name"], _arrow(field["type"], field["name"]))
            for field in schema["fields"]
        ]
        self._names = [f"f{number}" for number in range(len(self.fields))]
        self._decoder = msgspec.json.Decoder(_struct(schema, "$"))
        self._to_builtin = [_converter(field.type) for field in self.fields]

    def decode(self, bodies: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of bodies."""
        rows: list[int] = []
        values: list[Any] = []
        bad: list[tuple[int, str]] = []
        decode = self._decoder.decode
        for row, body in enumerate(bodies):
            if not body:
                bad.append((row, "the body is empty"))
                continue
            try:
                values.append(decode(body))
                rows.append(row)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                bad.append((row, str(error)[:WHY_CHARS_MAX]))
        try:
            return Decoded(rows, self._columns(values), bad)
        except (pa.ArrowException, OverflowError, ValueError):
            return self._one_by_one(rows, values, bad)

    def _columns(self, values: list[Any]) -> list[pa.Array]:
        return [
            pa.array(
                [
                    getattr(value, name) if convert is None else convert(getattr(value, name))
                    for value in values
                ],
                field.type,
            )
            for field, name, convert in zip(self.fields, self._names, self._to_builtin, strict=True)
        ]

    def _one_by_one(self, rows: list[int], values: list[Any], bad: list[tuple[int, str]]) -> Decoded:
        """Find the rows whose values are valid JSON but do not fit the table: a decimal with too many digits, a far date."""
        kept: list[int] = []
        fit: list[Any] = []
        for row, value in zip(rows, values, strict=True):
            try:
                self._columns([value])
            except (pa.ArrowException, OverflowError, ValueError) as error:
                bad.append((row, str(error)[:WHY_CHARS_MAX]))
            else:
                kept.append(row)
                fit.append(value)
        return Decoded(kept, self._columns(fit), sorted(bad))


def _arrow(kind: Any, place: str) -> pa.DataType:
    """Return Arrow's type of a column; 8 and 16 bits become 32, which every kind of table supports."""
    if isinstance(kind, dict):
        match kind["type"]:
            case "struct":
                return pa.struct(
                    [
                        pa.field(one["name"], _arrow(one["type"], f"{place}.{one['name']}"))
                        for one in kind["fields"]
                    ]
                )
            case "array":
                return pa.list_(_arrow(kind["elementType"], f"{place}[]"))
            case "map" if kind["keyType"] == "string":
                return pa.map_(pa.string(), _arrow(kind["valueType"], f"{place}.*"))
            case _:
                raise Refused(f"column {place}: JSON has no {kind['type']} with such keys")
    if digits := re.fullmatch(r"decimal\((\d+),(-?\d+)\)", kind):
        return pa.decimal128(int(digits.group(1)), int(digits.group(2)))
    plain = {
        "byte": pa.int32(), "short": pa.int32(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
        "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
    }  # fmt: skip
    if kind not in plain:
        raise Refused(
            f"column {place}: the type {kind} cannot be read from JSON; there are {', '.join(plain)}, decimal(p,s)"
        )
    return plain[kind]


def _struct(kind: dict[str, Any], place: str) -> type[msgspec.Struct]:
    """Return the msgspec type of a struct: fields f0, f1, … with their names in JSON."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    rename: dict[str, str] = {}
    for number, field in enumerate(kind["fields"]):
        inner = _python(field["type"], f"{place}.{field['name']}")
        rename[f"f{number}"] = field["name"]
        is_needed = not field.get("nullable", True)
        fields.append((f"f{number}", inner) if is_needed else (f"f{number}", inner | None, None))
    return msgspec.defstruct("Body", fields, rename=rename, kw_only=True, gc=False)


def _python(kind: Any, place: str) -> Any:
    if isinstance(kind, dict):
        match kind["type"]:
            case "struct":
                return _struct(kind, place)
            case "array":
                return list[_python(kind["elementType"], place) | None]
            case _:
                return dict[str, _python(kind["valueType"], place) | None]
    if bits := _INTEGERS.get(kind):
        return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]
    if kind.startswith("decimal"):
        return Decimal
    return {
        "float": float, "double": float, "boolean": bool, "string": str, "binary": bytes, "date": date,
        "timestamp": datetime, "timestamp_ntz": Annotated[datetime, msgspec.Meta(tz=False)],
    }[kind]  # fmt: skip


def _converter(kind: pa.DataType) -> Any:
    """Return a function that converts a decoded value for Arrow's `kind`; None if no conversion is needed."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return lambda value: (
            value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value
        )
    if pa.types.is_struct(kind):
        inner = [(field.name, f"f{number}", _converter(field.type)) for number, field in enumerate(kind)]
        return lambda value: None if value is None else {
            name: getattr(value, attribute) if convert is None else convert(getattr(value, attribute))
            for name, attribute, convert in inner
        }  # fmt: skip
    if pa.types.is_list(kind) and (convert := _converter(kind.value_type)) is not None:
        return lambda value: None if value is None else [convert(one) for one in value]
    if pa.types.is_map(kind):
        convert = _converter(kind.item_type)
        return lambda value: None if value is None else [
            (key, one if convert is None else convert(one)) for key, one in value.items()
        ]  # fmt: skip
    return None
