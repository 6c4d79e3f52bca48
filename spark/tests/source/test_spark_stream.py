"""The stream reader as Spark calls it, without Spark: offsets, batches, restarts, and logs that changed."""

import shutil

import pytest
from logs_made import START_MS
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from stores_made import StoreMade

from gantry_spark.bad_option import BadOption
from gantry_spark.source import options
from gantry_spark.source.reading import DataLost
from gantry_spark.source.stream import LogReplaced, StreamReader

COLUMNS = ("topic", "queueId", "queueOffset", "brokerName")
ALL = ReadAllAvailable()


def store_at(path, count=40):
    store = StoreMade(path / "broker-a", segment_bytes=2048, file_units=10)
    grow(store, count)
    return store


def grow(store, count):
    for number in range(count):
        store.send(f"topic-{number % 2}", b"x" * 20, queue_id=number % 3, store_ms=START_MS + store.count)
    store.write()


def reader(path, **given):
    return StreamReader(options.parse({"path": str(path), **given}), COLUMNS)


def rows(stream, start, end):
    found = [
        tuple(row.values())
        for piece in stream.partitions(start, end)
        for batch in stream.read(piece)
        for row in batch.to_pylist()
    ]
    assert len(found) == len(set(found))
    return set(found)


def all_rows(store):
    return {
        (topic, queue, offset, "broker-a")
        for (topic, queue), units in store.units.items()
        for offset in range(len(units))
    }


def test_a_stream_reads_existing_and_then_new_messages(tmp_path):
    store = store_at(tmp_path)
    stream = reader(tmp_path, startingOffsets="earliest")
    start = stream.initialOffset()
    assert start == {"broker-a": {"logId": "ab" * 16, "position": 0}}
    end = stream.latestOffset(start, ALL)
    assert rows(stream, start, end) == all_rows(store)
    assert stream.latestOffset(end, ALL) == end
    before = all_rows(store)
    grow(store, 10)
    following = stream.latestOffset(end, ALL)
    assert rows(stream, end, following) == all_rows(store) - before


def test_batches_of_limited_size_give_the_same_rows_and_another_reader_continues(tmp_path):
    store = store_at(tmp_path)
    offset, read, batches = reader(tmp_path, startingOffsets="earliest").initialOffset(), set(), 0
    while True:
        stream = reader(
            tmp_path, startingOffsets="earliest"
        )  # as after a restart: only the checkpoint is left
        end = stream.latestOffset(offset, ReadMaxBytes(700))
        if end == offset:
            break
        part = rows(stream, offset, end)
        assert part
        assert not part & read
        assert end["broker-a"]["position"] - offset["broker-a"]["position"] < 1200
        read |= part
        offset, batches = end, batches + 1
    assert read == all_rows(store)
    assert batches > 5


def test_latest_logs_its_start_as_an_empty_batch_so_that_a_restart_loses_nothing(tmp_path):
    store = store_at(tmp_path)
    before = all_rows(store)
    stream = reader(tmp_path)
    start = stream.initialOffset()
    first_end = stream.latestOffset(start, ALL)
    assert first_end == start
    grow(store, 5)  # the query is killed before its first batch completes
    again = reader(tmp_path)
    later = again.initialOffset()
    assert later != start
    assert list(again.partitions(later, first_end)) == []
    end = again.latestOffset(first_end, ALL)
    assert rows(again, first_end, end) == all_rows(store) - before


def test_available_now_ends_at_the_content_of_its_start(tmp_path):
    store = store_at(tmp_path)
    stream = reader(tmp_path, startingOffsets="earliest")
    stream.prepareForTriggerAvailableNow()
    seen = all_rows(store)
    grow(store, 10)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert rows(stream, start, end) == seen
    assert stream.latestOffset(end, ALL) == end
    assert stream.reportLatestOffset()["broker-a"]["position"] == store.end


def test_offsets_of_queues_survive_restarts(tmp_path):
    store = store_at(tmp_path)
    asked = '{"topic-0": {"broker-a": {"0": 3, "1": -1}}, "topic-1": {"broker-a": {"0": 2}}}'
    start = reader(tmp_path, startingOffsets=asked).initialOffset()
    stream = reader(tmp_path, topic="topic-0,topic-1")
    middle = stream.latestOffset(start, ReadMaxBytes(900))
    found = rows(stream, start, middle)
    grow(store, 12)
    end = reader(tmp_path).latestOffset(middle, ALL)
    found |= rows(stream, middle, end)
    units = {queue: len(store.units[queue]) for queue in store.units}
    old = {("topic-0", 1): units["topic-0", 1] - 2}
    firsts = {("topic-0", 0): 3, ("topic-1", 0): 2, **old}
    assert found == {row for row in all_rows(store) if row[2] >= firsts.get(row[:2], 0)}


