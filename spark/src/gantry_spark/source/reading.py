"""The work of a task: reads its pieces of logs into Arrow batches, and sets damaged records aside. Runs in Spark's Python workers.

Everything here is pickled into every task: only strings and numbers; files are opened where they are read.
"""

from __future__ import annotations

import base64
import gc
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute
from pyspark.sql.datasource import InputPartition

from gantry_spark.decode.schema import arrow_schema
from gantry_spark.decode.segments import Damaged, LogRange, Wanted, read
from gantry_spark.source.plan import Lost
from gantry_spark.source.reach import QueueBounds

_log = logging.getLogger("gantry_spark")

TIME_MS_MAX: Final = 1 << 62
"""No store time is later."""
_BOUNDED_BY = ("topic", "queueId", "queueOffset")
_pc: Final[Any] = compute
_is_frozen = False


class DataLost(Exception):
    """Messages to read are missing; the text names the range and what to do."""

    def __init__(self, what: Sequence[object], how: str = "") -> None:
        ranges = "; ".join(map(str, what))
        super().__init__(
            f"messages were deleted before they were read: {ranges}. {how}"
            "Set failOnDataLoss=false to continue without them, or keep messages longer in the store (reserved_hours)."
        )


class Piece(InputPartition):
    """A partition: pieces of logs that one task reads, and the exclusions by broker: bounds of queues, older store times."""

    def __init__(
        self,
        ranges: tuple[LogRange, ...],
        bounds: Mapping[str, QueueBounds],
        stored_from: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(None)
        brokers = {piece.broker for piece in ranges}
        self.ranges = ranges
        self.bounds = {name: bounds[name] for name in brokers if bounds.get(name)}
        self.stored_from = {name: ms for name, ms in (stored_from or {}).items() if name in brokers}

    def of_broker(self, name: str) -> Piece:
        """Return the part of one broker."""
        return Piece(
            tuple(part for part in self.ranges if part.broker == name), self.bounds, self.stored_from
        )


@dataclass(frozen=True, slots=True)
class Task:
    """The settings for reading pieces: the same for all tasks of a job."""

    wanted: Wanted
    quarantine: str | None
    fail_on_data_loss: bool

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Raises DataLost, or the decoder's error if the plan does not fit the log."""
        _freeze_once()
        for part in piece.ranges:
            damaged: list[Damaged] = []
            try:
                from_ms = piece.stored_from.get(part.broker)
                wanted = (
                    self.wanted if from_ms is None else replace(self.wanted, store_ms=(from_ms, TIME_MS_MAX))
                )
                yield from _within(part, wanted, piece.bounds.get(part.broker), damaged)
            except FileNotFoundError as error:
                lost = Lost(part.broker, part.start, part.stop)
                if self.fail_on_data_loss:
                    raise DataLost([lost]) from error
                self.say_lost([lost])
            finally:
                self._put_aside(part, damaged)

    def say_lost(self, lost: Sequence[Lost]) -> None:
        """Log missing ranges, and write them next to the damaged records."""
        for part in lost:
            _log.warning("read without missing data: %s", part)
            row = {
                "broker": part.broker,
                "position": part.start,
                "size": part.stop - part.start,
                "why": "missing: deleted or cut off before it was read",
            }
            self._write(f"lost-{part.broker}-{part.start}-{part.stop}", [row])

    def _put_aside(self, part: LogRange, damaged: Sequence[Damaged]) -> None:
        if not damaged:
            return
        first = damaged[0]
        _log.warning(
            "%s: %d damaged records between positions %d and %d are left out, the first at %d: %s",
            part.broker, len(damaged), part.start, part.stop, first.position, first.why,
        )  # fmt: skip
        rows = [{**row._asdict(), "sample": base64.b64encode(row.sample).decode("ascii")} for row in damaged]
        self._write(f"damaged-{part.broker}-{part.start}-{part.stop}", rows)

    def _write(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Write JSON lines under a name determined by what was read: a repeated task writes the same file again."""
        if self.quarantine is None:
            return
        folder = Path(self.quarantine)
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f".{name}.{os.getpid()}"  # Spark ignores files that begin with a dot
        fresh.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        fresh.replace(folder / f"{name}.json")


def _within(
    part: LogRange, wanted: Wanted, bounds: QueueBounds | None, damaged: list[Damaged]
) -> Iterator[pa.RecordBatch]:
    if not bounds:
        yield from read(part, wanted, damaged.append)
        return
    have = {name.lower() for name in wanted.columns}
    more = tuple(name for name in _BOUNDED_BY if name.lower() not in have)
    schema = arrow_schema(wanted.columns)
    for batch in read(part, replace(wanted, columns=wanted.columns + more), damaged.append):
        kept = batch.filter(_mask(batch, bounds))
        yield pa.RecordBatch.from_arrays(kept.columns[: len(wanted.columns)], schema=schema)


def _mask(batch: pa.RecordBatch, bounds: QueueBounds) -> pa.Array:
    columns = {name.lower(): batch.column(number) for number, name in enumerate(batch.schema.names)}
    topic, queue, offset = (columns[name.lower()] for name in _BOUNDED_BY)
    cut = pa.scalar(value=False)
    for name, queues in bounds.items():
        is_topic = _pc.equal(topic, name)
        for queue_id, (first, behind) in queues.items():
            outside = _pc.less(offset, first)
            if behind is not None:
                outside = _pc.or_(outside, _pc.greater_equal(offset, behind))
            cut = _pc.or_(cut, _pc.and_(_pc.and_(is_topic, _pc.equal(queue, queue_id)), outside))
    return _pc.invert(cut)


def _freeze_once() -> None:
    """Exclude imported objects from garbage collection: Spark's worker collects after every task, 13 ms over Arrow alone."""
    global _is_frozen  # noqa: PLW0603 - once per process is the point
    if not _is_frozen:
        gc.collect()
        gc.freeze()
        _is_frozen = True
