"""Runs all queries of a report, stage by stage, and returns the tables. Each stage has a description for the progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from gantry_spark.reports.facts import CHART_STEPS, STEPS, Facts, Log, Span, step_for
from gantry_spark.reports.tables import delay_levels
from gantry_spark.reports.tables.statements import Statements

_pc: Final[Any] = compute
TRACKED: Final = 1000
"""Distinct tags, keys or producers of a topic and hour that are counted individually; beyond, counts are upper bounds."""
SCHEDULE, TIMER = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
HALF, OP, PARKED = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
SAMPLES, TRACES, MARKS = "GANTRY_SYS_OFFSETS", "RMQ_SYS_TRACE_TOPIC", "GANTRY_SYS_MARKS"
_WAITING: Final = (SCHEDULE, TIMER, HALF, PARKED, MARKS)
_TABLES_AT_ONCE: Final = 3
COUNTED: Final = {"traffic": "traffic", "latency_bins": "latency", "words": "word", "hashes": "hash"}
"""Views of the counting pass, and the rows of which they consist."""
KEPT: Final = ("traffic", "latency_bins", "items", "results", "op_bodies", "samples", "traces")
CONFIGURED_SCHEMA: Final = pa.schema(
    [("broker", pa.string()), ("topic", pa.string()), ("queueId", pa.int32())]
)
BOUNDS_SCHEMA: Final = pa.schema(
    [
        ("broker", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("minOffset", pa.int64()),
        ("maxOffset", pa.int64()),
    ]
)
_COMMITTED_SCHEMA: Final = pa.schema(
    [
        ("group", pa.string()),
        ("broker", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("committed", pa.int64()),
    ]
)
_LEVELS_SCHEMA: Final = pa.schema([("level", pa.int32()), ("ms", pa.int64()), ("word", pa.string())])
NOTHING_EARLIER: Final[Mapping[str, pa.Table]] = MappingProxyType({})

_RESULT_COLUMNS: Final = {
    "topic": "topic", "brokerName": "broker", "storeTimestamp": "stored", "uniqueKey": "uniqueKey", "sysFlag": "sysFlag",
    "preparedTransactionOffset": "preparedTransactionOffset",
    "property:__GANTRY_SETTLED": "settled", "property:REAL_TOPIC": "realTopic",
}  # fmt: skip
_ITEM_COLUMNS: Final = {
    **_RESULT_COLUMNS, "queueId": "queueId", "queueOffset": "queueOffset", "physicalOffset": "physicalOffset",
    "reconsumeTimes": "reconsumeTimes", "keys": "keys",
    "property:TIMER_OUT_MS": "timerOutMs", "property:TRANSACTION_CHECK_TIMES": "checkTimes", "property:__GANTRY_BEGUN": "begunMs",
    "property:PGROUP": "producerGroup", "property:RETRY_TOPIC": "retryTopic", "property:__GANTRY_ORIGIN": "origin",
    "property:__GANTRY_DLQ_REASON": "reason", "property:__GANTRY_DLQ_ATTEMPTS": "attempts",
}  # fmt: skip


@dataclass
class Tables:
    """The results of a report."""

    tables: dict[str, pa.Table] = field(default_factory=dict[str, Any])
    sql: dict[str, str] = field(default_factory=dict[str, str])
    parameters: dict[str, int] = field(default_factory=dict[str, int])


class Build:
    """A report over a log. `stages` in their order; each leaves its tables in `found`."""

    def __init__(
        self,
        spark: SparkSession,
        log: Log,
        counted: pa.Table,
        facts: Facts,
        span: Span,
        earlier: Mapping[str, pa.Table] = NOTHING_EARLIER,
    ) -> None:
        """Start with the counts of `log` by `count`; `earlier` has rows before those of `log` from `kept`."""
        self._log = log
        self._counted = counted
        self._facts = facts
        self._span = span
        self._has_earlier = bool(earlier)
        parameters = {
            "step": step_for(_width_ms(facts, span), STEPS),
            "chart_step": step_for(_width_ms(facts, span), CHART_STEPS),
            "now_ms": facts.now_ms,
            "tracked": TRACKED,
        }
        self._sql = Statements(spark, parameters, earlier)
        self.found = Tables(sql=self._sql.used, parameters=parameters)
        self._register_facts(spark)

    def stages(self) -> list[tuple[str, Callable[[], None]]]:
        """Return each stage with its description."""
        topics = {bound.topic for bound in self._facts.bounds if bound.max_offset > 0}
        waiting = sorted(
            topic for topic in topics if topic in _WAITING or topic.startswith(("%RETRY%", "%DLQ%"))
        )
        bodies = sorted(topics & {SAMPLES, TRACES})
        return [
            ("looking at queues and sizes", self._shape),
            ("measuring latency", self._latency),
            ("finding frequent tags, keys and producers", self._tops),
            (
                "following delays, retries and transactions",
                lambda: self._waiting(waiting, sorted(topics & {OP})),
            ),
            ("following consumers", lambda: self._consumers(bodies)),
        ]

    def kept(self) -> dict[str, pa.Table]:
        """Return the views of this report for the next one, whose log begins where this one ended."""
        kept = {
            name: self._sql.spark.table(name).toArrow()
            for name in KEPT
            if self._sql.spark.catalog.tableExists(name)
        }
        return kept | {name: self.found.tables[f"hourly_{name}"] for name in ("words", "hashes")}

    def close(self) -> None:
        """Release Spark's cached data."""
        self._sql.close()

    def _register_facts(self, spark: SparkSession) -> None:
        _local(spark, self._facts.bounds, BOUNDS_SCHEMA).createOrReplaceTempView("bounds")
        _local(spark, self._facts.configured, CONFIGURED_SCHEMA).createOrReplaceTempView("configured")
        _local(spark, self._facts.committed, _COMMITTED_SCHEMA).createOrReplaceTempView("committed")
        levels = delay_levels.durations(self._facts.delay_levels)
        _local(spark, levels, _LEVELS_SCHEMA).createOrReplaceTempView("levels")

    def _tables(self, *names: str) -> None:
        """Compute tables, some concurrently: each is small, and most of its time is Spark's planning."""
        with ThreadPoolExecutor(_TABLES_AT_ONCE) as threads:
            self.found.tables.update(zip(names, threads.map(self._sql.table, names), strict=True))

    def _shape(self) -> None:
        for name, part in COUNTED.items():
            self._sql.counted(name, self._counted.filter(_pc.equal(self._counted["part"], part)))
        self._tables("topics", "system_topics", "traffic_by_time", "queues", "sizes", "hourly_traffic")
        if self._span.is_all:
            self._tables("check")

    def _latency(self) -> None:
        self._tables("latency", "latency_by_time", "hourly_latency")

    def _tops(self) -> None:
        self._tables("tops", "distinct", "hourly_words", "hourly_hashes")

    def _waiting(self, waiting: Sequence[str], ops: Sequence[str]) -> None:
        """Follow waiting messages. The outcome of an item may be after the end of the range, so outcomes are searched up to the end of the log."""
        if not waiting:
            return
        later = Span(self._span.since_ms)
        columns = tuple(_ITEM_COLUMNS)
        below = self._span.below_ms
        in_range = F.lit(True) if below is None else F.col("stored") < F.timestamp_millis(F.lit(below))
        items = _renamed(self._log.rows(columns, topics=waiting, span=later), _ITEM_COLUMNS)
        self._sql.scan("items", items.withColumn("isInRange", in_range))
        self._sql.scan("results", self._results(later))
        self._sql.scan("op_bodies", self._bodies(ops))
        self._sql.view("delay_items", keep=True)
        self._sql.view("transaction_items")
        self._tables("delays", "delay_curve", "delay_latest", "transactions")
        self._tables("retries", "retry_attempts", "dead_letters")

    def _bodies(self, topics: Sequence[str]) -> DataFrame:
        columns = ("topic", "brokerName", "storeTimestamp", "body")
        rows = self._log.rows(columns, topics=topics, span=Span(self._span.since_ms))
        return rows.withColumnsRenamed({"brokerName": "broker", "storeTimestamp": "stored"})

    def _results(self, span: Span) -> DataFrame:
        """Return the records that result from items: of the topics that items name as their own, and the waiting ones again."""
        spark = self._sql.spark
        real = spark.sql("SELECT DISTINCT realTopic FROM items WHERE realTopic IS NOT NULL").collect()
        targets = sorted({row[0] for row in real})
        own = spark.table("items").select(*_RESULT_COLUMNS.values())
        there = _renamed(self._log.rows(tuple(_RESULT_COLUMNS), topics=targets, span=span), _RESULT_COLUMNS)
        is_result = "settled IS NOT NULL OR sysFlag & 12 = 8 OR realTopic IS NOT NULL"
        known = ", ".join(["''", *(f"'{topic}'" for topic in targets)])  # names hold no quotes
        found = own.where(f"topic NOT IN ({known})").unionByName(there).where(is_result)
        return (
            found.distinct() if self._has_earlier else found
        )  # the waiting ones are already among the earlier ones

    def _consumers(self, bodies: Sequence[str]) -> None:
        """Compute lag from the committed offsets and their samples, and latency to consumers from traces if there are any, else from the samples."""
        if not bodies and not self._facts.committed:
            return
        self._sql.register("bodies", self._bodies(bodies))
        self._sql.scan("samples")
        self._sql.view("lag_by_time", keep=True)
        self._tables("lag_by_time", "lag", "consumed_estimated")
        if TRACES not in bodies:
            return
        self._sql.scan("traces")
        if not self._sql.spark.table("traces").isEmpty():
            stored = self._log.rows(
                ("topic", "uniqueKey", "storeTimestamp", "reconsumeTimes"), span=self._span
            )
            first = stored.where("reconsumeTimes = 0 AND kind_of(topic) = 'user'")
            found = first.withColumnRenamed("storeTimestamp", "stored").join(
                self._sql.spark.table("traces").select("uniqueKey"), "uniqueKey", "semi"
            )
            self._sql.scan("stored_ids", found)
            self._tables("consumed_exact")


def count(log: Log, facts: Facts, span: Span) -> pa.Table:
    """Return the counts of a log for a Build: the one pass over all of it, which needs no session of Spark."""
    return log.counted(step_for(_width_ms(facts, span), STEPS), TRACKED, span)


def _width_ms(facts: Facts, span: Span) -> int:
    first = facts.first_ms if span.since_ms is None else max(span.since_ms, facts.first_ms)
    last = facts.last_ms if span.below_ms is None else min(span.below_ms, facts.last_ms)
    return max(last - first, 0)


def _renamed(rows: DataFrame, names: dict[str, str]) -> DataFrame:
    return rows.toDF(*(names[name] for name in rows.columns))


def _local(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> DataFrame:
    """Return rows as a frame through Arrow, because Spark starts a job for each list of Python's."""
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))
