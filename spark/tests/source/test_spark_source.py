"""The source in Spark on running stores: its counts equal those of the stores, for any split and filter."""

import json
import time

import pytest
from http_calls import call, load, send

from gantry_spark.store import snapshot

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def orders(system):
    call(system["http"], "PUT", "/v1/topics/spark-orders", {})
    send(system["http"], "spark-orders", [f'{{"n": {n}}}' for n in range(3000)], tag="a", keys=["k-1"])
    send(
        system["http"],
        "spark-orders",
        [f"other {n}" for n in range(500)],
        tag="b",
        properties={"region": "north"},
    )
    return system


@pytest.fixture
def manifest(orders, tmp_path):
    taken = snapshot.take([orders["data"]])
    path = tmp_path / "manifest.json"
    path.write_text(taken.to_json())
    yield str(path), taken
    taken.close()


def read(spark, **given):
    return spark.read.format("gantry").options(**given).load()


def test_totals_equal_the_maxima_of_the_queues_while_stores_are_written_to(spark, orders, tmp_path):
    call(orders["http"], "PUT", "/v1/topics/spark-load", {})
    with load(orders["http"], "spark-load") as sent:
        while sent[0] < 500:
            time.sleep(0.01)
        taken = snapshot.take([orders["data"]])
        (tmp_path / "manifest.json").write_text(taken.to_json())
        frame = read(spark, snapshot=str(tmp_path), columns="topic,brokerName,queueId,queueOffset")
        counted = (
            frame.groupBy("brokerName", "topic", "queueId")
            .agg({"*": "count", "queueOffset": "max"})
            .collect()
        )
        more = read(spark, path=orders["data"], topic="spark-load").count()
    taken.close()
    expected = {
        (view.broker, topic, queue): (high - low, high - 1)
        for view in taken.stores
        for (topic, queue), (low, high) in view.queues.items()
        if high > low
    }
    assert {
        (row[0], row[1], row[2]): (row["count(1)"], row["max(queueOffset)"]) for row in counted
    } == expected
    assert (
        sum(
            high
            for view in taken.stores
            for (topic, _), (_, high) in view.queues.items()
            if topic == "spark-load"
        )
        >= 500
    )
    assert more >= 500


def test_every_number_of_partitions_gives_the_same_rows(spark, manifest):
    path, _ = manifest
    seen = set()
    for partitions in (1, 2, 5, 23):
        frame = read(spark, snapshot=path, columns="*", minPartitions=str(partitions)).drop("properties")
        row = frame.selectExpr(
            "count(*)", "sum(hash(*))", "count(distinct brokerName, physicalOffset)"
        ).first()
        assert row[0] == row[2]
        seen.add(tuple(row))
    assert len(seen) == 1


def test_one_frame_answers_many_filters_and_still_holds_all_rows(spark, manifest):
    path, _ = manifest
    frame = read(
        spark,
        snapshot=path,
        columns="topic,queueId,queueOffset,physicalOffset,storeTimestamp,brokerName,property:region",
    )
    middle = (
        frame.filter("topic = 'spark-orders'")
        .selectExpr("cast(avg(cast(storeTimestamp as double)) as timestamp)")
        .first()[0]
    )
    local = [row.asDict() for row in frame.collect()]
    asked = [
        ("topic = 'spark-orders' and queueId in (1, 3)", lambda r: r["topic"] == "spark-orders" and r["queueId"] in (1, 3)),
        (f"storeTimestamp >= timestamp'{middle}'", lambda r: r["storeTimestamp"] >= middle),
        ("brokerName <=> 'broker-b' and physicalOffset > 5000", lambda r: r["brokerName"] == "broker-b" and r["physicalOffset"] > 5000),
        ("topic = 'spark-orders' and queueOffset between 10 and 19", lambda r: r["topic"] == "spark-orders" and 10 <= r["queueOffset"] < 20),
        ("`property:region` = 'north'", lambda r: r["property:region"] == "north"),
        ("topic = 'nobody' or queueId = 2", lambda r: r["queueId"] == 2),
        ("topic = 'a' and topic = 'b'", lambda r: False),
    ]  # fmt: skip
    for condition, wanted in asked:
        expected = sum(map(wanted, local))
        assert (frame.filter(condition).count(), len(local)) == (expected, frame.count()), condition
    assert sum(map(asked[4][1], local)) == 500


def test_a_schema_is_a_projection_and_offsets_bound_what_is_read(spark, manifest):
    path, taken = manifest
    frame = (
        spark.read.format("gantry")
        .schema("body BINARY, TOPIC STRING")
        .option("snapshot", path)
        .option("topic", "spark-orders")
        .load()
    )
    assert frame.columns == ["body", "TOPIC"]
    assert frame.filter("body like '{%'").count() == 3000
    queues = {
        view.broker: [
            queue for (topic, queue), (_, high) in view.queues.items() if topic == "spark-orders" and high > 7
        ]
        for view in taken.stores
    }
    starting = {"spark-orders": {broker: dict.fromkeys(map(str, ids), 5) for broker, ids in queues.items()}}
    ending = {"spark-orders": {broker: dict.fromkeys(map(str, ids), 7) for broker, ids in queues.items()}}
    bounded = read(
        spark, snapshot=path, startingOffsets=json.dumps(starting), endingOffsets=json.dumps(ending)
    )
    rows = bounded.groupBy("brokerName", "queueId").agg({"queueOffset": "collect_set"}).collect()
    found = {(row[0], row[1]): set(row[2]) for row in rows if row[1] in queues[row[0]]}
    assert found == {(broker, queue): {5, 6} for broker, ids in queues.items() for queue in ids}


def test_mistakes_raise_clear_errors(spark, orders, tmp_path):
    for given, words in (
        ({"path": str(tmp_path)}, "no commitlog/"),
        ({"path": orders["data"], "columns": "colour"}, "has no column 'colour'"),
        (
            {"path": orders["data"], "startingOffsets": '{"broker-x": 5}'},
            "names broker-x; the stores read are broker-a, broker-b",
        ),
    ):
        with pytest.raises(Exception, match=words):
            read(spark, **given).count()
