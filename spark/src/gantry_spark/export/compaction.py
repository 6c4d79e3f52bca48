"""Merges the small files of each partition into larger ones, in the order of positions, without Spark and with little memory."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gantry_spark.export.committing import STAGING
from gantry_spark.export.tables.part_files import COMPRESSION, GROUP_BYTES, GROUP_ROWS, PartFile
from gantry_spark.export.tables.table import LiveFile, Merge


def plan(files: Sequence[LiveFile], bytes_max: int) -> list[tuple[LiveFile, ...]]:
    """Return the groups of files to merge: neighbours of one partition and one log, together at most `bytes_max`, two or more."""
    groups: list[tuple[LiveFile, ...]] = []
    for _, of_one in groupby(files, key=lambda file: (file.broker, file.dt, _log_of(file))):
        group: list[LiveFile] = []
        for file in of_one:
            if group and sum(one.bytes for one in group) + file.bytes > bytes_max:
                groups.append(tuple(group))
                group = []
            group.append(file)
        groups.append(tuple(group))
    return [group for group in groups if len(group) > 1]


def merge(folder: Path, group: tuple[LiveFile, ...]) -> Merge:
    """Write the files of a group as one staged file, row group by row group."""
    staged = f"{STAGING}/{uuid.uuid4().hex}.parquet"
    target = folder / staged
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = 0
    schema = pq.read_schema(folder / group[0].path)
    with pq.ParquetWriter(target, schema, compression=COMPRESSION) as writer:
        for table in _row_groups(folder, group):
            writer.write_table(table.cast(schema), row_group_size=table.num_rows)
            rows += table.num_rows
    with target.open("rb") as file:
        os.fsync(file.fileno())
    first, last = group[0], group[-1]
    partition = "/".join(Path(first.path).parts[-3:-1])
    path = f"{partition}/{_log_of(first)}-{first.first:020d}-{last.last:020d}.parquet"
    fresh = PartFile(
        staged, path, first.dt, first.broker, first.first, last.last, rows, target.stat().st_size
    )
    return Merge(group, fresh)


def _row_groups(folder: Path, group: Sequence[LiveFile]) -> Iterator[pa.Table]:
    """Yield the rows of files in pieces of at most a row group."""
    waiting: list[pa.Table] = []
    for file in group:
        with pq.ParquetFile(folder / file.path) as source:
            for number in range(source.num_row_groups):
                waiting.append(source.read_row_group(number))
                if (
                    sum(table.num_rows for table in waiting) >= GROUP_ROWS
                    or sum(table.nbytes for table in waiting) >= GROUP_BYTES
                ):
                    yield pa.concat_tables(waiting)
                    waiting.clear()
    if waiting:
        yield pa.concat_tables(waiting)


def _log_of(file: LiveFile) -> str:
    """Return the part of a file's name with broker and log."""
    return Path(file.path).name.rsplit("-", 2)[0]
