"""Columns of records as Arrow arrays, by the names and types of `schema`. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gantry_spark.decode.fields import as_text, cut, repeated
from gantry_spark.decode.properties import PropertyLists
from gantry_spark.decode.rows import TIME_MS_MAX, Rows
from gantry_spark.decode.schema import PROPERTY_PREFIX, TIME, arrow_schema, known_name
from gantry_wire.messages.ids import unpack_host
from gantry_wire.messages.properties import KEYS, TAGS, UNIQ_KEY

_NUMBERS: Final[dict[str, tuple[str, Any]]] = {
    "queueId": ("queue_id", np.int32),
    "queueOffset": ("queue_offset", np.int64),
    "physicalOffset": ("position", np.int64),
    "storeSize": ("size", np.int32),
    "bodySize": ("body_size", np.int32),
    "reconsumeTimes": ("reconsume", np.int32),
    "flag": ("flag", np.int32),
    "sysFlag": ("sys_flag", np.int32),
    "bodyCRC": ("crc", np.int32),
    "preparedTransactionOffset": ("prepared", np.int64),
}
_PROPERTIES: Final = {"tags": TAGS, "keys": KEYS, "uniqueKey": UNIQ_KEY}


def build(rows: Rows, names: tuple[str, ...], broker: str, bodies: pa.Array | None = None) -> pa.RecordBatch:
    """Return columns of the records, exactly of `arrow_schema(names)`. `bodies` replace the stored ones."""
    made: dict[str, pa.Array] = {}
    properties = PropertyLists(rows)
    schema = arrow_schema(names)
    for name in names:
        known = known_name(name)
        if known not in made:
            made[known] = (
                bodies if known == "body" and bodies is not None else _column(rows, known, broker, properties)
            )
    return pa.RecordBatch.from_arrays([made[known_name(name)] for name in names], schema=schema)


def _column(rows: Rows, name: str, broker: str, properties: PropertyLists) -> pa.Array:
    if name in _NUMBERS:
        field, kind = _NUMBERS[name]
        return pa.array(rows.field(field, kind))
    if name.startswith(PROPERTY_PREFIX):
        return properties.one(name.removeprefix(PROPERTY_PREFIX))
    if name in _PROPERTIES:
        return properties.one(_PROPERTIES[name])
    if name == "brokerName":
        return repeated(broker, len(rows))
    return _OTHERS[name](rows, properties)


def _store_time(rows: Rows, _: PropertyLists) -> pa.Array:
    return pa.array(rows.field("store_ms", np.int64) * 1000).view(TIME)


def _born_time(rows: Rows, _: PropertyLists) -> pa.Array:
    """Return the born times; null outside 1970 to 9999, because no CRC and no store checks a client's time."""
    ms = rows.field("born_ms", np.int64)
    wrong = (ms < 0) | (ms > TIME_MS_MAX)
    if wrong.any():
        return pa.array(np.where(wrong, 0, ms) * 1000, mask=wrong).view(TIME)
    return pa.array(ms * 1000).view(TIME)


def _hosts(field: str) -> Callable[[Rows, PropertyLists], pa.Array]:
    def column(rows: Rows, _: PropertyLists) -> pa.Array:
        parts = list(rows.hosts(field))
        texts = [_host_texts(packed) for _, packed in parts]
        if len(texts) == 1:
            return texts[0]
        order = np.empty(len(rows), np.int64)
        order[np.concatenate([index for index, _ in parts])] = np.arange(len(rows))
        return pa.concat_arrays(texts).take(pa.array(order))

    return column


def _host_texts(packed: Any) -> pa.StringArray:
    """Return hosts as text. Few differ, so each is formatted once and taken by number."""
    width = packed.dtype.itemsize
    packed = np.ascontiguousarray(packed)
    words = packed.view(np.uint32).reshape(-1, width // 4)
    if (words == words[0]).all():
        return repeated(_host_text(packed[0].tobytes()), len(packed))
    content = pa.py_buffer(packed)
    coded = pa.Array.from_buffers(pa.binary(width), len(packed), [None, content]).dictionary_encode()
    texts = [_host_text(host) for host in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(coded.indices)


def _host_text(packed: bytes) -> str:
    address, port = unpack_host(packed)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


_OTHERS: Final[dict[str, Callable[[Rows, PropertyLists], pa.Array]]] = {
    "topic": lambda rows, _: as_text(cut(rows.content, rows.topic_at, rows.topic_end)),
    "storeTimestamp": _store_time,
    "bornTimestamp": _born_time,
    "bornHost": _hosts("born_host"),
    "storeHost": _hosts("store_host"),
    "body": lambda rows, _: cut(rows.content, rows.body_at, rows.body_end),
    "properties": lambda _, properties: properties.maps(),
    "propertiesRaw": lambda _, properties: properties.raw(),
}
