"""Reads logs as a stream: Spark keeps the position in its checkpoint, and asks for what follows.

Its two offsets determine a batch, so a repeated batch after a crash is the same batch. A log that is not the
one read before, or that ends below the position, is an error that says what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from gantry_spark.bad_option import BadOption
from gantry_spark.decode.segments import Wanted
from gantry_spark.source import reach, stream_offsets
from gantry_spark.source.options import EARLIEST, LATEST, Offsets, Options
from gantry_spark.source.plan import plan
from gantry_spark.source.reading import DataLost, Piece, Task
from gantry_spark.source.stream_offsets import Reached
from gantry_spark.store import snapshot
from gantry_spark.store.boundaries import Boundaries
from gantry_spark.store.directory import find
from gantry_spark.store.snapshot import StoreView

_log = logging.getLogger("gantry_spark")

_WHAT_TO_DO: Final = (
    "If that is right, start the query with a new checkpoint, or set failOnDataLoss=false once to continue with the log as it is; "
    "if not, give the store its directory back."
)


class LogReplaced(Exception):
    """A log is not the one that the stream read: replaced, restored from a copy, or cut below the position."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over the stores below some paths. Runs in one Python process next to Spark's driver."""

    def __init__(self, options: Options, names: tuple[str, ...]) -> None:
        if options.ending is not None or options.ending_ms is not None:
            raise BadOption("a stream has no end: endingOffsets and endingTimestamp are for batches")
        if options.snapshot is not None:
            raise BadOption("a snapshot does not grow: a stream reads path")
        self._options = options
        self._names = names
        self._ends: dict[str, int] = {}
        self._until: dict[str, int] | None = None
        """The end for a query that reads only what is available now."""
        self._start_to_log: dict[str, Any] | None = None

    # --- the stream as a whole -----------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as those below
        """Return where a new query starts."""
        options = self._options
        asked = options.starting or Offsets(LATEST if options.starting_ms is None else EARLIEST)
        views = snapshot.take(options.paths, http=options.http, ttl_seconds=options.snapshot_seconds)
        try:
            brokers = frozenset(view.broker for view in views.stores)
            reach.check_brokers(options.starting, brokers, "startingOffsets")
            for view in views.stores:
                reach.check_queues(options.starting, view, "startingOffsets")
            if words := reach.unknown_topics(views.stores, options.topics or ()):
                _log.warning("%s; the stream waits for its messages", words)
            found = stream_offsets.to_json({view.broker: self._initial(view, asked) for view in views.stores})
        finally:
            views.close()
        # A restart before the first batch is done asks again, and "latest" would then be later: so the first batch is an empty one,
        # whose end is this start and is saved in the checkpoint.
        self._start_to_log = None if asked == Offsets(EARLIEST) and options.starting_ms is None else found
        return found

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of one batch."""
        most = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # type: ignore[override]
        """Return the end of the next batch. Raises LogReplaced."""
        if self._start_to_log is not None and start == self._start_to_log:
            self._start_to_log = None
            return start
        views = self._views()
        reached = self._checked(stream_offsets.from_json(start), views)
        ends = {view.broker: view.end_position for view in views.values()}
        if self._until is not None:
            ends = {broker: min(end, self._until.get(broker, 0)) for broker, end in ends.items()}
        ends = {broker: max(end, reached[broker].position) for broker, end in ends.items()}
        if isinstance(limit, ReadMaxBytes):
            open_bytes = {broker: end - reached[broker].position for broker, end in ends.items()}
            for broker, size in stream_offsets.share(open_bytes, limit.max_bytes).items():
                if size < open_bytes[broker]:
                    cut = Boundaries(views[broker]).at_or_above(reached[broker].position + size)
                    ends[broker] = min(ends[broker], cut)
        return stream_offsets.to_json(
            {**reached, **{broker: reached[broker].at(end) for broker, end in ends.items()}}
        )

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of this query at what is available now."""
        self._until = {broker: view.end_position for broker, view in self._views().items()}

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the ends of the logs, for the progress that Spark shows."""
        views = self._views()
        return stream_offsets.to_json(
            {broker: Reached(v.log_id, v.end_position) for broker, v in views.items()}
        )

    # --- one batch -----------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan the batch between two offsets. Raises LogReplaced, DataLost."""
        firsts, lasts = stream_offsets.from_json(start), stream_offsets.from_json(end)
        views: list[StoreView] = []
        ranges: dict[str, tuple[int, int]] = {}
        for store in find(self._options.paths, self._options.http, self._options.replica):
            last = lasts.get(store.broker)
            if last is None:
                continue
            view = snapshot.view_up_to(store, last.position)
            if view.log_id != last.log_id:
                raise LogReplaced(f"the log of {store.broker} was replaced while it was read. {_WHAT_TO_DO}")
            first = firsts.get(store.broker)
            if first is None or first.log_id != last.log_id:
                first = last.at(view.min_position)
            if (
                first.position < last.position
            ):  # above it only if a start is asked for again: see initialOffset
                views.append(view)
                ranges[store.broker] = first.position, last.position
        gone = {
            broker
            for broker, last in lasts.items()
            if broker not in ranges and _is_open(firsts.get(broker), last)
        }
        planned = plan(views, ranges, min_partitions=self._options.min_partitions)
        what = [
            *planned.lost,
            *(f"{broker}: its directory is gone" for broker in gone - {view.broker for view in views}),
        ]
        if what and self._options.fail_on_data_loss:
            raise DataLost(what)
        self._task().say_lost(planned.lost)
        bounds = {broker: last.bounds for broker, last in lasts.items()}
        times = {broker: last.stored_from for broker, last in lasts.items() if last.stored_from is not None}
        return [Piece(pieces, bounds, times) for pieces in planned.partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Yield the rows of a partition."""
        return self._task().read(partition) if isinstance(partition, Piece) else iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark's checkpoint is the only memory of a stream."""

    def stop(self) -> None:
        """Do nothing: nothing is held between batches."""

    # --- internals -----------------------------------------------------------------------------------------------

    def _task(self) -> Task:
        options = self._options
        wanted = Wanted(
            columns=self._names, topics=options.topics, queues=None, store_ms=None,
            check_crc=options.check_crc, decompress=options.decompress,
        )  # fmt: skip
        return Task(wanted, options.quarantine, options.fail_on_data_loss)

    def _initial(self, view: StoreView, asked: Offsets) -> Reached:
        finder = Boundaries(view)
        from_ms = self._options.starting_ms
        if from_ms is not None:
            return Reached(view.log_id, finder.around_time(from_ms, None)[0], stored_from=from_ms)
        position, bounds = reach.start_of(view, finder, asked, self._options.topics)
        firsts = {
            topic: {queue: first for queue, (first, _) in queues.items()} for topic, queues in bounds.items()
        }
        return Reached(view.log_id, position, firsts)

    def _views(self) -> dict[str, StoreView]:
        views: dict[str, StoreView] = {}
        for store in find(self._options.paths, self._options.http, self._options.replica):
            view = snapshot.look(store, self._ends.get(store.broker, 0))
            self._ends[store.broker] = view.end_position
            views[store.broker] = view
        return views

    def _checked(self, reached: Mapping[str, Reached], views: Mapping[str, StoreView]) -> dict[str, Reached]:
        """Return the position of each log after checking that it is still the same log. A new store begins at its lowest."""
        checked = dict(reached)
        for broker, view in views.items():
            one = reached.get(broker)
            if one is None:
                checked[broker] = Reached(view.log_id, view.min_position)
                continue
            words, position = self._why_other(one, view)
            if words and self._options.fail_on_data_loss:
                raise LogReplaced(f"{broker}: {words}. {_WHAT_TO_DO}")
            if words:
                _log.warning("%s: %s; continuing at position %d", broker, words, position)
                checked[broker] = replace(one, log_id=view.log_id, position=position, queues={})
        for broker in reached.keys() - views.keys():
            words = f"{broker} is not below {', '.join(self._options.paths)} any more"
            if self._options.fail_on_data_loss:
                raise LogReplaced(f"{words}, but the stream has read it. {_WHAT_TO_DO}")
            _log.warning("%s; continuing without it", words)
        return checked

    def _why_other(self, one: Reached, view: StoreView) -> tuple[str, int]:
        """Return why a log cannot be the one that was read (empty if it can), and the position at which to continue."""
        if one.log_id != view.log_id:
            words = f"its log is {view.log_id or 'one without a name'}, the stream has read {one.log_id or 'one without a name'}"
            return words, view.min_position
        if not view.segments and view.end_position > 0:
            return "its log has no files any more", view.end_position
        if one.position > view.end_position:
            words = f"its log ends at position {view.end_position}, the stream has read up to {one.position}: it was cut"
            return words, view.end_position
        if view.min_position < one.position < view.end_position and not Boundaries(view).is_record(
            one.position
        ):
            return (
                f"no message begins at position {one.position}, up to which the stream has read: it was cut and rewritten",
                view.end_position,
            )
        return "", one.position


def _is_open(first: Reached | None, last: Reached) -> bool:
    return first is None or first.position < last.position
