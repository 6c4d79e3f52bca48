"""Reads a piece of a CommitLog as Arrow batches: the only entry point for readers of segments.

Defines pieces, selections, and the sizes of batches. Never yields a damaged record as a row, and reports every lost one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gantry_spark.decode.blocks import Block, open_segment
from gantry_spark.decode.bodies import UnreadableBody, unpack
from gantry_spark.decode.columns import build
from gantry_spark.decode.damage import SAMPLE_BYTES, Damaged, LandedElsewhere
from gantry_spark.decode.fields import cut
from gantry_spark.decode.proof import Ground
from gantry_spark.decode.rows import Rows
from gantry_spark.decode.schema import known_name
from gantry_spark.decode.walking import Walk
from gantry_wire.records.message_record import SYS_COMPRESSED

__all__ = ["Damaged", "LandedElsewhere", "LogRange", "Wanted", "next_record", "read"]

UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""A batch of decompressed bodies ends above this."""
_GATHERED_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True)
class LogRange:
    """A piece of one segment that one task reads; only strings and ints."""

    path: str
    """The segment: a local path, or a URI that pyarrow.fs opens."""
    base: int
    """Position of its first byte."""
    start: int
    """A record boundary."""
    stop: int
    """The position where the piece ends: a record boundary, or the end of the log or the segment."""
    broker: str


@dataclass(frozen=True)
class Wanted:
    """The selected columns and messages."""

    columns: tuple[str, ...]
    """At least one, with names of `schema`."""
    topics: frozenset[str] | None = None
    queues: frozenset[int] | None = None
    store_ms: tuple[int, int] | None = None
    """Store time from (included) and below, in milliseconds."""
    check_crc: bool = False
    decompress: bool = False
    batch_rows: int = 65536


def read(piece: LogRange, wanted: Wanted, damage: Callable[[Damaged], None]) -> Iterator[pa.RecordBatch]:
    """Yield batches of `arrow_schema(wanted.columns)`, in the order of the log; `damage` gets everything that is not a record.

    Raises LandedElsewhere, OSError, and UnknownColumn.
    """
    return _gathered(_batches(piece, wanted, damage), wanted.batch_rows)


def next_record(path: str, base: int, at: int, end: int) -> int:
    """Return the first proven record boundary at or above `at` in a segment that begins at `base`; `end` if there is none.

    `end` is a boundary, or where the log or the segment ends. Raises LandedElsewhere and OSError.
    """
    with open_segment(path) as file:
        block = Block(file, base, end)
        return Ground(block.peek, end, base + file.size).next_uncovered(base, max(at, base))


def boundary_after(path: str, base: int, boundary: int, at: int, end: int) -> int | None:
    """Return the first boundary at or above `at` by walking from one below it; `end` if records end before, None at a damaged one.

    Raises as `next_record` does.
    """
    with open_segment(path) as file:
        block = Block(file, base, end)
        return Ground(block.peek, end, base + file.size).walked(boundary, at)


def _batches(piece: LogRange, wanted: Wanted, damage: Callable[[Damaged], None]) -> Iterator[pa.RecordBatch]:
    unpacks = wanted.decompress and "body" in map(known_name, wanted.columns)
    with open_segment(piece.path) as file:
        block = Block(file, piece.base, piece.stop)

        def report(position: int, size: int, why: str) -> None:
            damage(Damaged(piece.broker, position, size, why, block.peek(position, min(size, SAMPLE_BYTES))))

        ground = Ground(block.peek, piece.stop, piece.base + file.size)
        for found in Walk(block, ground, piece.start, report, check_crc=wanted.check_crc).rows():
            rows = _chosen(found, wanted)
            for start in range(0, len(rows), wanted.batch_rows):
                some = rows if len(rows) <= wanted.batch_rows else rows.part(start, start + wanted.batch_rows)
                if unpacks and (some.field("sys_flag", np.int32) & SYS_COMPRESSED).any():
                    yield from _unpacked(some, wanted, piece.broker, block.position, report)
                else:
                    yield build(some, wanted.columns, piece.broker)


def _chosen(rows: Rows, wanted: Wanted) -> Rows:
    """Return the records that pass the filters, before any column is built."""
    chosen: npt.NDArray[np.bool_] | None = None
    if wanted.store_ms is not None:
        store_ms = rows.field("store_ms", np.int64)
        chosen = (store_ms >= wanted.store_ms[0]) & (store_ms < wanted.store_ms[1])
    if wanted.queues is not None:
        of_queues = np.isin(rows.field("queue_id", np.int32), list(wanted.queues))
        chosen = of_queues if chosen is None else chosen & of_queues
    if wanted.topics is not None:
        of_topics = _of_topics(rows, wanted.topics)
        chosen = of_topics if chosen is None else chosen & of_topics
    return rows if chosen is None or chosen.all() else rows.select(chosen)


def _of_topics(rows: Rows, topics: frozenset[str]) -> npt.NDArray[np.bool_]:
    """Compare the bytes of topics, and only of those with the length of a wanted one."""
    chosen = np.zeros(len(rows), np.bool_)
    wanted = sorted({topic.encode() for topic in topics})
    likely = np.flatnonzero(np.isin(rows.topic_end - rows.topic_at, [len(topic) for topic in wanted]))
    if len(likely):
        coded = cut(rows.content, rows.topic_at[likely], rows.topic_end[likely]).dictionary_encode()
        is_wanted = np.array([topic in wanted for topic in coded.dictionary.to_pylist()])
        chosen[likely] = is_wanted[coded.indices.to_numpy()]
    return chosen


def _unpacked(
    rows: Rows, wanted: Wanted, broker: str, position: int, report: Callable[[int, int, str], None]
) -> Iterator[pa.RecordBatch]:
    """Yield batches with decompressed bodies, each of a bounded size; a body that cannot be decompressed is damage."""
    stored = cut(rows.content, rows.body_at, rows.body_end)
    flags = rows.field("sys_flag", np.int32).tolist()
    bodies: list[bytes] = []
    index: list[int] = []
    held = 0
    for number, flag in enumerate(flags):
        try:
            body = unpack(stored[number].as_py(), flag)
        except UnreadableBody as error:
            start, end = int(rows.starts[number]), int(rows.ends[number])
            report(position + start, end - start, str(error))
            continue
        bodies.append(body)
        index.append(number)
        held += len(body)
        if held > UNPACKED_BYTES:
            yield build(rows.select(np.array(index)), wanted.columns, broker, pa.array(bodies, pa.binary()))
            bodies, index, held = [], [], 0
    if index:
        yield build(rows.select(np.array(index)), wanted.columns, broker, pa.array(bodies, pa.binary()))


def _gathered(batches: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    """Join small batches, which filters leave: each costs Spark as much as a large one."""
    waiting: list[Any] = []
    rows = size = 0
    for batch in batches:
        if waiting and rows + batch.num_rows > rows_max:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= rows_max // 4 or size >= _GATHERED_BYTES:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[Any]) -> pa.RecordBatch:
    return (
        batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    )
