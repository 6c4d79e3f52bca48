"""The columns of an exported table and of its dead letters, and the log columns read for them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from gantry_spark.decode.schema import arrow_schema

METADATA: Final = (
    "topic", "queueId", "queueOffset", "physicalOffset", "storeTimestamp", "bornTimestamp", "bornHost", "reconsumeTimes",
    "flag", "sysFlag", "tags", "keys", "uniqueKey", "properties",
)  # fmt: skip
"""The columns next to every body."""
READ: Final = (*METADATA, "brokerName", "body")
WHY: Final = "why"
PARTITIONS: Final = ("dt", "broker")
PARTITION_FIELDS: Final = [pa.field("dt", pa.date32()), pa.field("broker", pa.string())]


def with_body() -> pa.Schema:
    """Return the columns of a table with undecoded bodies, without the partitions."""
    return arrow_schema((*METADATA, "body"))


def typed(fields: list[pa.Field]) -> pa.Schema:
    """Return the columns of a table with bodies decoded into `fields`, without the partitions."""
    return pa.schema([*arrow_schema(METADATA), *fields])


def dead_letters() -> pa.Schema:
    """Return the columns of the table of undecodable messages, without the partitions."""
    return with_body().append(pa.field(WHY, pa.string()))


def taken() -> frozenset[str]:
    """Return the names, in lower case, that no column of a body may have."""
    return frozenset(name.lower() for name in (*METADATA, *PARTITIONS, "brokerName", "body", WHY))
