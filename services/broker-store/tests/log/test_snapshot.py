"""Snapshots: a reader's view stays the same, whatever the store does meanwhile."""

import json
import os

import pytest

from broker_store.log.files.real_files import RealFiles
from broker_store.log.snapshot import Content, Snapshots, SnapshotUnknown, to_json
from gantry_wire.records.message_record import scan_records
from gantry_wire.records.units import CONSUME_QUEUE_UNIT


@pytest.fixture
def store(mini, disk):
    store = mini(disk).open()
    for number in range(60):
        store.send(b"body %d" % number)
    disk.make_dirs("/store/config")
    disk.replace_atomically("/store/config/topics.json", b"{}")
    disk.replace_atomically("/store/config/topics.json.bak", b"{}")
    return store


@pytest.fixture
def snapshots(disk):
    return Snapshots(disk, "/store", os.urandom)


def content(store, **tables):
    return Content(store.log, "ab" * 16, store.log.confirm, store.queues.values(), tables)


def make(snapshots, store, now_ms=1000, ttl_ms=500):
    return snapshots.finish(snapshots.plan(content(store), now_ms, ttl_ms))


def read_snapshot(files, manifest):
    records = []
    for name in manifest.segments:
        base = int(name)
        data = files.read_bytes(f"{manifest.directory}/commitlog/{name}")[: manifest.end_position - base]
        records += [record.body for record in scan_records(data, base)]
    return records


def read_queues(files, manifest):
    return {
        queue.directory: b"".join(
            files.read_bytes(f"{manifest.directory}/{queue.directory}/{name}") or b""
            for name in files.listdir(f"{manifest.directory}/{queue.directory}")
        )
        for queue in manifest.queues
    }


def test_the_manifest_lists_the_snapshots_content(store, snapshots, disk):
    manifest = make(snapshots, store)
    assert manifest.end_position == store.log.confirm
    assert manifest.segments == [f"{start:020d}" for start in range(0, store.log.end, 4096)]
    assert manifest.config == ["topics.json"]
    assert {(queue.directory, queue.max_offset) for queue in manifest.queues} == {
        ("consumequeue/T/0", 60), ("consumequeue/SYS/0", len(store.log.segments)),
    }  # fmt: skip
    shown = to_json(manifest)
    assert shown["endPosition"] == manifest.end_position
    assert json.loads(disk.read_bytes(f"{manifest.directory}/manifest.json")) == shown
    assert snapshots.find(manifest.id) == manifest


def test_a_snapshot_outlives_appends_retention_and_deleted_queues(store, snapshots, disk):
    manifest = make(snapshots, store)
    before = read_snapshot(disk, manifest)
    assert [body for body in before if body != b"offsets"] == [b"body %d" % number for number in range(60)]
    disk.remove(store.log.drop_first_segment())
    for number in range(60, 120):
        store.send(b"body %d" % number)
    store.queue("T", 0).destroy()
    assert read_snapshot(disk, manifest) == before
    units = read_queues(disk, manifest)["consumequeue/T/0"]
    assert len(list(CONSUME_QUEUE_UNIT.iter_unpack(units))) == 60


def test_a_snapshot_is_removed_when_it_expires_or_is_dropped(store, snapshots, disk):
    first, second = make(snapshots, store), make(snapshots, store, now_ms=2000)
    assert snapshots.expire(1499) == []
    assert snapshots.expire(1500) == [first.id]
    assert disk.listdir("/store/gantry/snapshots") == [second.id]
    snapshots.drop(second.id)
    assert disk.listdir("/store/gantry/snapshots") == []
    for snapshot_id in (second.id, "../../commitlog", ""):
        with pytest.raises(SnapshotUnknown):
            snapshots.drop(snapshot_id)


def test_an_incomplete_snapshot_of_an_earlier_run_is_removed(snapshots, disk):
    disk.make_dirs("/store/gantry/snapshots/broken")
    disk.open("/store/gantry/snapshots/broken/manifest.json", 0).pwrite(b"{", 0)
    disk.make_dirs("/store/gantry/snapshots/empty/config")
    disk.open("/store/gantry/snapshots/empty/config/x", 1)
    assert snapshots.expire(0) == ["broken", "empty"]


def test_a_snapshot_that_a_kill_left_without_its_queues_is_removed(store, snapshots, disk):
    plan = snapshots.plan(content(store), 1000, 500)
    again = Snapshots(disk.killed(), "/store", os.urandom)
    assert again.expire(1001) == [plan.manifest.id]


def test_a_snapshot_with_a_manifest_is_whole_after_a_power_cut(store, snapshots, disk):
    manifest = make(snapshots, store)
    whole = read_queues(disk, manifest), read_snapshot(disk, manifest)
    states = list(disk.crash_states(50))
    found = [Snapshots(state, "/store", os.urandom).find(manifest.id) for state in states]
    assert manifest in found
    for state, kept in zip(states, found, strict=True):
        assert kept is None or (read_queues(state, kept), read_snapshot(state, kept)) == whole


def test_a_snapshot_being_made_does_not_count_as_incomplete(store, snapshots, disk):
    def queues():
        assert snapshots.expire(0) == []
        yield from store.queues.values()

    plan = snapshots.plan(content(store)._replace(queues=queues()), 1000, 500)
    assert snapshots.expire(2000) == []
    manifest = snapshots.finish(plan)
    assert disk.exists(f"{manifest.directory}/config/topics.json")
    assert snapshots.expire(2000) == [manifest.id]


def test_on_the_real_disk_segments_are_links(mini, tmp_path):
    store = mini(RealFiles(), directory=str(tmp_path)).open()
    for number in range(60):
        store.send(b"body %d" % number)
    snapshots = Snapshots(RealFiles(), str(tmp_path), os.urandom)
    manifest = make(snapshots, store)
    for name in manifest.segments:
        assert (tmp_path / "commitlog" / name).stat().st_ino == (
            tmp_path / "gantry" / "snapshots" / manifest.id / "commitlog" / name
        ).stat().st_ino
    assert len(read_snapshot(RealFiles(), manifest)) == 60 + len(manifest.segments)
    snapshots.drop(manifest.id)
    assert len(store.bodies()) == 60
    store.close()
