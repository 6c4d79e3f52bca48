"""Full export to Parquet with Spark, beside one thread of pyarrow over the same decoder: same columns, same compression.

python bench/spark_export.py --store DIR --topic T [--rounds N]     (DIR: a stopped store, 500 MB or more; BROKER=DIR names its broker)
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from system import provenance

from gantry_spark.decode import segments
from gantry_spark.decode.segments import Wanted
from gantry_spark.export import committing, places
from gantry_spark.export.columns import READ
from gantry_spark.export.job import Export
from gantry_spark.export.options import ExportOptions
from gantry_spark.export.starting import start
from gantry_spark.export.task_writer import ExportWriter, TaskJob, Written
from gantry_spark.plan import plan
from gantry_spark.snapshot import take

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


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--store", required=True)
    words.add_argument("--topic", action="append", required=True)
    words.add_argument("--rounds", type=int, default=3)
    given = words.parse_args()
    size = sum(view.end_position - view.min_position for view in take([given.store]).stores)
    spark = start("local[2]")
    best = {"pyarrow": float("inf"), "spark": float("inf")}
    rows = {"pyarrow": 0, "spark": 0}
    for _ in range(given.rounds + 1):  # the first warms Spark up, and the page cache
        folder = Path(tempfile.mkdtemp(prefix="gantry-bench-"))
        try:
            seconds, rows["pyarrow"] = single_thread(given.store, frozenset(given.topic), folder / "one")
            best["pyarrow"] = min(best["pyarrow"], seconds)
            options = ExportOptions(
                folder / "table", tuple(given.topic), "parquet", stores=(given.store,), master="local[2]"
            )
            places.prepare(options.out)
            with committing.locked(options.out):
                result = Export(options, lambda: spark).run()
            rows["spark"], best["spark"] = result.rows, min(best["spark"], result.seconds)
        finally:
            shutil.rmtree(folder)
    spark.stop()
    assert rows["spark"] == rows["pyarrow"]
    print(provenance("a stopped store"))
    print(f"{size / 1e6:.0f} MB of log, {rows['spark']} rows, best of {given.rounds + 1}")
    for name, seconds in best.items():
        print(f"{name:<8} {seconds:7.2f} s  {size / seconds / 1e6:7.0f} MB/s")
    print(f"spark / pyarrow = {best['spark'] / best['pyarrow']:.2f} (goal 2.5 at most)")


if __name__ == "__main__":
    main()
