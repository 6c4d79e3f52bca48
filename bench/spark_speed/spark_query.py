"""The traffic query (count, bytes, largest by topic and minute) with Spark over a log, compared with other engines over the same data, warm.

    python bench/spark_speed/spark_query.py [--megabytes 500] [--store DIR] [--rounds 5]

Without --store it writes such a log first. Compared with Spark on Parquet files of the same messages (all usual columns, zstd), DuckDB over the same decoder in this process, and a plain read
with CRC32. DuckDB is in none of the locks: if it is not installed (`pip install duckdb`) its line says so. Goals: at most 2 × each of them.
Best of the rounds, which are interleaved; CPU seconds are those of this process and its descendants.
"""

# pyright: reportUnknownVariableType=false
# (pyarrow tells no types)

from __future__ import annotations

import argparse
import importlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa

from gantry_spark.decode.schema import arrow_schema
from gantry_spark.decode.segments import LogRange, Wanted, read
from gantry_spark.session import session
from gantry_spark.source.plan import plan
from gantry_spark.store.snapshot import take
from measuring.process_tree import sample
from measuring.system import provenance
from reporting.figures import figure, skipped
from spark_speed.spark_store import stopped_store

COLUMNS = ("topic", "storeTimestamp", "storeSize")
QUERY = (
    "SELECT topic, date_trunc('minute', storeTimestamp) AS minute, count(*) AS messages, sum(storeSize) AS bytes, max(storeSize) AS largest "
    "FROM log GROUP BY 1, 2 ORDER BY 1, 2"
)


@dataclass
class Best:
    """Seconds of the fastest round, and its CPU seconds."""

    wall: float = float("inf")
    cpu: float = float("inf")
    rows: int = 0


def cpu_of_tree() -> float:
    """Return the CPU seconds of this process and of its live descendants."""
    return sum(used.cpu for used in sample(os.getpid()).values())


def timed(best: Best, work: Callable[[], int]) -> None:
    cpu, began = cpu_of_tree(), time.perf_counter()
    rows = work()
    took, used = time.perf_counter() - began, cpu_of_tree() - cpu
    if took < best.wall:
        best.wall, best.cpu = took, used
    assert best.rows in (0, rows), "the same query returned another number of rows"
    best.rows = rows


def checksummed(pieces: list[LogRange]) -> int:
    buffer = memoryview(bytearray(1 << 20))
    found = 0
    for piece in pieces:
        left = piece.stop - piece.start
        with Path(piece.path).open("rb", buffering=0) as file:
            file.seek(piece.start - piece.base)
            while left and (got := file.readinto(buffer[: min(left, len(buffer))])):
                found = crc32(buffer[:got], found)
                left -= got
    return 1


def duck(pieces: list[LogRange]) -> Callable[[], int]:
    """Return the query with DuckDB over the decoder's batches, in this process."""
    duckdb: Any = importlib.import_module("duckdb")

    def work() -> int:
        lost: list[object] = []
        batches = (batch for piece in pieces for batch in read(piece, Wanted(COLUMNS), lost.append))
        connection = duckdb.connect()
        connection.register("log", pa.RecordBatchReader.from_batches(arrow_schema(COLUMNS), batches))
        return connection.sql(QUERY).to_arrow_table().num_rows

    return work


def measure(store: str, rounds: int, folder: Path) -> None:
    view = take([store]).stores
    pieces = [piece for partition in plan(view).partitions for piece in partition]
    size = sum(piece.stop - piece.start for piece in pieces)
    spark = session("bench", master="local[2]")

    def log(columns: str) -> Any:
        return spark.read.format("gantry").option("path", store).option("columns", columns).load()

    log("").write.option("compression", "zstd").parquet(str(folder / "parquet"))
    log(",".join(COLUMNS)).createOrReplaceTempView("of_log")
    spark.read.parquet(str(folder / "parquet")).createOrReplaceTempView("of_parquet")
    works: dict[str, Callable[[], int]] = {
        "plain read with crc32": lambda: checksummed(pieces),
        "Spark over the log": lambda: len(spark.sql(QUERY.replace("FROM log", "FROM of_log")).collect()),
        "Spark on Parquet": lambda: len(spark.sql(QUERY.replace("FROM log", "FROM of_parquet")).collect()),
    }
    if find_spec("duckdb") is not None:
        works["DuckDB, our decoder"] = duck(pieces)
    found = {name: Best() for name in works}
    for _ in range(rounds + 1):  # the first warms Java up
        for name, work in works.items():
            timed(found[name], work)
    spark.stop()
    ours = found.pop("Spark over the log")
    assert {best.rows for name, best in found.items() if "crc" not in name} == {ours.rows}
    print(f"{size / 1e6:.0f} MB, {ours.rows} rows of result, best of {rounds + 1}")
    for name, best in found.items():
        part = name.split(maxsplit=2)[-1] if name.startswith("Spark") else name.split(",")[0]
        part = "traffic query, relative to a plain read" if "crc" in name else part
        figure(
            f"spark_query.{part}", ours.wall, "s", floor=best.wall, beside=name,
            words=f"{size / ours.wall / 1e6:.0f} MB/s; of CPU {ours.cpu / best.cpu:.2f} x",
        )  # fmt: skip
    if find_spec("duckdb") is None:
        skipped("the traffic query relative to DuckDB", "it is not installed (pip install duckdb)")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--megabytes", type=int, default=500)
    words.add_argument("--store", type=Path, help="an existing directory of a stopped store")
    words.add_argument("--rounds", type=int, default=5)
    given = words.parse_args()
    print(provenance("async"))
    with (
        stopped_store(given.store, given.megabytes) as log,
        tempfile.TemporaryDirectory(prefix="gantry-bench-") as folder,
    ):
        measure(str(log), given.rounds, Path(folder))


if __name__ == "__main__":
    main()
