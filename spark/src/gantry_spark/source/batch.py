"""Batches: the reader behind `spark.read.format("gantry")`.

Spark takes whole rows of its schema from a Python source, so the schema is the projection: by the option columns, or a given schema.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from gantry_spark.bad_option import BadOption
from gantry_spark.decode.schema import UnknownColumn, column
from gantry_spark.decode.segments import Wanted
from gantry_spark.source import reach
from gantry_spark.source.options import EARLIEST, LATEST, Offsets, Options
from gantry_spark.source.plan import plan
from gantry_spark.source.pushdown import Restriction, Span
from gantry_spark.source.reading import TIME_MS_MAX, DataLost, Piece, Task
from gantry_spark.store.boundaries import Boundaries
from gantry_spark.store.files import still_there
from gantry_spark.store.snapshot import Snapshot, StoreView, load, take

_log = logging.getLogger("gantry_spark")

_TRIES = 3


class BatchReader(DataSourceReader):
    """Reads the stores' content at the moment of planning, or an earlier snapshot."""

    def __init__(self, options: Options, names: tuple[str, ...], stored: Span = (None, None)) -> None:
        """Read according to the options; `stored`: store times from and below (ms), unless the options give them."""
        self._options = options
        self._names = names
        self._restriction = Restriction(topics=options.topics)
        if stored != (None, None):
            self._restriction.spans["storetimestamp"] = stored
        if options.starting_ms is not None or options.ending_ms is not None:
            self._restriction.spans["storetimestamp"] = options.starting_ms, options.ending_ms

    def partitions(self) -> list[InputPartition]:  # type: ignore[override] - Spark insists on a list
        """Plan: take the snapshot, find the ranges, split them."""
        options, task = self._options, self.task()
        if options.snapshot is not None:
            snapshot = load(options.snapshot)
        else:
            snapshot = take(
                options.paths,
                http=options.http,
                ttl_seconds=options.snapshot_seconds,
                replica=options.replica,
            )
        try:
            return self._plan(snapshot, task)
        except BaseException:
            if options.snapshot is None:
                snapshot.close()
            raise

    def _plan(self, snapshot: Snapshot, task: Task) -> list[InputPartition]:
        options, brokers = self._options, self._restriction.brokers
        names = frozenset(view.broker for view in snapshot.stores)
        reach.check_brokers(options.starting, names, "startingOffsets")
        reach.check_brokers(options.ending, names, "endingOffsets")
        self._check_queues(snapshot)
        views = [view for view in snapshot.stores if brokers is None or view.broker in brokers]
        for _ in range(_TRIES):  # a segment may be deleted during the search for boundaries
            with contextlib.suppress(FileNotFoundError):
                views = [replace(view, segments=still_there(view.segments)) for view in views]
                return self._planned(views, task)
        raise DataLost([f"{view.broker}: its files disappear while they are read" for view in views])

    def _check_queues(self, snapshot: Snapshot) -> None:
        options = self._options
        for view in snapshot.stores:
            reach.check_queues(options.starting, view, "startingOffsets")
            reach.check_queues(options.ending, view, "endingOffsets")
        if words := reach.unknown_topics(snapshot.stores, options.topics or ()):
            if options.fail_on_data_loss:
                raise BadOption(f"{words} (use failOnDataLoss=false to read messages of a deleted topic)")
            _log.warning("%s", words)

    def _planned(self, views: list[StoreView], task: Task) -> list[InputPartition]:
        options = self._options
        finders = {view.broker: Boundaries(view) for view in views}
        reaches = {view.broker: self._reach(view, finders[view.broker]) for view in views}
        ranges = {broker: (found.start, found.stop) for broker, found in reaches.items()}
        planned = plan(views, ranges, min_partitions=options.min_partitions, finders=finders)
        offsets_lost = [
            words for view in views for words in reach.lost_offsets(view, reaches[view.broker].bounds)
        ]
        if (planned.lost or offsets_lost) and options.fail_on_data_loss:
            raise DataLost([*planned.lost, *offsets_lost])
        task.say_lost(planned.lost)
        for words in offsets_lost:
            _log.warning("read without the messages that retention deleted: %s", words)
        bounds = {broker: found.bounds for broker, found in reaches.items()}
        return [Piece(ranges, bounds) for ranges in planned.partitions] or [Piece((), {})]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Yield the rows of a partition."""
        return self.task().read(partition) if isinstance(partition, Piece) else iter(())

    def task(self) -> Task:
        """Return the settings for reading a partition."""
        restriction, options = self._restriction, self._options
        times = restriction.spans.get("storetimestamp")
        wanted = Wanted(
            columns=self._names,
            topics=restriction.topics,
            queues=restriction.queues,
            store_ms=None
            if times is None
            else (times[0] or 0, TIME_MS_MAX if times[1] is None else times[1]),
            check_crc=options.check_crc,
            decompress=options.decompress,
        )
        return Task(wanted, options.quarantine, options.fail_on_data_loss)

    def _reach(self, view: StoreView, finder: Boundaries) -> reach.Reach:
        """Return the range of a log to read: from the options, narrowed by the filters."""
        options, restriction = self._options, self._restriction
        topics = options.topics
        start, first = reach.start_of(view, finder, options.starting or Offsets(EARLIEST), topics)
        stop, behind = reach.stop_of(view, finder, options.ending or Offsets(LATEST), topics)
        spans: list[tuple[int, int]] = []
        times: Span = restriction.spans.get("storetimestamp", (None, None))
        if times != (None, None):
            spans.append(finder.around_time(*times))
        positions: Span = restriction.spans.get("physicaloffset", (None, None))
        if positions != (None, None):
            low, high = positions
            spans.append(
                (
                    view.min_position if low is None else finder.at_or_above(low),
                    view.end_position if high is None else finder.at_or_above(high),
                )
            )
        offsets: Span = restriction.spans.get("queueoffset", (None, None))
        if offsets != (None, None) and restriction.topics is not None:
            spans.append(finder.around_offsets(self._queues(view), offsets[0] or 0, offsets[1]))
        for low, high in spans:
            start, stop = max(start, low), min(stop, high)
        return reach.Reach(start, max(start, stop), reach.merge(first, behind))

    def _queues(self, view: StoreView) -> list[tuple[str, int]]:
        """Return the queues of a store that pass the filters."""
        topics, queues = self._restriction.topics or frozenset(), self._restriction.queues
        return [
            queue for queue in view.queues if queue[0] in topics and (queues is None or queue[1] in queues)
        ]


class PushdownReader(BatchReader):
    """The same with filters, if the option pushdown is set: safe only for a frame that one query uses once.

    Spark 4.3 keeps what a source planned with the loaded frame, including filters, and reuses it for another query over that frame:
    that query would miss the rows that the first one left out. So this is a separate class, and off by default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that narrow the read; return those that Spark must apply."""
        self._restriction = replace(self._restriction, spans=dict(self._restriction.spans))
        return self._restriction.take(filters)


def names_of(schema: StructType) -> tuple[str, ...]:
    """Return the columns of a schema, under its names. Raises BadOption."""
    names: list[str] = []
    for asked in schema.fields:
        try:
            known = column(asked.name)
        except UnknownColumn as error:
            raise BadOption(f"schema: {error}") from error
        given: Any = asked.dataType.simpleString()
        if given != known.ddl.lower() or not asked.nullable:
            raise BadOption(f"schema: the column {asked.name} is {known.ddl}, and may be null; not {given}")
        names.append(asked.name)
    return tuple(names)
