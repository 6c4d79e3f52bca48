"""Counts a piece of a log as it is read, so that Spark gets thousands of rows instead of millions of messages.

A Python source hands whole rows to Java one by one; grouping with Arrow first costs a tenth of that. The results are rows of one schema that
`sql/traffic.sql` and similar statements add up; `part` is the kind of a row. Pure: uses no Spark and no files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from gantry_spark.decode.schema import PROPERTY_PREFIX, TIME
from gantry_spark.reports.counting.frequent import Frequent
from gantry_spark.reports.counting.kinds import SYSTEM, USER, kind_of

Numbers = npt.NDArray[np.int64]
_pc: Final[Any] = compute
SETTLED, REAL_TOPIC = PROPERTY_PREFIX + "__GANTRY_SETTLED", PROPERTY_PREFIX + "REAL_TOPIC"
COLUMNS: Final = (
    "topic", "queueId", "queueOffset", "storeTimestamp", "bornTimestamp", "storeSize", "bodySize", "reconsumeTimes", "sysFlag",
    "tags", "keys", "bornHost", SETTLED, REAL_TOPIC,
)  # fmt: skip
"""The columns read of each message."""
SCHEMA: Final = pa.schema([
    ("part", pa.string()), ("time", TIME), ("broker", pa.string()), ("topic", pa.string()), ("queueId", pa.int32()),
    ("what", pa.string()), ("item", pa.string()), ("bin", pa.int64()), ("messages", pa.int64()), ("bytes", pa.int64()),
    ("bodyBytes", pa.int64()), ("least", pa.int64()), ("most", pa.int64()), ("firstOffset", pa.int64()), ("lastOffset", pa.int64()),
    ("firstStored", TIME), ("lastStored", TIME),
])  # fmt: skip
"""The result; `part`: traffic, latency, word, hash."""
_MEASURED, _AHEAD, _LATER = 0, 1, 2
_WHATS: Final = pa.array(["measured", "ahead", "later"])
_WORDS: Final = ("tag", "key", "producer")
_HOUR: Final = 3600
_FINE_MS, _FINE_BITS = 128, 7
"""Below 128 ms a bin of latency is one millisecond; above it has seven bits, so it is at most 1/64 wide."""
_COMMIT_BITS, _COMMIT = 12, 8
_TRAFFIC: Final = (
    ("messages", "sum"), ("bytes", "sum"), ("bodyBytes", "sum"), ("most", "max"), ("firstOffset", "min"), ("lastOffset", "max"),
    ("firstStored", "min"), ("lastStored", "max"),
)  # fmt: skip
_LATENCY: Final = (("messages", "sum"), ("least", "min"), ("most", "max"))


_TOPIC_BITS: Final = 24
"""A cell of words is an hour and a topic: the number of the topic has this many bits."""
_BATCH_ROWS: Final = 65_536
_PENDING_ROWS_MAX: Final = 100_000


class Counter:
    """Counts the messages of a broker by steps of `step` seconds, and `tracked` words per topic and hour individually."""

    def __init__(self, broker: str, step: int, tracked: int) -> None:
        self._broker = broker
        self._step = step
        self._topics: dict[str, int] = {}
        self._kinds: list[str] = []
        self._traffic = _Groups(("time", "topic", "queueId", "bin"), _TRAFFIC)
        self._latency = _Groups(("time", "topic", "what", "bin"), _LATENCY)
        self._words = {what: Frequent(tracked) for what in _WORDS}

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the messages of a batch with COLUMNS."""
        if not batch.num_rows:
            return
        columns: dict[str, Any] = dict(zip(COLUMNS, batch.columns, strict=True))
        topics = self._numbered(columns["topic"])
        stored_us = _ints(columns["storeTimestamp"])
        seconds = stored_us // 1_000_000
        times = seconds // self._step * self._step
        self._count_traffic(columns, topics, times, stored_us)
        kinds = np.array(self._kinds)[topics]
        self._count_latency(columns, topics, times, stored_us // 1000, kinds != SYSTEM)
        self._count_words(columns, (seconds // _HOUR << _TOPIC_BITS) + topics, kinds == USER)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the counts, in SCHEMA."""
        names = pa.array([*self._topics], pa.string())
        yield from _out("traffic", self._broker, names, self._traffic.table())
        latency = self._latency.table()
        measured = _WHATS.take(latency["what"].combine_chunks())
        yield from _out(
            "latency",
            self._broker,
            names,
            latency.set_column(latency.schema.get_field_index("what"), "what", measured),
        )
        for what, frequent in self._words.items():
            for part, found in (("word", frequent.counts()), ("hash", frequent.hashes())):
                yield from _out(part, self._broker, names, _of_cells(what, found))

    def _numbered(self, topics: Any) -> Numbers:
        """Return the number of each message's topic; a new topic gets the next number."""
        coded = topics.dictionary_encode()
        numbers: list[int] = []
        for topic in coded.dictionary.to_pylist():
            if topic not in self._topics:
                self._topics[topic] = len(self._topics)
                self._kinds.append(kind_of(topic))
            numbers.append(self._topics[topic])
        return np.array(numbers, np.int64)[coded.indices.to_numpy()]

    def _count_traffic(
        self, columns: dict[str, Any], topics: Numbers, times: Numbers, stored_us: Numbers
    ) -> None:
        body = _ints(columns["bodySize"])
        self._traffic.add({
            "time": times, "topic": topics, "queueId": columns["queueId"], "bin": _bits(body) - 1,
            "messages": np.ones(len(topics), np.int64), "bytes": columns["storeSize"], "bodyBytes": body, "most": body,
            "firstOffset": columns["queueOffset"], "lastOffset": columns["queueOffset"], "firstStored": stored_us, "lastStored": stored_us,
        })  # fmt: skip

    def _count_latency(
        self, columns: dict[str, Any], topics: Numbers, times: Numbers, stored_ms: Numbers, chosen: Any
    ) -> None:
        """Count the time from the producer's clock to the store's: the latencies, and the differences of clocks."""
        born = columns["bornTimestamp"]
        has_born = _pc.is_valid(born).to_numpy(zero_copy_only=False)
        ms = stored_ms - np.where(has_born, _ints(born.fill_null(0)) // 1000, stored_ms)
        is_later = (
            (_ints(columns["reconsumeTimes"]) > 0)
            | (_ints(columns["sysFlag"]) & _COMMIT_BITS == _COMMIT)
            | _pc.is_valid(columns[SETTLED]).to_numpy(zero_copy_only=False)
            | _pc.is_valid(columns[REAL_TOPIC]).to_numpy(zero_copy_only=False)
        )
        what = np.where(is_later, _LATER, np.where(ms < 0, _AHEAD, _MEASURED))
        shift = np.maximum(_bits(np.maximum(ms, 0)) - _FINE_BITS, 0)
        bins = pa.array(ms >> shift << shift, mask=(what != _MEASURED) | ~has_born)
        every = {
            "time": times, "topic": topics, "what": what, "bin": bins, "messages": np.ones(len(topics), np.int64),
            "least": pa.array(ms, mask=~has_born), "most": pa.array(ms, mask=~has_born),
        }  # fmt: skip
        self._latency.add(every, chosen)

    def _count_words(self, columns: dict[str, Any], cells: Numbers, chosen: Any) -> None:
        """Count tags, keys and producers; each key of a message counts."""
        if not chosen.any():
            return
        hosts = columns["bornHost"].dictionary_encode()
        addresses = pa.array(
            [
                None if host is None else host.rpartition(":")[0] or host
                for host in hosts.dictionary.to_pylist()
            ],
            pa.string(),
        )
        words = {"tag": columns["tags"], "key": columns["keys"], "producer": addresses.take(hosts.indices)}
        for what, found in words.items():
            there = chosen & _pc.is_valid(found).to_numpy(zero_copy_only=False)
            picked, of_cells = (
                (found, cells) if there.all() else (found.filter(pa.array(there)), cells[there])
            )
            if what == "key" and _pc.any(_pc.match_substring(picked, " ")).as_py():
                lists = _pc.split_pattern(picked, " ")
                picked, of_cells = (
                    _pc.list_flatten(lists),
                    of_cells[_pc.list_parent_indices(lists).to_numpy()],
                )
                there = _pc.not_equal(picked, "").to_numpy(zero_copy_only=False)
                picked, of_cells = picked.filter(pa.array(there)), of_cells[there]
            self._words[what].add(of_cells, picked)


class _Groups:
    """Rows grouped by some columns, combined whenever many wait."""

    def __init__(self, keys: Sequence[str], sums: Sequence[tuple[str, str]]) -> None:
        self._keys = [*keys]
        self._sums = [*sums]
        self._pending: list[Any] = []
        self._pending_rows = self._settled_rows = 0

    def add(self, columns: dict[str, Any], chosen: Any = None) -> None:
        """Add rows, or only the chosen ones."""
        table = pa.table(
            {
                name: values if isinstance(values, pa.Array) else pa.array(values)
                for name, values in columns.items()
            }
        )
        if chosen is not None and not chosen.all():
            table = table.filter(pa.array(chosen))
        if not table.num_rows:
            return
        grouped = self._together(table)
        self._pending.append(grouped)
        self._pending_rows += grouped.num_rows
        if self._pending_rows > _PENDING_ROWS_MAX + 2 * self._settled_rows:
            self.table()

    def table(self) -> Any:
        """Return the groups."""
        if not self._pending:
            names = [*self._keys, *(name for name, _ in self._sums)]
            return pa.table({name: pa.array([], pa.int64()) for name in names})
        if len(self._pending) > 1:
            self._pending = [self._together(pa.concat_tables(self._pending))]
        self._pending_rows = self._settled_rows = self._pending[0].num_rows
        return self._pending[0]

    def _together(self, table: Any) -> Any:
        found = table.group_by(self._keys, use_threads=False).aggregate(self._sums)
        wanted = [*self._keys, *(f"{name}_{how}" for name, how in self._sums)]
        return found.select(wanted).rename_columns([*self._keys, *(name for name, _ in self._sums)])


def _of_cells(what: str, found: Any) -> Any:
    """Return words or hashes with the time and topic of their cells."""
    cells = _ints(found["cell"].combine_chunks())
    columns: dict[str, Any] = {
        "time": pa.array((cells >> _TOPIC_BITS) * _HOUR), "topic": pa.array(cells & (1 << _TOPIC_BITS) - 1),
        "what": pa.repeat(what, len(cells)),
    }  # fmt: skip
    if "word" in found.column_names:
        columns |= {"item": found["word"], "messages": found["count"]}
    else:
        columns |= {"bin": found["hash"]}
    return pa.table(columns)


def _out(part: str, broker: str, topics: pa.Array, found: Any) -> Iterator[pa.RecordBatch]:
    """Yield rows in SCHEMA: times as times, topics by their names, null for columns that a part does not have."""
    count = found.num_rows
    made: dict[str, Any] = {name: found[name].combine_chunks() for name in found.column_names}
    made |= {
        "part": pa.repeat(part, count),
        "broker": pa.repeat(broker, count),
        "topic": topics.take(made["topic"]),
    }
    made["time"] = pa.array(_ints(made["time"]) * 1_000_000).view(TIME)
    for name in {"firstStored", "lastStored"} & made.keys():
        made[name] = made[name].view(TIME)
    columns = [
        made[field.name].cast(field.type) if field.name in made else pa.nulls(count, field.type)
        for field in SCHEMA
    ]
    whole = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    for start in range(0, count, _BATCH_ROWS):
        yield whole.slice(start, _BATCH_ROWS)


def _ints(values: Any) -> Numbers:
    """Return integers or times without nulls as 64-bit numbers."""
    return (
        (values.view(pa.int64()) if pa.types.is_timestamp(values.type) else values)
        .to_numpy()
        .astype(np.int64, copy=False)
    )


def _bits(values: Numbers) -> Numbers:
    """Return the number of bits of non-negative numbers: 0 for 0, 7 for 127, 8 for 128."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)
