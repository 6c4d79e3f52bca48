"""Full export to Parquet with Spark, compared with one thread of pyarrow over the same decoder: same columns, same compression.

    python bench/spark_speed/spark_export.py [--megabytes 500] [--store DIR --topic T...] [--rounds 3]

Without --store it writes such a log first, and exports all of its topics. Best of the rounds, which are interleaved.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from gantry_spark.decode import segments
from gantry_spark.decode.segments import Wanted
from gantry_spark.export import committing, places
from gantry_spark.export.command.options import ExportOptions
from gantry_spark.export.job import Export
from gantry_spark.export.starting import start
from gantry_spark.export.tables.columns import READ
from gantry_spark.export.task_writer import ExportWriter, TaskJob, Written
from gantry_spark.source.plan import plan
from gantry_spark.store.snapshot import take
from measuring.system import provenance
from reporting.figures import figure
from spark_speed.spark_store import stopped_store

read: Any = vars(segments)["read"]  # pyarrow tells no types


def single_thread(store: str, topics: frozenset[str], out: Path) -> tuple[float, int]:
    """Return seconds and rows of decoding and writing in this thread."""
    damaged: list[object] = []
    began = time.perf_counter()
    snapshot = take([store])
    log_ids = {view.broker: view.log_id for view in snapshot.stores}
    job = TaskJob(
        str(out), str(out), committing.STAGING, log_ids, {}, with_partitions=False, body=None, prefix=""
    )
    wanted = Wanted(columns=READ, topics=topics, queues=None, store_ms=None, check_crc=False, decompress=True)
    pieces = [piece for partition in plan(snapshot.stores).partitions for piece in partition]
    batches = (batch for piece in pieces for batch in read(piece, wanted, damaged.append))
    done = ExportWriter(job.to_json()).write(batches)
    assert isinstance(done, Written)
    return time.perf_counter() - began, sum(file.rows for file in done.files)


def measure(store: str, topics: tuple[str, ...], rounds: int) -> None:
    """Export alternately, and report the best of both."""
    size = sum(view.end_position - view.min_position for view in take([store]).stores)
    spark = start("local[2]")
    best = {"pyarrow": float("inf"), "spark": float("inf")}
    rows = {"pyarrow": 0, "spark": 0}
    for _ in range(rounds + 1):  # the first warms Spark up, and the page cache
        folder = Path(tempfile.mkdtemp(prefix="gantry-bench-"))
        try:
            seconds, rows["pyarrow"] = single_thread(store, frozenset(topics), folder / "one")
            best["pyarrow"] = min(best["pyarrow"], seconds)
            options = ExportOptions(folder / "table", topics, "parquet", stores=(store,), master="local[2]")
            places.prepare(options.out)
            with committing.locked(options.out):
                result = Export(options, lambda: spark).run()
            rows["spark"], best["spark"] = result.rows, min(best["spark"], result.seconds)
        finally:
            shutil.rmtree(folder)
    spark.stop()
    assert rows["spark"] == rows["pyarrow"]
    figure(
        "spark_export.full", best["spark"], "s", floor=best["pyarrow"], beside="one thread of pyarrow",
        words=f"{size / 1e6:.0f} MB of log, {rows['spark']:,} rows, {size / best['spark'] / 1e6:.0f} MB/s",
    )  # fmt: skip


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--megabytes", type=int, default=500)
    words.add_argument("--store", type=Path, help="an existing directory of a stopped store")
    words.add_argument("--topic", action="append", help="a topic to export")
    words.add_argument("--rounds", type=int, default=3)
    given = words.parse_args()
    if given.store and not given.topic:
        words.error("--store needs --topic: name the topics to export")
    print(provenance("async"))
    with stopped_store(given.store, given.megabytes) as folder:
        there = sorted(
            {one.name for one in folder.rglob("consumequeue/topic-*")}
        )  # a fast machine may have fewer
        measure(str(folder), tuple(given.topic or there), given.rounds)


if __name__ == "__main__":
    main()
