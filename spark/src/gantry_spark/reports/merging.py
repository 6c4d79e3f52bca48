"""Combines the hourly roll-ups of several reports: a month without another pass over its logs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from gantry_spark.reports import content
from gantry_spark.reports.asked import NotPossible
from gantry_spark.reports.facts import CHART_STEPS, Facts, Span, step_for
from gantry_spark.reports.progress import Progress
from gantry_spark.reports.rounds import LAST_STAGE, Made
from gantry_spark.reports.tables.build import BOUNDS_SCHEMA, CONFIGURED_SCHEMA, TRACKED
from gantry_spark.reports.tables.statements import Statements
from gantry_spark.reports.writing import JSON, TABLES

ROLLUPS: Final = {
    "hourly_traffic": "traffic", "hourly_latency": "latency_bins", "hourly_words": "words", "hourly_hashes": "hashes",
}  # fmt: skip
"""Roll-ups, and the view that each replaces."""
_TABLES: Final = (
    "topics", "system_topics", "traffic_by_time", "queues", "sizes", "latency", "latency_by_time", "tops", "distinct", *ROLLUPS,
)  # fmt: skip
_HOUR: Final = 3600
_NOTE: Final = (
    "Merged from roll-ups: traffic, queues, latency, frequent words and sizes. Tables of one moment (delays, retries, transactions, "
    "consumers, the check) are in the single reports."
)


def read(folders: Sequence[Path]) -> dict[str, pa.Table]:
    """Return the combined roll-ups of reports. Raises NotPossible, also if two of them counted the same messages, or other logs of one name."""
    _check_logs(folders)
    found: dict[str, list[pa.Table]] = {name: [] for name in ROLLUPS}
    counted: dict[tuple[str, str, int], list[tuple[int, int, Path]]] = {}
    for folder in folders:
        for name, tables in found.items():
            try:
                tables.append(pq.read_table(folder / TABLES / f"{name}.parquet"))
            except (OSError, pa.ArrowInvalid) as error:
                raise NotPossible(
                    f"{folder} is not a complete report: {name} cannot be read ({error})"
                ) from None
        for queue, span in _spans(found["hourly_traffic"][-1]).items():
            counted.setdefault(queue, []).append((*span, folder))
    for (broker, topic, queue_id), spans in counted.items():
        spans.sort()
        for (_, last, one), (first, _, other) in pairwise(spans):
            if first <= last:
                where = f"queue {queue_id} of {topic} on {broker}"
                raise NotPossible(
                    f"{one} and {other} counted the same messages ({where}): merge reports of ranges that do not overlap"
                )
    return {name: pa.concat_tables(tables) for name, tables in found.items()}


def _check_logs(folders: Sequence[Path]) -> None:
    """Refuse different logs of one store: a restarted log counts its offsets from 0 again. Raises NotPossible."""
    known: dict[str, tuple[str, Path]] = {}
    for folder in folders:
        try:
            stores = json.loads((folder / JSON).read_text(encoding="utf-8"))["snapshot"]["stores"]
        except (OSError, ValueError, LookupError):
            continue  # a folder that is not a report is refused for its roll-ups
        for store in stores:
            if not store["logId"]:  # a log that Gantry had not opened yet has no name
                continue
            log_id, other = known.setdefault(store["broker"], (store["logId"], folder))
            if store["logId"] != log_id:
                raise NotPossible(
                    f"{other} and {folder} are of different logs of {store['broker']} ({log_id}, {store['logId']}): its store was "
                    "recreated between them; merge reports of one log"
                )


def merge(spark: SparkSession, rollups: dict[str, pa.Table], progress: Progress) -> Made:
    """Return the report of roll-ups."""
    traffic = rollups["hourly_traffic"]
    times = [at.timestamp() for at in traffic["time"].to_pylist()]
    width_ms = 1000 * int(max(times) - min(times)) if times else 0
    now_ms = int(time.time() * 1000)
    step = max(_HOUR, step_for(width_ms, CHART_STEPS))
    parameters = {"step": _HOUR, "chart_step": step, "now_ms": now_ms, "tracked": TRACKED}
    sql = Statements(spark, parameters, {})
    progress.stage("merging")
    for name, view in ROLLUPS.items():
        sql.register(view, spark.createDataFrame(rollups[name]))
    for name, schema in (("bounds", BOUNDS_SCHEMA), ("configured", CONFIGURED_SCHEMA)):
        spark.createDataFrame(schema.empty_table()).createOrReplaceTempView(name)
    tables = {name: sql.table(name) for name in _TABLES}
    tables["damage"] = content.damage_table([])
    brokers = sorted(set(traffic["broker"].to_pylist()))
    snapshot: dict[str, Any] = {"id": "merged", "createdMs": now_ms, "brokers": brokers, "stores": []}
    facts = Facts(snapshot, (), (), now_ms, 0, 0, "", (_NOTE,))
    progress.stage(LAST_STAGE)
    return Made(content.content(facts, Span(), tables, parameters, progress.seconds), sql.used, tables)


def _spans(traffic: pa.Table) -> dict[tuple[str, str, int], tuple[int, int]]:
    """Return the lowest and highest offset of each queue that a roll-up counted."""
    spans = traffic.group_by(["broker", "topic", "queueId"]).aggregate(
        [("firstOffset", "min"), ("lastOffset", "max")]
    )
    return {
        (row["broker"], row["topic"], row["queueId"]): (row["firstOffset_min"], row["lastOffset_max"])
        for row in spans.to_pylist()
    }
