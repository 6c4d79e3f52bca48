"""A log for tests of the reports: a DataFrame of given rows with the columns of the data source, in place of segments."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from gantry_spark.decode.schema import PROPERTY_PREFIX, arrow_schema
from gantry_spark.reports.counting import counts
from gantry_spark.reports.facts import Bounds, Committed, Damage, Facts, Span

START_MS = 1_700_000_000_000
"""Begin of a second, not of a minute."""


class RowsLog:
    """Rows added one by one; it sets offsets and positions."""

    def __init__(self, spark: SparkSession | None = None) -> None:
        self.spark = spark
        self.added: list[dict[str, Any]] = []
        self.next: dict[tuple[str, int], int] = {}

    def add(self, topic: str, store_ms: int, **fields: Any) -> dict[str, Any]:
        """Add a message stored `store_ms` after START_MS; with these `properties`."""
        properties = fields.pop("properties", {})
        queue = topic, fields.get("queueId", 0)
        offset = self.next.get(queue, 0)
        self.next[queue] = offset + 1
        row = {
            "topic": topic, "brokerName": "a", "queueId": 0, "queueOffset": offset, "physicalOffset": 1000 * len(self.added),
            "storeTimestamp": 1000 * (START_MS + store_ms), "bornTimestamp": 1000 * (START_MS + fields.pop("born_ms", store_ms)),
            "storeSize": 200, "bodySize": 100, "reconsumeTimes": 0, "sysFlag": 0, "preparedTransactionOffset": 0,
            "bornHost": "10.0.0.9:4711", "tags": properties.get("TAGS"), "keys": properties.get("KEYS"),
            "uniqueKey": properties.get("UNIQ_KEY"), **fields,
            **{PROPERTY_PREFIX + name: value for name, value in properties.items()},
        }  # fmt: skip
        self.added.append(row)
        return row

    def sample(self, store_ms: int, group: str, topic: str, *queues: tuple[int, int, int]) -> None:
        """Add the record that the store writes once a second for a group that advanced."""
        said = {"group": group, "topic": topic, "sampledAt": START_MS + store_ms, "queues": queues}
        self.add("GANTRY_SYS_OFFSETS", store_ms, body=json.dumps(said).encode())

    def rows(self, columns: Sequence[str], *, topics: Collection[str] | None = None, span: Span) -> DataFrame:
        assert self.spark is not None
        schema = arrow_schema(tuple(columns))
        picked = [row for row in self.added if topics is None or row["topic"] in topics]
        frame = self.spark.createDataFrame(pa.Table.from_pylist(picked, schema=schema))
        if span.since_ms is not None and "storeTimestamp" in columns:
            frame = frame.where(F.unix_millis("storeTimestamp") >= span.since_ms)
        if span.below_ms is not None and "storeTimestamp" in columns:
            frame = frame.where(F.unix_millis("storeTimestamp") < span.below_ms)
        return frame

    def counted(self, step: int, tracked: int, span: Span) -> pa.Table:
        assert span.is_all
        counter = counts.Counter("a", step, tracked)
        schema = arrow_schema(counts.COLUMNS)
        for row in self.added:  # one by one, so that pieces are merged
            counter.add(pa.RecordBatch.from_pylist([row], schema=schema))
        return pa.Table.from_batches(counter.batches(), schema=counts.SCHEMA)

    def damage(self) -> Sequence[Damage]:
        return [Damage("a", 4096, 77, "body CRC differs")]

    def facts(self, *committed: Committed, now_ms: int = 0) -> Facts:
        """Return facts that fit the rows."""
        times = [row["storeTimestamp"] // 1000 for row in self.added] or [START_MS]
        bounds = tuple(Bounds("a", topic, queue, 0, count) for (topic, queue), count in self.next.items())
        return Facts(
            {"brokers": ["a"]}, bounds, committed, START_MS + now_ms, min(times), max(times), "1s 5s 10s"
        )
