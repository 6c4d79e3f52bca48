"""What a job fixes before it plans: ends of logs of stopped stores, queues and their counts, manifests and their cleanup."""

import json

import pytest
from stores_made import StoreMade

from gantry_spark.store import snapshot
from gantry_spark.store.directory import NotAStore
from gantry_spark.store.end import StoreUnreadable
from gantry_spark.store.files import RUNNING
from gantry_spark.store.snapshot import Snapshot
from gantry_wire.records.message_record import SYS_TRANSACTION_PREPARED


def made(path, count=60, segment_bytes=2048):
    store = StoreMade(path, segment_bytes=segment_bytes, file_units=10)
    for number in range(count):
        store.send(f"topic-{number % 3}", b"x" * (number % 30), queue_id=number % 2)
    return store


def counts(view):
    return {queue: high - low for queue, (low, high) in view.queues.items()}


def taken(path):
    (view,) = snapshot.take([str(path)]).stores
    return view


def test_a_cleanly_stopped_directory_is_read_to_its_end(tmp_path):
    store = made(tmp_path / "broker-a")
    view = taken(store.write())
    assert (view.broker, view.log_id, view.min_position, view.end_position) == (
        "broker-a",
        "ab" * 16,
        0,
        store.end,
    )
    assert sum(counts(view).values()) == store.count == 60
    assert len(view.segments) == len(store.segments) > 3


def test_after_a_kill_complete_records_above_the_confirm_offset_count_as_in_recovery(tmp_path):
    store = made(tmp_path / "broker-a")
    positions = [position for segment in store.segments for position in segment.positions]
    view = taken(store.write(RUNNING, confirm=positions[40], checkpoint=positions[20]))
    assert view.end_position == store.end
    assert sum(counts(view).values()) == 60


@pytest.mark.parametrize("damage", ["body", "torn", "size"])
def test_after_a_kill_the_log_ends_at_the_first_incomplete_record(tmp_path, damage):
    store = made(tmp_path / "broker-a")
    log = store.segments[-1]
    bad = store.send("topic-9", b"y" * 40, properties={"a": "b"})
    end = store.end
    store.send("topic-9", b"z")
    if damage == "body":
        log.flip(bad + 88)
    elif damage == "size":
        log.flip(bad + 1)
    else:
        log.content[end - log.base - 3 : end - log.base] = bytes(3)
    view = taken(store.write(RUNNING, confirm=store.segments[-1].positions[0], checkpoint=0))
    assert view.end_position == bad
    assert sum(counts(view).values()) == 60


def test_records_written_together_count_only_if_all_are_there(tmp_path):
    store = made(tmp_path / "broker-a", segment_bytes=1 << 20)
    confirm = store.end
    first = store.send("a", b"1", properties={"__GANTRY_SETTLED": "half:0:7::1/2"})
    assert taken(store.write(RUNNING, confirm=confirm, checkpoint=confirm)).end_position == first
    store.send("b", b"2", properties={"__GANTRY_SETTLED": "half:0:7::2/2"})
    assert taken(store.write(RUNNING, confirm=confirm, checkpoint=confirm)).end_position == store.end


def test_halves_have_no_place_in_their_queue(tmp_path):
    store = made(tmp_path / "broker-a", segment_bytes=1 << 20)
    checkpoint = store.end
    store.send("orders", b"half", sys_flag=SYS_TRANSACTION_PREPARED)
    view = taken(store.write(RUNNING, confirm=checkpoint, checkpoint=checkpoint))
    assert ("orders", 0) not in view.queues
    assert view.end_position == store.end


def test_queues_begin_where_the_oldest_segment_does(tmp_path):
    store = made(tmp_path / "broker-a")
    path = store.write()
    gone = store.segments[0]
    (path / "commitlog" / f"{0:020d}").unlink()
    view = taken(path)
    assert view.min_position == store.segments[1].base
    assert sum(counts(view).values()) == store.count - len(gone.positions)


def test_a_directory_of_rocketmq_is_read_from_the_newest_unit_on(tmp_path):
    store = made(tmp_path / "broker-a")
    late = store.segments[-1].positions[-1]
    path = store.write(checkpoint=late)
    for name in ("log.note", "logId"):
        (path / "gantry" / name).unlink()
    view = taken(path)
    assert (view.log_id, view.end_position) == ("", store.end)
    assert sum(counts(view).values()) == 60


def test_an_empty_store_has_no_messages(tmp_path):
    (tmp_path / "commitlog").mkdir()
    view = taken(tmp_path)
    assert (view.end_position, view.segments, view.queues) == (0, (), {})


def test_a_snapshot_as_json_is_the_same_snapshot(tmp_path):
    for name in ("broker-a", "broker-b"):
        made(tmp_path / name).write()
    found = snapshot.take([str(tmp_path)])
    (tmp_path / "manifest.json").write_text(found.to_json())
    assert snapshot.load(str(tmp_path / "manifest.json")) == found
    assert Snapshot.from_json(found.to_json()) == found
    with pytest.raises(ValueError, match="no snapshot of version"):
        Snapshot.from_json("{}")


def test_an_invalid_manifest_is_refused_with_its_path(tmp_path):
    (tmp_path / "manifest.json").write_text("[]")
    for path in (tmp_path / "manifest.json", tmp_path / "nothing.json", tmp_path / "empty"):
        with pytest.raises(NotAStore, match=path.stem):
            snapshot.load(str(path))


def test_a_manifest_without_its_links_is_refused(tmp_path):
    store = made(tmp_path / "broker-a")
    folder = store.write() / "gantry/snapshots/s1"
    folder.mkdir(parents=True)
    manifest = {
        "id": "s1", "logId": "ab" * 16, "createdMs": 1, "minPosition": 0, "endPosition": store.end,
        "segments": [f"{segment.base:020d}" for segment in store.segments], "queues": [],
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreUnreadable, match="its time to live is over"):
        snapshot.load(str(folder / "manifest.json"))
