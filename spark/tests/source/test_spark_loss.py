"""Logs with missing data: an error or rows reported as lost, never silently fewer rows."""

import json

import pytest
from stores_made import StoreMade

from gantry_spark.source import options, stream_offsets
from gantry_spark.source.batch import BatchReader
from gantry_spark.source.reading import DataLost
from gantry_spark.source.stream import LogReplaced, StreamReader
from gantry_spark.source.stream_offsets import Reached
from gantry_spark.store import snapshot
from gantry_spark.store.end import StoreUnreadable
from gantry_spark.store.files import RUNNING


def made(path, count=200):
    store = StoreMade(path, segment_bytes=4096, file_units=50)
    for number in range(count):
        store.send("orders", b"b" * (number % 40), queue_id=number % 3)
    return store


def reader_of(path, **given):
    return BatchReader(options.parse({"path": str(path), **given}), ("queueOffset", "topic"))


def read(path, **given):
    reader = reader_of(path, **given)
    return sum(batch.num_rows for piece in reader.partitions() for batch in reader.read(piece))


def reported(folder):
    return [json.loads(line) for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]


def files_of(store):
    return [store.path / "commitlog" / f"{segment.base:020d}" for segment in store.segments]


def tolerant(tmp_path):
    return {"failOnDataLoss": "false", "quarantine": str(tmp_path / "lost")}


@pytest.mark.parametrize("without", ["", "gantry/log.note"])
@pytest.mark.parametrize("status", [None, RUNNING])
def test_a_log_without_files_is_lost_and_not_empty(tmp_path, without, status):
    store = made(tmp_path / "broker-a")
    path = store.write(*([status] if status else []))
    for file in files_of(store):
        file.unlink()
    if without:
        (path / without).unlink()
    (view,) = snapshot.take([str(path)]).stores
    assert (view.min_position, view.end_position, view.segments) == (0, store.end, ())
    assert sum(high - low for low, high in view.queues.values()) == 200
    with pytest.raises(DataLost, match=f"positions 0 to {store.end}"):
        read(path)
    assert read(path, **tolerant(tmp_path)) == 0
    assert [row["size"] for row in reported(tmp_path / "lost")] == [store.end]
    stream = StreamReader(options.parse({"path": str(path)}), ("topic",))
    with pytest.raises(LogReplaced, match="no files any more"):
        stream.latestOffset(
            stream_offsets.to_json({"broker-a": Reached("ab" * 16, store.end)}), stream.getDefaultReadLimit()
        )


def test_a_missing_newest_segment_of_rocketmq_is_detected_by_the_queues(tmp_path):
    store = made(tmp_path / "broker-a")
    path = store.write()
    (path / "gantry" / "log.note").unlink()
    files_of(store)[-1].unlink()
    with pytest.raises(DataLost, match=f"positions {store.segments[-1].base} to {store.end}"):
        read(path)


def test_a_gap_and_a_truncated_file_are_reported_and_leave_the_rest_readable(tmp_path):
    store = made(tmp_path / "broker-a")
    path = store.write()
    files, log = files_of(store), store.segments
    files[1].unlink()
    for at in (2, -1):
        cut = files[at].read_bytes()[: log[at].end - log[at].base - 7]
        files[at].write_bytes(cut)
    with pytest.raises(DataLost, match="positions 4096 to 8192"):
        read(path)
    expected = 200 - len(log[1].positions) - 1  # the cut removes only the padding of the middle segment
    for partitions in ("1", "9"):
        given = {"failOnDataLoss": "false", "quarantine": str(tmp_path / partitions)}
        assert read(path, minPartitions=partitions, **given) == expected
        whys = {row["why"] for row in reported(tmp_path / partitions)}
        assert "missing: deleted or cut off before it was read" in whys


def test_a_segment_deleted_during_planning_or_before_the_read_is_reported_lost(tmp_path, monkeypatch):
    store = made(tmp_path / "broker-a")
    path = store.write()
    found = snapshot.take([str(path)])
    manifest = tmp_path / "manifest.json"
    manifest.write_text(found.to_json())
    strict, lenient = reader_of(path), reader_of(path, **tolerant(tmp_path))
    pieces, same = strict.partitions(), lenient.partitions()
    files_of(store)[3].unlink()
    with pytest.raises(DataLost, match="12288"):
        sum(batch.num_rows for piece in pieces for batch in strict.read(piece))
    rest = 200 - len(store.segments[3].positions)
    assert sum(batch.num_rows for piece in same for batch in lenient.read(piece)) == rest
    assert {row["position"] for row in reported(tmp_path / "lost")} == {12288}
    planned = BatchReader(
        options.parse({"snapshot": str(manifest), "minPartitions": "40", **tolerant(tmp_path)}), ("topic",)
    )
    assert sum(batch.num_rows for piece in planned.partitions() for batch in planned.read(piece)) == rest

    def gone(*_):
        raise FileNotFoundError

    monkeypatch.setattr("gantry_spark.store.end.find_queues", gone)
    with pytest.raises(StoreUnreadable, match="disappear"):
        snapshot.take([str(path)])
