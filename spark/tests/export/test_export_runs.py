"""Exports with Spark from logs to tables, read back by the tables' own libraries: typed, limited by time, resumed, every row once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from export_made import read_back
from logs_made import START_MS, LogMade
from stores_made import StoreMade

from gantry_spark.export import places
from gantry_spark.export.command.options import parse
from gantry_spark.export.committing import locked
from gantry_spark.export.failures import Refused
from gantry_spark.export.job import Export
from gantry_spark.export.result import Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
HOUR_MS = 3_600_000


@pytest.fixture
def log(tmp_path: Path) -> LogMade:
    """The log of a stopped store: orders of every hour of two days, one in ten not JSON, among other topics."""
    log = LogMade()
    for number in range(48):
        body = b"broken" if number % 10 == 9 else json.dumps({"id": number, "total": "1.5"}).encode()
        log.add("orders", body, properties={"KEYS": f"o-{number}"}, store_ms=START_MS + number * HOUR_MS)
        log.add("other", b"x", store_ms=START_MS + number * HOUR_MS)
    return log


def positions(log: LogMade) -> list[int]:
    """The positions of the orders."""
    return log.positions[::2]


def export(spark: SparkSession, log: LogMade, tmp_path: Path, out: Path, *more: str) -> Result:
    log.write(tmp_path / "broker-a" / "commitlog")
    words = ["--topic", "orders", "--store", str(tmp_path / "broker-a"), "--out", str(out), *more]
    options = parse(words)
    places.prepare(out)
    with locked(out):
        return Export(options, lambda: spark).run()


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_table_has_every_order_once_and_continues(
    spark: SparkSession, log: LogMade, tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "orders"
    done = export(spark, log, tmp_path, out, "--to", kind)
    assert (done.rows, done.files, done.dead_rows, done.damaged) == (
        48,
        3,
        0,
        0,
    )  # it begins in the afternoon
    assert read_back(out, kind) == positions(log)
    assert export(spark, log, tmp_path, out, "--to", kind).rows == 0
    for number in range(48, 50):
        log.add("orders", b"later", store_ms=START_MS + number * HOUR_MS)
        log.add("other", b"x", store_ms=START_MS + number * HOUR_MS)
    assert export(spark, log, tmp_path, out, "--to", kind).rows == 2
    assert read_back(out, kind) == positions(log)


def test_bodies_become_columns_and_unfit_ones_dead_letters(
    spark: SparkSession, log: LogMade, tmp_path: Path
) -> None:
    out = tmp_path / "orders"
    (tmp_path / "order.ddl").write_text("id BIGINT NOT NULL, total DECIMAL(8,2), note STRING")
    typed = ("--to", "parquet", "--json-schema", str(tmp_path / "order.ddl"))
    done = export(spark, log, tmp_path, out, *typed)
    assert (done.rows, done.dead_rows) == (44, 4)
    check = (
        spark.read.parquet(str(out))
        .selectExpr("sum(id)", "sum(total)", "count(note)", "count(DISTINCT dt)")
        .first()
    )
    assert check is not None
    expected = sum(number for number in range(48) if number % 10 != 9)
    assert (check[0], float(check[1]), check[2], check[3]) == (expected, 66.0, 0, 3)
    dead = spark.read.parquet(f"{out}_dlq").select("keys", "body", "why").orderBy("physicalOffset").collect()
    assert [(row["keys"], bytes(row["body"])) for row in dead] == [
        (f"o-{n}", b"broken") for n in (9, 19, 29, 39)
    ]
    assert "malformed" in dead[0]["why"]
    (tmp_path / "order.ddl").write_text("id BIGINT NOT, total")
    with pytest.raises(Refused, match="is not a DDL that Spark accepts"):
        export(spark, log, tmp_path, tmp_path / "more", *typed)
    (tmp_path / "order.ddl").write_text("id BIGINT, topic STRING")
    with pytest.raises(Refused, match="--prefix body_"):
        export(spark, log, tmp_path, tmp_path / "more", *typed)


def test_a_time_range_is_exact_and_belongs_to_the_table(
    spark: SparkSession, log: LogMade, tmp_path: Path
) -> None:
    out = tmp_path / "orders"
    span = (f"--from-time={START_MS + 5 * HOUR_MS}", f"--to-time={START_MS + 30 * HOUR_MS}")
    assert export(spark, log, tmp_path, out, "--to", "parquet", *span).rows == 25
    assert read_back(out, "parquet") == positions(log)[5:30]
    log.add("orders", b"too late", store_ms=START_MS + 60 * HOUR_MS)
    assert export(spark, log, tmp_path, out, "--to", "parquet").rows == 0


def test_a_replaced_log_and_a_missing_topic_are_refused(
    spark: SparkSession, log: LogMade, tmp_path: Path
) -> None:
    out = tmp_path / "orders"
    export(spark, log, tmp_path, out, "--to", "parquet")
    shorter = LogMade()
    shorter.add("orders", b"new")
    with pytest.raises(Refused, match="it was cut"):
        export(spark, shorter, tmp_path, out, "--to", "parquet")
    with pytest.raises(Refused, match="did you mean orders"):
        export(spark, log, tmp_path, tmp_path / "more", "--to", "parquet", "--topic", "ordesr")


def test_a_topic_that_has_no_message_yet_is_a_table_without_rows(
    spark: SparkSession, log: LogMade, tmp_path: Path
) -> None:
    store, out = tmp_path / "broker-a", tmp_path / "later"
    words = ["--topic", "later", "--to", "parquet", "--out", str(out), "--store", str(store)]
    (store / "config").mkdir(parents=True)
    (store / "config" / "topics.json").write_text('{"topicConfigTable": {"later": {"writeQueueNums": 4}}}')
    places.prepare(out)
    for count in (0, 5):
        for _ in range(count):
            log.add("later", b"x")
        log.write(store / "commitlog")
        with locked(out):
            assert Export(parse(words), lambda: spark).run().rows == count
    assert read_back(out, "parquet") == log.positions[-5:]


def test_bodies_that_fail_their_crc_are_not_rows(spark: SparkSession, tmp_path: Path) -> None:
    store = StoreMade(tmp_path / "broker-a")
    sent = [store.send("orders", b'{"id": %d}' % number) for number in range(20)]
    for position in sent[3:6]:
        store.segments[0].flip(position + 92)
    store.write()
    out = tmp_path / "orders"
    words = ["--topic", "orders", "--to", "parquet", "--out", str(out), "--store", str(store.path)]
    places.prepare(out)
    with locked(out):
        done = Export(parse(words), lambda: spark).run()
    assert (done.rows, done.damaged) == (17, 3)
    assert read_back(out, "parquet") == [*sent[:3], *sent[6:]]
    kept = [file.read_text().splitlines() for file in (out / "_gantry" / "damaged").glob("*.json")]
    damaged = [json.loads(line) for lines in kept for line in lines]
    assert [(row["position"], row["why"]) for row in damaged] == [
        (position, "its body fails the CRC") for position in sent[3:6]
    ]
