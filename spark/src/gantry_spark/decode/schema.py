"""The columns of a message in Spark and Arrow: names, types, and which are read by default.

Names are those of RocketMQ's Spark connector if it has them, so that queries carry over; Spark compares names without case.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa

TIME: Final = pa.timestamp("us", tz="UTC")
"""Spark's TIMESTAMP accepts exactly this from Arrow; the log has milliseconds."""
TEXT_MAP: Final = pa.map_(pa.string(), pa.string())

PROPERTY_PREFIX: Final = "property:"
"""`property:NAME` is a text column: the value of one property, null if a message lacks it."""


class Column(NamedTuple):
    """A column: Arrow's type, Spark's DDL type, whether it is read by default, and its description."""

    arrow: pa.DataType
    ddl: str
    default: bool
    meaning: str


COLUMNS: Final[dict[str, Column]] = {
    "topic": Column(pa.string(), "STRING", True, "topic"),
    "brokerName": Column(pa.string(), "STRING", True, "the store's broker name, from its configuration"),
    "queueId": Column(pa.int32(), "INT", True, "queue of the topic"),
    "queueOffset": Column(pa.int64(), "BIGINT", True, "offset in the queue"),
    "physicalOffset": Column(pa.int64(), "BIGINT", True, "position of the record in the CommitLog, bytes"),
    "storeTimestamp": Column(TIME, "TIMESTAMP", True, "the time when the store took it"),
    "bornTimestamp": Column(
        TIME, "TIMESTAMP", True, "the time when its producer created it, by the producer's clock"
    ),
    "storeSize": Column(pa.int32(), "INT", True, "bytes of the whole record"),
    "bodySize": Column(pa.int32(), "INT", True, "bytes of the body as stored"),
    "reconsumeTimes": Column(pa.int32(), "INT", True, "how often it was given back"),
    "tags": Column(pa.string(), "STRING", True, "property TAGS"),
    "keys": Column(pa.string(), "STRING", True, "property KEYS, separated by spaces"),
    "uniqueKey": Column(pa.string(), "STRING", False, "property UNIQ_KEY, the message id of clients"),
    "flag": Column(pa.int32(), "INT", False, "the client's own flag"),
    "sysFlag": Column(pa.int32(), "INT", False, "system flag: compression, transaction type, IPv6 hosts"),
    "bodyCRC": Column(pa.int32(), "INT", False, "CRC32 of the body as stored, & 7FFFFFFF"),
    "bornHost": Column(pa.string(), "STRING", False, "host:port of the producer"),
    "storeHost": Column(pa.string(), "STRING", False, "host:port of the store"),
    "preparedTransactionOffset": Column(pa.int64(), "BIGINT", False, "position of the half message, or 0"),
    "body": Column(
        pa.binary(), "BINARY", False, "the body as stored; decompressed with the option decompress"
    ),
    "properties": Column(TEXT_MAP, "MAP<STRING,STRING>", False, "all properties"),
    "propertiesRaw": Column(pa.binary(), "BINARY", False, "all properties as stored in the log"),
}
"""Every column, in the order of the widest schema. The default leaves out bodies and properties: Spark takes whole
rows from a Python source, so an unused column costs as much as a used one."""

DEFAULT_COLUMNS: Final = tuple(name for name, column in COLUMNS.items() if column.default)


class UnknownColumn(ValueError):
    """A message has no such column; the text lists those it has."""


def column(name: str) -> Column:
    """Return a column by its name, ignoring case. Raises UnknownColumn."""
    if name.startswith(PROPERTY_PREFIX) and len(name) > len(PROPERTY_PREFIX):
        return Column(pa.string(), "STRING", False, f"property {name.removeprefix(PROPERTY_PREFIX)}")
    known = _BY_LOWER_NAME.get(name.lower())
    if known is None:
        raise UnknownColumn(
            f"a message has no column {name!r}; it has {', '.join(COLUMNS)} and {PROPERTY_PREFIX}NAME"
        )
    return COLUMNS[known]


def known_name(name: str) -> str:
    """Return a column's name in the spelling used here; `property:NAME` unchanged. Raises UnknownColumn."""
    column(name)
    return _BY_LOWER_NAME.get(name.lower(), name)


def arrow_schema(names: tuple[str, ...]) -> pa.Schema:
    """Return the Arrow schema of these columns, all nullable, under the requested names."""
    return pa.schema([pa.field(name, column(name).arrow) for name in names])


def ddl(names: tuple[str, ...]) -> str:
    """Return Spark's DDL of these columns."""
    return ", ".join(f"`{name}` {column(name).ddl}" for name in names)


_BY_LOWER_NAME: Final = {name.lower(): name for name in COLUMNS}
