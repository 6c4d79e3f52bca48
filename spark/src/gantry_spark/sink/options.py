"""The options of the sink and the columns of its rows, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import StructType

from gantry_spark.bad_option import BadOption

_COLUMNS: Final = {
    "body": ("string", "binary"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "shardingkey": ("string",),
    "idempotencykey": ("string",),
    "brokername": ("string",),
    "queueid": ("int", "bigint"),
    "delayms": ("int", "bigint"),
    "deliverat": ("timestamp",),
}
"""What a row may hold, and as which types."""
_OPTIONS: Final = ("gateway", "topic", "token", "idempotencyColumns", "batchMessages", "retrySeconds")
_OF_SPARK: Final = {"path", "checkpointlocation", "queryname"}
"""Options of every stream that Spark hands over with ours."""
MESSAGES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where rows go, checked."""

    gateway: str
    topic: str | None
    token: str | None
    idempotency_columns: tuple[str, ...]
    batch_messages: int
    retry_seconds: int


def parse(given: Mapping[str, str], schema: StructType) -> SinkOptions:
    """Return the options of a sink for rows of a schema. Raises BadOption."""
    options = {name.lower(): value for name, value in given.items()}
    if unknown := sorted(set(options) - {name.lower() for name in _OPTIONS} - _OF_SPARK):
        raise BadOption(f"the sink has no option {', '.join(unknown)}; it has {', '.join(_OPTIONS)}")
    gateway = options.get("gateway", "")
    if not gateway.startswith(("http://", "https://")):
        raise BadOption("give the option gateway: the address of the HTTP API, like http://127.0.0.1:8080")
    columns = tuple(name.strip() for name in options.get("idempotencycolumns", "").split(",") if name.strip())
    _check_columns(schema, columns, has_topic="topic" in options)
    return SinkOptions(
        gateway,
        options.get("topic"),
        options.get("token"),
        columns,
        _number(options, "batchMessages", 500, MESSAGES_MAX),
        _number(options, "retrySeconds", 120, 86_400),
    )


def _check_columns(schema: StructType, key_columns: tuple[str, ...], *, has_topic: bool) -> None:
    types = {field.name.lower(): field.dataType.simpleString() for field in schema.fields}
    for name, given in types.items():
        if name not in _COLUMNS and name not in {key.lower() for key in key_columns}:
            raise BadOption(
                f"a message has no {name}: its columns are {', '.join(_COLUMNS)}; put other columns into the body, "
                "like to_json(struct(*)) AS body, or drop them"
            )
        if name in _COLUMNS and given not in _COLUMNS[name]:
            raise BadOption(f"the column {name} is {' or '.join(_COLUMNS[name])}, not {given}")
    if "body" not in types:
        raise BadOption("a message needs the column body (string or binary)")
    if not has_topic and "topic" not in types:
        raise BadOption("give the option topic, or a column of that name")
    if missing := [key for key in key_columns if key.lower() not in types]:
        raise BadOption(f"idempotencyColumns names {', '.join(missing)}, which the rows do not have")


def _number(options: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = options.get(name.lower(), str(default)).strip()
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise BadOption(f"{name} is a number from 1 to {most}, not {text}")
    return int(text)
