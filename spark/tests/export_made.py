"""Rows and runs of an export without Spark: the tests feed the task's writer and commit as the driver does."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from gantry_spark.decode.schema import arrow_schema
from gantry_spark.export import committing
from gantry_spark.export.tables.columns import READ
from gantry_spark.export.tables.opening import open_table
from gantry_spark.export.tables.table import LiveFile, Mark, Table
from gantry_spark.export.task_writer import ExportWriter, TaskJob, Written, written

DAY_US = 86_400 * 1_000_000
NOON_US = 1_767_268_800 * 1_000_000  # 2026-01-01T12:00:00Z
LOG = "0123456789abcdef"


def rows(
    positions: Sequence[int],
    bodies: Sequence[bytes] | None = None,
    broker: str = "broker-a",
    days: Sequence[int] | None = None,
) -> pa.RecordBatch:
    """Return rows as read from the log, at these positions, on 1 January, or `days` later if given."""
    count = len(positions)
    store_us = [NOON_US + day * DAY_US for day in days or [0] * count]
    values = {
        "topic": ["orders"] * count, "queueId": [0] * count, "queueOffset": list(range(count)),
        "physicalOffset": list(positions), "storeTimestamp": store_us, "bornTimestamp": store_us,
        "bornHost": ["10.0.0.1:1"] * count, "reconsumeTimes": [0] * count, "flag": [0] * count, "sysFlag": [0] * count,
        "tags": [None] * count, "keys": ["k"] * count, "uniqueKey": ["u"] * count, "properties": [[("a", "b")]] * count,
        "brokerName": [broker] * count, "body": list(bodies or [b"{}"] * count),
    }  # fmt: skip
    schema = arrow_schema(READ)
    return pa.RecordBatch.from_arrays(
        [pa.array(values[field.name], field.type) for field in schema], schema=schema
    )


def job(
    out: Path, kind: str, body: dict | None = None, dead_from: dict[str, int] | None = None, **more
) -> TaskJob:
    staging = f"{committing.STAGING}/{uuid.uuid4().hex}"
    return TaskJob(
        str(out), f"{out}_dlq", staging, {"broker-a": LOG, "broker-b": LOG}, dead_from or {},
        with_partitions=kind == "iceberg", body=body, prefix=more.get("prefix", ""),
    )  # fmt: skip


def staged(one: TaskJob, *batches: pa.RecordBatch) -> Written:
    """Write batches as one task does, and return its result as the driver gets it."""
    writer = ExportWriter(one.to_json())
    writer.commit([writer.write(iter(batches))])
    return written(one)


def table_of(out: Path, kind: str) -> Table:
    out.mkdir(parents=True, exist_ok=True)
    return open_table(kind, out, job(out, kind).schema())


def run(out: Path, kind: str, positions: Sequence[int], end: int, broker: str = "broker-a") -> None:
    """Do what a run does after Spark's planning: settle, write the new rows, commit."""
    table = table_of(out, kind)
    committing.settle(out, table)
    start = table.marks().get(broker, Mark(LOG, 0)).next
    new = [position for position in positions if start <= position < end]
    one = job(out, kind)
    files = staged(one, rows(new, broker=broker)).files if new else []
    committing.add(out, table, files, {broker: Mark(LOG, end)})


def read_back(out: Path, kind: str) -> list[int]:
    """Return the positions that the library of this kind of table reads."""
    if kind == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(out).to_pyarrow_dataset().to_table()
    elif kind == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("gantry", uri=f"sqlite:///{out}/catalog.db", warehouse=f"file://{out}")
        found = catalog.load_table("gantry.messages").scan().to_arrow()
    else:
        import pyarrow.dataset as ds

        found = ds.dataset(out, format="parquet", partitioning="hive").to_table()
    if "physicalOffset" not in found.column_names:  # a folder without files
        return []
    return sorted(found.column("physicalOffset").to_pylist())


def paths(files: Sequence[LiveFile]) -> list[str]:
    return [file.path for file in files]
