"""`export --compact`: merges the small files of a table and of its dead letters. Needs no Spark."""

from __future__ import annotations

import time
from pathlib import Path

from gantry_spark.export import committing, compaction, places
from gantry_spark.export.command.options import ExportOptions
from gantry_spark.export.command.progress import say
from gantry_spark.export.failures import Failed, Refused
from gantry_spark.export.result import Result
from gantry_spark.export.tables.columns import dead_letters
from gantry_spark.export.tables.opening import open_table
from gantry_spark.export.tables.table import Table
from gantry_spark.export.task_writer import TaskJob


def compact(options: ExportOptions) -> Result:
    """Merge the small files of a table, partition by partition. Raises Refused, Failed."""
    began = time.monotonic()
    tables = [(options.out, open_existing(options.out))]
    dead_out = places.dead_letters_of(options.out)
    if (dead_out / places.IDENTITY).exists():
        tables.append((dead_out, open_existing(dead_out)))
    merged = files = size = 0
    for folder, table in tables:
        committing.settle(folder, table)
        groups = compaction.plan(table.files(), options.compact_bytes)
        for number, group in enumerate(groups, 1):
            say(f"merging {len(group)} files of {group[0].broker}, {group[0].dt} ({number} of {len(groups)})")
            merge = compaction.merge(folder, group)
            if merge.fresh.rows != sum(file.rows for file in group):
                raise Failed(
                    f"{folder}: {len(group)} files have {merge.fresh.rows} rows together, not as many as were committed"
                )
            committing.replace(folder, table, [merge])
            merged += len(group)
            files += 1
            size += merge.fresh.bytes
    say(f"{merged} files became {files}" if merged else "nothing to merge")
    return Result(files=files, bytes=size, seconds=round(time.monotonic() - began, 3))


def open_existing(out: Path) -> Table:
    """Open a table that an export created. Raises Refused if there is none."""
    if not (out / places.IDENTITY).exists():
        raise Refused(f"{out} is not a table of ./gantry export: nothing to compact")
    identity = places.prepare(out)
    assert identity is not None
    if "deadLettersOf" in identity:
        schema = dead_letters()
    else:
        schema = TaskJob(
            "", "", "", {}, {}, with_partitions=False, body=identity["body"], prefix=identity["prefix"]
        ).schema()
    return open_table(identity["to"], out, schema)
