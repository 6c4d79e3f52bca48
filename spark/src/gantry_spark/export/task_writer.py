"""The work of Spark's tasks on rows: decode bodies, write files. The commit only notes the files; the driver commits the table.

A separate data source, `gantry_export`, so that Spark counts tasks, retries them and reports once which attempts won.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from gantry_spark.export.bodies.decoder import BodyDecoder
from gantry_spark.export.tables.columns import METADATA, dead_letters, typed, with_body
from gantry_spark.export.tables.part_files import PartFile, PartWriter

NAME: Final = "gantry_export"
JOB: Final = "job"
WRITTEN: Final = "written.json"


@dataclass(frozen=True)
class TaskJob:
    """The job of every task. Sent as JSON."""

    out: str
    dead_out: str
    staging: str
    log_ids: dict[str, str]
    dead_from: dict[str, int]
    """Rows below these positions are already among the dead letters: a run was killed between the two commits."""
    with_partitions: bool
    body: dict[str, Any] | None
    prefix: str

    def to_json(self) -> str:
        """Return the job as text."""
        return json.dumps(self.__dict__)

    def schema(self) -> pa.Schema:
        """Return the columns of the table, without the partitions."""
        return with_body() if self.body is None else typed(BodyDecoder(self.body, self.prefix).fields)


@dataclass
class Written(WriterCommitMessage):
    """The result of a task."""

    files: list[PartFile]
    dead: list[PartFile]


class ExportSink(DataSource):
    """`df.write.format("gantry_export")`, for the export's own use."""

    @classmethod
    def name(cls) -> str:
        """Return its registered name."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer that is sent to the tasks."""
        del schema, overwrite
        return ExportWriter(self.options[JOB])


class ExportWriter(DataSourceArrowWriter):
    """Contains the job only as text: it is pickled into every task."""

    def __init__(self, job: str) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        task = _Task(TaskJob(**json.loads(self._job)))
        try:
            for rows in iterator:
                task.take(rows)
            return task.close()
        except BaseException:
            task.abort()
            raise

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Note the written files for the driver, which commits."""
        done = [one for one in messages if isinstance(one, Written)]
        noted = {
            "files": [file for one in done for file in one.files],
            "dead": [file for one in done for file in one.dead],
        }
        job = TaskJob(**json.loads(self._job))
        path = Path(job.out) / job.staging / WRITTEN
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            json.dump(noted, file)
            file.flush()
            os.fsync(file.fileno())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave the staged files: the next run empties that folder."""


def written(job: TaskJob) -> Written:
    """Return the results of a job's tasks, on the driver."""
    noted = json.loads((Path(job.out) / job.staging / WRITTEN).read_text(encoding="utf-8"))
    return Written([PartFile(*one) for one in noted["files"]], [PartFile(*one) for one in noted["dead"]])


class _Task:
    def __init__(self, job: TaskJob) -> None:
        self._schema, self._dead_schema = job.schema(), dead_letters()
        self._decoder = None if job.body is None else BodyDecoder(job.body, job.prefix)
        self._dead_from = job.dead_from
        self._files = _writer(job, job.out)
        self._dead = _writer(job, job.dead_out)

    def take(self, rows: pa.RecordBatch) -> None:
        if self._decoder is None:
            self._files.write(_with_broker(rows, self._schema, rows.column("body")))
            return
        decoded = self._decoder.decode(rows.column("body").to_pylist())
        fit = rows if not decoded.bad else rows.take(pa.array(decoded.rows, pa.int64()))
        if decoded.rows:
            self._files.write(_with_broker(fit, self._schema, *decoded.columns))
        if decoded.bad:
            self._bury(rows, decoded.bad)

    def close(self) -> Written:
        return Written(self._files.close(), self._dead.close())

    def abort(self) -> None:
        self._files.abort()
        self._dead.abort()

    def _bury(self, rows: pa.RecordBatch, bad: list[tuple[int, str]]) -> None:
        brokers, positions = rows.column("brokerName"), rows.column("physicalOffset")
        new = [
            (row, why)
            for row, why in bad
            if positions[row].as_py() >= self._dead_from.get(brokers[row].as_py(), 0)
        ]
        if new:
            some = rows.take(pa.array([row for row, _ in new], pa.int64()))
            why = pa.array([why for _, why in new], pa.string())
            self._dead.write(_with_broker(some, self._dead_schema, some.column("body"), why))


def _writer(job: TaskJob, out: str) -> PartWriter:
    return PartWriter(Path(out), job.staging, job.log_ids, with_partitions=job.with_partitions)


def _with_broker(rows: pa.RecordBatch, schema: pa.Schema, *more: pa.Array) -> pa.RecordBatch:
    """Return rows with the columns of a table followed by the broker."""
    columns = [rows.column(name) for name in METADATA]
    fields = [*schema, pa.field("brokerName", pa.string())]
    arrays = [*columns, *more, rows.column("brokerName")]
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)],
        schema=pa.schema(fields),
    )
