"""Spark over a broker with replicas: batches of leader and follower, reports, and reads through takeovers. Real stores, started by the launcher."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from http_calls import call, send
from systems_run import gantry, running_system

from gantry_spark.store import snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SECONDS_MAX = 180


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A running system with one broker of three replicas."""
    with running_system(tmp_path_factory.mktemp("system"), "--replicas", "3") as running:
        yield running


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def broker(system: dict[str, Any]) -> dict[str, Any]:
    (found,) = json.loads(gantry("status", "--data", system["data"], "--json"))["brokers"]
    return found


def in_sync(system: dict[str, Any]) -> bool:
    return {one["role"] for one in broker(system)["replicas"]} == {"leader", "follower"}


def take_over(system: dict[str, Any]) -> None:
    """Pause the leader until another one leads, then kill it. A killed one is started again at once, and may lead before the others do."""
    until(lambda: in_sync(system), "the replicas are not in sync")
    before = broker(system)
    (leader,) = [one for one in before["replicas"] if one["name"] == before["leader"]]
    os.kill(leader["pid"], signal.SIGSTOP)
    try:
        until(lambda: broker(system)["leader"] not in (None, before["leader"]), "nobody took over")
    finally:
        os.kill(leader["pid"], signal.SIGKILL)


def bodies_of(system: dict[str, Any], topic: str, first: int, count: int) -> list[str]:
    bodies = [f"m{number}" for number in range(first, first + count)]
    call(system["http"], "PUT", f"/v1/topics/{topic}", {})
    send(system["http"], topic, bodies)
    return bodies


def read(spark: SparkSession, system: dict[str, Any], topic: str, **options: str) -> Any:
    source = spark.read.format("gantry").options(path=system["data"], topic=topic, columns="body", **options)
    return source.load()


def words(frame: Any) -> list[str]:
    return sorted(bytes(row.body).decode() for row in frame.collect())


def test_leader_followers_and_named_replicas_show_the_same_log(system: dict[str, Any]) -> None:
    bodies_of(system, "same", 0, 300)
    until(lambda: in_sync(system), "the replicas are not in sync")
    wished = ("leader", "follower", "a", "b", "c")

    def held(wish: str) -> tuple[str, str, int]:
        taken = snapshot.take([system["data"]], replica=wish)
        taken.close()
        (view,) = taken.stores
        count = sum(high - low for (name, _), (low, high) in view.queues.items() if name == "same")
        return view.broker, view.log_id, count

    until(
        lambda: len({held(wish) for wish in wished}) == 1, f"they differ: {[held(wish) for wish in wished]}"
    )
    assert held("follower")[::2] == ("broker-a", 300)
    taken = {wish: snapshot.take([system["data"]], replica=wish) for wish in ("leader", "follower")}
    folders = {wish: Path(one.stores[0].directory).parents[2].name for wish, one in taken.items()}
    for one in taken.values():
        one.close()
    assert folders["leader"] == broker(system)["leader"] != folders["follower"]


def test_a_batch_reads_its_snapshot_through_a_takeover_and_the_next_one_the_new_leader(
    spark: SparkSession, system: dict[str, Any]
) -> None:
    sent = bodies_of(system, "batch", 0, 400)
    planned = read(spark, system, "batch")
    assert words(planned) == sorted(sent)
    take_over(system)
    assert words(planned) == sorted(sent)
    later = bodies_of(system, "batch", 400, 50)
    assert words(read(spark, system, "batch")) == sorted(sent + later)
    assert words(read(spark, system, "batch", replica="follower")) == sorted(sent + later)


def test_a_stream_continues_at_another_replica_without_a_row_missing_or_twice(
    spark: SparkSession, system: dict[str, Any], tmp_path: Path
) -> None:
    def run() -> list[str]:
        source = spark.readStream.format("gantry").options(
            path=system["data"], topic="stream", columns="body", startingOffsets="earliest"
        )
        written = (
            source.load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
        )
        written.trigger(availableNow=True).start(str(tmp_path / "rows")).awaitTermination()
        return words(spark.read.parquet(str(tmp_path / "rows")))

    sent = bodies_of(system, "stream", 0, 200)
    until(lambda: run() == sorted(sent), "rows are missing")
    take_over(system)
    sent += bodies_of(system, "stream", 200, 200)
    until(lambda: run() == sorted(sent), "rows are missing, or twice")
