"""Topics, queues, offsets and times that do not exist raise an error that names them; they do not return zero rows."""

import json
import logging

import pytest
from stores_made import StoreMade

from gantry_spark.bad_option import BadOption
from gantry_spark.source import options
from gantry_spark.source.batch import BatchReader
from gantry_spark.source.stream import StreamReader


@pytest.fixture
def path(tmp_path):
    store = StoreMade(tmp_path / "broker-a")
    for number in range(20):
        store.send("orders", b"b", queue_id=number % 2)
    found = store.write()
    (found / "config").mkdir()
    table = {"topicConfigTable": {"orders": {"writeQueueNums": 4}, "empty": {"writeQueueNums": 1}}}
    (found / "config" / "topics.json").write_text(json.dumps(table))
    return str(found)


def read(path, **given):
    reader = BatchReader(options.parse({"path": path, **given}), ("topic",))
    return sum(batch.num_rows for piece in reader.partitions() for batch in reader.read(piece))


def offsets(queue, offset):
    return json.dumps({"orders": {"broker-a": {queue: offset}}})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topic": "order"}, "no topic order; did you mean orders"),
        ({"topic": "x"}, "no topic x; they have empty, orders \\("),
        ({"startingOffsets": offsets("7", 0)}, "no queue 7 of topic orders; it has 0, 1"),
        (
            {"startingOffsets": offsets("0", 11)},
            "startingOffsets: offset 11 is beyond the end .* which is 10",
        ),
        ({"endingOffsets": offsets("1", 11)}, "endingOffsets: offset 11"),
        ({"startingOffsets": '{"broker-a": true}'}, "startingOffsets is earliest, latest"),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "is after endingTimestamp"),
    ],
)
def test_a_missing_object_is_an_error(path, given, words):
    with pytest.raises(BadOption, match=words):
        read(path, **given)


def test_an_empty_object_is_not_an_error(path, caplog):
    assert read(path, topic="empty") == 0
    assert read(path, startingOffsets=offsets("3", -2)) == 20
    assert read(path, startingOffsets=offsets("0", 10)) == 10
    assert read(path, topic="order", failOnDataLoss="false") == 0
    with caplog.at_level(logging.WARNING):
        StreamReader(options.parse({"path": path, "topic": "order"}), ("topic",)).initialOffset()
    assert "waits for its messages" in caplog.text
