"""Writes the rows of a task into Parquet files, one per day and broker, under temporary names.

Runs in Spark's tasks. A file's final name consists of its broker, its log and the positions of its first and last row, so the same rows
get the same name; the driver moves it there when it commits.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

GROUP_ROWS: Final = 131_072
GROUP_BYTES: Final = 32 << 20
"""A row group is written at this number of rows or bytes in memory: the most that a task holds per file."""
OPEN_MAX: Final = 16
COMPRESSION: Final = "zstd"
_compute: Any = pyarrow.compute  # its functions are created on import: no type checker knows them
_DAY_US: Final = 86_400 * 1_000_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


class PartFile(NamedTuple):
    """A finished file: its staged and final path below the table's folder, its partition, its rows."""

    staged: str
    path: str
    dt: str
    broker: str
    first: int
    last: int
    rows: int
    bytes: int


def part_path(dt: str, broker: str, log_id: str, first: int, last: int) -> str:
    """Return the path of a file below the table's data: Hive's partition folders, and a name determined by its rows."""
    name = f"part-{quote(broker, safe='')}-{quote(log_id, safe='')}-{first:020d}-{last:020d}.parquet"
    return f"dt={dt}/broker={quote(broker, safe='')}/{name}"


class PartWriter:
    """The open files of a task for a table. Rows must come with `physicalOffset`, `storeTimestamp` and `brokerName`."""

    def __init__(self, out: Path, staging: str, log_ids: dict[str, str], *, with_partitions: bool) -> None:
        """`staging` is a folder below `out`. `with_partitions`: the files hold the columns dt and broker as well."""
        self._out, self._staging, self._log_ids = out, staging, log_ids
        self._with_partitions = with_partitions
        self._open: dict[tuple[int, str], _OpenFile] = {}
        self._done: list[PartFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows of any days and brokers, in the order of their positions."""
        for day, broker, some in _by_partition(rows):
            key = day, broker
            if key not in self._open:
                if len(self._open) >= OPEN_MAX:
                    self._close(next(iter(self._open)))
                self._open[key] = self._new(day, broker)
            file = self._open[key] = self._open.pop(key)  # moves the last used one to the end
            file.add(some)

    def close(self) -> list[PartFile]:
        """Finish and sync all files, and return them."""
        for key in list(self._open):
            self._close(key)
        return self._done

    def abort(self) -> None:
        """Drop unfinished files; they stay in staging, which the next run empties."""
        for file in self._open.values():
            file.abandon()
        self._open.clear()

    def _new(self, day: int, broker: str) -> _OpenFile:
        dt = date.fromordinal(_EPOCH_DAY + day)
        staged = f"{self._staging}/{uuid.uuid4().hex}.parquet"
        return _OpenFile(self._out / staged, staged, dt, broker, with_partitions=self._with_partitions)

    def _close(self, key: tuple[int, str]) -> None:
        file = self._open.pop(key)
        broker = key[1]
        first, last, rows, size = file.finish()
        path = part_path(file.dt.isoformat(), broker, self._log_ids.get(broker, ""), first, last)
        self._done.append(PartFile(file.staged, path, file.dt.isoformat(), broker, first, last, rows, size))


class _OpenFile:
    def __init__(self, path: Path, staged: str, dt: date, broker: str, *, with_partitions: bool) -> None:
        self.staged, self.dt = staged, dt
        self._path, self._broker, self._with_partitions = path, broker, with_partitions
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._first = self._last = -1
        self._rows = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        positions = rows.column("physicalOffset")
        if self._first < 0:
            self._first = positions[0].as_py()
        self._last = positions[-1].as_py()
        self._rows += rows.num_rows
        self._waiting.append(rows.drop_columns("brokerName"))
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._write_group()

    def finish(self) -> tuple[int, int, int, int]:
        """Return first and last position, rows, bytes."""
        self._write_group()
        if self._writer is not None:
            self._writer.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
            return self._first, self._last, self._rows, os.fstat(file.fileno()).st_size

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _write_group(self) -> None:
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting)
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0
        if self._with_partitions:
            count = rows.num_rows
            rows = rows.append_column("dt", pa.repeat(pa.scalar(self.dt, pa.date32()), count))
            rows = rows.append_column("broker", pa.repeat(pa.scalar(self._broker, pa.string()), count))
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, rows.schema, compression=COMPRESSION)
        self._writer.write_table(rows, row_group_size=rows.num_rows)


def _by_partition(rows: pa.RecordBatch) -> Iterator[tuple[int, str, pa.RecordBatch]]:
    """Split rows by day and broker. Usually all have the same, so that is checked first."""
    if rows.num_rows == 0:
        return
    days = _compute.divide(rows.column("storeTimestamp").cast(pa.int64()), pa.scalar(_DAY_US, pa.int64()))
    brokers = rows.column("brokerName")
    all_days, all_brokers = _compute.unique(days).to_pylist(), _compute.unique(brokers).to_pylist()
    if len(all_days) == len(all_brokers) == 1:
        yield all_days[0], all_brokers[0], rows
        return
    for broker in all_brokers:
        for day in all_days:
            some = rows.filter(_compute.and_(_compute.equal(brokers, broker), _compute.equal(days, day)))
            if some.num_rows:
                yield day, broker, some
