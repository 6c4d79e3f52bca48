"""Counts a log in one Spark job: a task per piece, which returns its counts to the driver as Arrow.

A query over the source `gantry` would start three more Python processes to plan it, take seconds of a report, and hand each row to Java.
This job needs no session, only the context: half of Spark's start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import SparkContext

from gantry_spark.reports.counting import counts
from gantry_spark.reports.facts import Span
from gantry_spark.source import options as source_options
from gantry_spark.source.batch import BatchReader
from gantry_spark.source.reading import Piece, Task

_ipc: Final[Any] = pa.ipc


def counted(
    context: SparkContext, options: Mapping[str, str], step: int, tracked: int, span: Span
) -> pa.Table:
    """Return the counts of the messages that options of `gantry` select. Raises errors of planning and reading."""
    reader = BatchReader(source_options.parse(options), counts.COLUMNS, (span.since_ms, span.below_ms))
    pieces = [piece for piece in reader.partitions() if isinstance(piece, Piece)]
    work = Counting(reader.task(), step, tracked)
    found: Sequence[bytes] = context.parallelize(pieces, max(1, len(pieces))).map(work).collect()
    batches = [batch for part in found for batch in _ipc.open_stream(part)]
    return pa.Table.from_batches(batches, schema=counts.SCHEMA)


class Counting:
    """Counts one piece: the work of a task."""

    def __init__(self, task: Task, step: int, tracked: int) -> None:
        self._task = task
        self._step = step
        self._tracked = tracked

    def __call__(self, piece: Piece) -> bytes:
        """Return the counts of a piece as an Arrow stream, separately for each broker."""
        sink = pa.BufferOutputStream()
        with _ipc.new_stream(sink, counts.SCHEMA) as stream:
            for broker in sorted({part.broker for part in piece.ranges}):
                counter = counts.Counter(broker, self._step, self._tracked)
                for batch in self._task.read(piece.of_broker(broker)):
                    counter.add(batch)
                for batch in counter.batches():
                    stream.write_batch(batch)
        return sink.getvalue().to_pybytes()