def test_a_start_by_time_excludes_older_messages(tmp_path):
    store = store_at(tmp_path)
    stream = reader(tmp_path, startingTimestamp=str(START_MS + 30))
    start = stream.initialOffset()
    logged = stream.latestOffset(start, ALL)
    end = stream.latestOffset(logged, ALL)
    assert len(rows(stream, logged, end)) == store.count - 30


def test_a_log_that_was_cut_is_an_error_that_says_what_to_do(tmp_path):
    store = store_at(tmp_path)
    stream = reader(tmp_path, startingOffsets="earliest")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    shutil.rmtree(store.path)
    shorter = store_at(tmp_path, 20)
    with pytest.raises(
        LogReplaced,
        match=f"ends at position {shorter.end}, the stream has read up to {store.end}.*new checkpoint",
    ):
        reader(tmp_path).latestOffset(end, ALL)
    goes_on = reader(tmp_path, failOnDataLoss="false").latestOffset(end, ALL)
    assert goes_on["broker-a"]["position"] == shorter.end


def test_a_log_that_was_cut_and_rewritten_is_an_error(tmp_path):
    store = store_at(tmp_path)
    stream = reader(tmp_path, startingOffsets="earliest")
    end = stream.latestOffset(stream.initialOffset(), ReadMaxBytes(1000))
    shutil.rmtree(store.path)
    other = StoreMade(tmp_path / "broker-a", segment_bytes=1 << 16)
    for _ in range(30):
        other.send("topic-0", b"another length of body")
    other.write()
    with pytest.raises(LogReplaced, match="no message begins at position"):
        reader(tmp_path).latestOffset(end, ALL)


def test_another_log_in_the_directory_is_an_error_unless_data_loss_is_accepted(tmp_path):
    store = store_at(tmp_path)
    stream = reader(tmp_path, startingOffsets="earliest")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    shutil.rmtree(store.path)
    other = StoreMade(tmp_path / "broker-a", log_id="cd" * 16)
    grow(other, 50)
    with pytest.raises(LogReplaced, match=r"its log is cdcd.*the stream has read abab"):
        reader(tmp_path).latestOffset(end, ALL)
    lenient = reader(tmp_path, failOnDataLoss="false")
    following = lenient.latestOffset(end, ALL)
    assert rows(lenient, end, following) == all_rows(other)


def test_messages_deleted_before_the_read_are_an_error_or_reported(tmp_path, caplog):
    store = store_at(tmp_path)
    stream = reader(tmp_path, startingOffsets="earliest")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    (store.path / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(DataLost, match=r"broker-a: positions 0 to 2048 .*failOnDataLoss=false"):
        stream.partitions(start, end)
    lenient = reader(tmp_path, failOnDataLoss="false", quarantine=str(tmp_path / "aside"))
    found = rows(lenient, start, end)
    assert len(found) == store.count - len(store.segments[0].positions)
    assert "positions 0 to 2048" in caplog.text
    assert [path.name for path in (tmp_path / "aside").iterdir()] == ["lost-broker-a-0-2048.json"]


def test_a_segment_deleted_between_plan_and_read_is_an_error_or_reported(tmp_path, caplog):
    store = store_at(tmp_path)
    stream = reader(tmp_path, startingOffsets="earliest")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    pieces = stream.partitions(start, end)
    (store.path / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(DataLost, match="positions 0 to 2048"):
        list(stream.read(pieces[0]))
    lenient = reader(tmp_path, failOnDataLoss="false")
    found = sum(batch.num_rows for piece in pieces for batch in lenient.read(piece))
    assert found == store.count - len(store.segments[0].positions)
    assert "positions 0 to 2048" in caplog.text


def test_a_new_store_is_read_from_its_lowest_and_a_missing_one_is_an_error(tmp_path):
    store_at(tmp_path)
    stream = reader(tmp_path, startingOffsets="earliest")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    other = StoreMade(tmp_path / "broker-b", log_id="cd" * 16)
    grow(other, 7)
    following = stream.latestOffset(end, ALL)
    assert len(rows(stream, end, following)) == 7
    shutil.rmtree(other.path)
    with pytest.raises(LogReplaced, match="broker-b is not below"):
        stream.latestOffset(following, ALL)
    lenient = reader(tmp_path, failOnDataLoss="false")
    assert lenient.latestOffset(following, ALL) == following


def test_a_stream_has_no_end_and_no_snapshot(tmp_path):
    with pytest.raises(BadOption, match="a stream has no end"):
        reader(tmp_path, endingOffsets="latest")
    with pytest.raises(BadOption, match="a stream reads path"):
        reader(tmp_path, snapshot="x")
