"""The simplest decoder: a loop over records. The fast decoder must equal it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from gantry_spark.decode.schema import PROPERTY_PREFIX, arrow_schema
from gantry_wire.messages.properties import parse_properties
from gantry_wire.records.message_record import Record, scan_records


def _host(address: tuple[str, int]) -> str:
    return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


FIELDS: dict[str, Callable[[Record], Any]] = {
    "topic": lambda record: _text(record.topic),
    "brokerName": lambda _: "broker-a",
    "queueId": lambda record: record.queue_id,
    "queueOffset": lambda record: record.queue_offset,
    "physicalOffset": lambda record: record.position,
    "storeTimestamp": lambda record: record.store_timestamp * 1000,
    "bornTimestamp": lambda record: record.born_timestamp * 1000,
    "storeSize": lambda record: record.size,
    "bodySize": lambda record: len(record.body),
    "reconsumeTimes": lambda record: record.reconsume_times,
    "tags": lambda record: _properties(record).get("TAGS"),
    "keys": lambda record: _properties(record).get("KEYS"),
    "uniqueKey": lambda record: _properties(record).get("UNIQ_KEY"),
    "flag": lambda record: record.flag,
    "sysFlag": lambda record: record.sys_flag,
    "bodyCRC": lambda record: record.body_crc,
    "bornHost": lambda record: _host(record.born_address),
    "storeHost": lambda record: _host(record.store_address),
    "preparedTransactionOffset": lambda record: record.prepared_position,
    "body": lambda record: record.body,
    "properties": lambda record: list(_properties(record).items()),
    "propertiesRaw": lambda record: record.properties,
}


def _properties(record: Record) -> dict[str, str]:
    return parse_properties(_text(record.properties))


def table(records: Iterable[Record], names: tuple[str, ...]) -> pa.Table:
    """Return records as a table with the decoder's schema."""
    found = list(records)
    schema = arrow_schema(names)
    columns = [pa.array([_value(record, field.name) for record in found], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _value(record: Record, name: str) -> Any:
    if name.startswith(PROPERTY_PREFIX):
        return _properties(record).get(name.removeprefix(PROPERTY_PREFIX))
    return FIELDS[name](record)


def decoded(content: bytes, base: int, names: tuple[str, ...]) -> pa.Table:
    """Return all records of a valid segment."""
    return table(scan_records(content, base), names)
