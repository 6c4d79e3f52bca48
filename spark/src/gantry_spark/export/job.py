"""A run of an export: fix what is read, let Spark's tasks write files, commit. Validates the request first."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from gantry_spark.export import committing, places
from gantry_spark.export.bodies import schema as body_schema
from gantry_spark.export.bodies.decoder import BodyDecoder
from gantry_spark.export.command.options import ExportOptions
from gantry_spark.export.command.progress import pieces_shown, say, size_words
from gantry_spark.export.failures import Refused
from gantry_spark.export.reach import Reach, in_gaps, reach
from gantry_spark.export.result import Result
from gantry_spark.export.tables.columns import READ, dead_letters, taken
from gantry_spark.export.tables.opening import open_table
from gantry_spark.export.tables.table import STATE, Table
from gantry_spark.export.task_writer import JOB, NAME, ExportSink, TaskJob, Written, written
from gantry_spark.source.plan import Lost, missing
from gantry_spark.source.reach import unknown_topics
from gantry_spark.store.snapshot import Snapshot, take

DAMAGED: Final = f"{STATE}/damaged"
IDLE_BYTES: Final = 64 << 20
"""A run that found nothing commits its position only beyond this distance: an idle table gets no commit per minute."""


class Export:
    """An export into a folder that the caller has locked."""

    def __init__(self, options: ExportOptions, session: Callable[[], SparkSession]) -> None:
        """`session` starts Spark, or returns the running one: only a run with something to read needs it. Raises Refused."""
        self._options, self._session = options, session
        self._out = options.out
        self._dead_out = places.dead_letters_of(options.out)
        identity = places.prepare(self._out)
        body = self._body_schema()
        self._dead_holds: dict[str, Any] = {}
        if body is not None:
            dead = {**places.wanted(options, None), "deadLettersOf": self._out.name}
            self._dead_holds = places.agree(self._dead_out, places.prepare(self._dead_out), dead)
        self._holds = places.agree(self._out, identity, places.wanted(options, body))
        # The constant part of the tasks' job.
        self._body, self._prefix = body, options.prefix
        self._table: Table | None = None
        self._dead: Table | None = None
        if identity is not None:
            self._open()

    def _open(self) -> Table:
        """Open or create the tables, only for an accepted run. Repair the remains of a killed one."""
        if self._table is not None:
            return self._table
        if self._body is not None:
            places.keep(self._dead_out, self._dead_holds)
        places.keep(self._out, self._holds)
        kind = self._options.to
        self._table = opened = open_table(kind, self._out, self._job({}, {}, "").schema())
        if self._body is not None:
            self._dead = open_table(kind, self._dead_out, dead_letters())
        for folder, table in ((self._out, self._table), (self._dead_out, self._dead)):
            if table is not None and (gone := committing.settle(folder, table)):
                say(f"{gone} files of a run that was ended before its commit are removed from {folder}")
        return opened

    def run(self) -> Result:
        """Export new messages. Raises Refused, Failed, and Spark's errors."""
        began = time.monotonic()
        say("looking at the stores")
        with closing(
            take(self._options.places, http=self._options.http, replica=self._options.replica)
        ) as snapshot:
            found = self._reach(snapshot)
            if found is None or not found.bytes:
                return Result(
                    lost=found.gone if found else (),
                    marks=_shown(found) if found else {},
                    seconds=round(time.monotonic() - began, 3),
                )
            self._session()  # where there is no Java, nothing is written
            table = self._open()
            job = self._job(*self._progress_of(found), f"{committing.STAGING}/{uuid.uuid4().hex}")
            done = self._write(snapshot, found, job)
        damaged, lost = self._keep_damaged(job)
        return self._commit(table, found, done, (damaged, (*found.gone, *lost)), began)

    def _reach(self, snapshot: Snapshot) -> Reach | None:
        """Return what to read; None while an awaited topic has no message. Raises Refused."""
        held = {topic for view in snapshot.stores for topic, _ in view.queues}
        topics, accept_loss = self._options.topics, self._options.accept_loss
        if words := unknown_topics(snapshot.stores, topics):
            if not self._options.follow:
                raise Refused(words)
            say(words)
            if self._table is None and held.isdisjoint(topics):
                return None
        marks = {} if self._table is None else self._table.marks()
        found = reach(snapshot.stores, marks, accept_loss=accept_loss)
        gaps = [
            gap
            for view in snapshot.stores
            for gap in missing(view, found.start[view.broker], view.end_position)
        ]
        in_words = in_gaps(gaps, accept_loss=accept_loss)
        for words in (*found.lost, *filter(None, [in_words])):
            say(f"not in the table: {words}")
        return found

    def _job(self, log_ids: dict[str, str], dead_from: dict[str, int], staging: str) -> TaskJob:
        return TaskJob(
            str(self._out), str(self._dead_out), staging, log_ids, dead_from,
            with_partitions=self._options.to == "iceberg", body=self._body, prefix=self._prefix,
        )  # fmt: skip

    def _progress_of(self, found: Reach) -> tuple[dict[str, str], dict[str, int]]:
        """Return the logs that are read, and the positions from which dead letters are new."""
        buried = {} if self._dead is None else self._dead.marks()
        log_ids = {broker: mark.log_id for broker, mark in found.marks.items()}
        new = {broker: mark.next for broker, mark in buried.items() if mark.log_id == log_ids.get(broker)}
        return log_ids, new

    def _write(self, snapshot: Snapshot, found: Reach, job: TaskJob) -> Written:
        brokers = ", ".join(found.start)
        spark = self._session()
        say(f"reading {size_words(found.bytes)} of the log of {brokers}")
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as manifest:
            manifest.write(snapshot.to_json())
            manifest.flush()
            spark.dataSource.register(ExportSink)
            rows = self._rows(spark, manifest.name, found, job)
            with pieces_shown(spark.sparkContext):
                rows.write.format(NAME).mode("append").option(JOB, job.to_json()).save()
        return written(job)

    def _rows(self, spark: SparkSession, manifest: str, found: Reach, job: TaskJob) -> DataFrame:
        """Return the rows of the run as a frame."""
        options = {
            "snapshot": manifest, "columns": ",".join(READ), "topic": ",".join(self._options.topics),
            "startingOffsets": json.dumps(found.start), "decompress": "true", "checkCrc": "true",
            "failOnDataLoss": str(not self._options.accept_loss).lower(), "quarantine": str(self._damaged(job)),
        }  # fmt: skip
        rows = spark.read.format("gantry").options(**options).load()
        store_time = F.col("storeTimestamp")
        if (from_ms := self._holds["fromMs"]) is not None:
            rows = rows.filter(store_time >= F.timestamp_millis(F.lit(from_ms)))
        if (to_ms := self._holds["toMs"]) is not None:
            rows = rows.filter(store_time < F.timestamp_millis(F.lit(to_ms)))
        return rows

    def _commit(
        self,
        table: Table,
        found: Reach,
        done: Written,
        missed: tuple[int, tuple[Lost, ...]],
        began: float,
    ) -> Result:
        files = done.files
        if files or done.dead or found.bytes >= IDLE_BYTES:
            say("committing")
            if (
                self._dead is not None and done.dead
            ):  # first: if killed in between, the next run knows these files
                committing.add(self._dead_out, self._dead, done.dead, found.marks)
            committing.add(self._out, table, files, found.marks)
        return Result(
            rows=sum(file.rows for file in files), files=len(files), bytes=sum(file.bytes for file in files),
            dead_rows=sum(file.rows for file in done.dead), damaged=missed[0], lost=missed[1], marks=_shown(found),
            seconds=round(time.monotonic() - began, 3),
        )  # fmt: skip

    def _damaged(self, job: TaskJob) -> Path:
        return self._out / job.staging / "damaged"

    def _keep_damaged(self, job: TaskJob) -> tuple[int, list[Lost]]:
        """Save the source's reports of damaged and lost records next to the table; return the number of damaged ones, and the lost ranges."""
        count = 0
        lost: list[Lost] = []
        for file in sorted(self._damaged(job).glob("*.json")):
            rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            if file.name.startswith("lost-"):
                lost += [Lost(row["broker"], row["position"], row["position"] + row["size"]) for row in rows]
            else:
                count += len(rows)
            target = self._out / DAMAGED / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
        return count, lost

    def _body_schema(self) -> body_schema.Struct | None:
        path = self._options.json_schema
        if path is None:
            return None
        schema = body_schema.load(path, self._parse_ddl)
        for field in BodyDecoder(schema, self._options.prefix).fields:
            if field.name.lower() in taken():
                raise Refused(
                    f"the schema has a column {field.name}, a name that every message has: rename its columns with --prefix body_"
                )
        return schema

    def _parse_ddl(self, ddl: str) -> body_schema.Struct:
        from pyspark.errors import PySparkException
        from pyspark.sql.types import StructType

        self._session()
        try:
            return json.loads(StructType.fromDDL(ddl).json())
        except PySparkException as error:
            first = str(error).strip().splitlines()[0]
            raise Refused(
                f"the schema {self._options.json_schema} is not a DDL that Spark accepts: {first[:300]}"
            ) from None


def _shown(found: Reach) -> dict[str, list[Any]]:
    return {broker: list(mark) for broker, mark in found.marks.items()}
