"""Reading the files of a store: queues with holes, the run file, offsets; and finding the stores below a path."""

import json
import subprocess
import sys
import zlib

import pytest
from stores_made import StoreMade

from gantry_spark.store import directory as store_directory
from gantry_spark.store import files as store_files
from gantry_spark.store.directory import NotAStore
from gantry_spark.store.files import RUNNING
from gantry_wire.records.units import CONSUME_QUEUE_BLANK


def made(path, count=50, **settings):
    store = StoreMade(path, **settings)
    for number in range(count):
        store.send("orders", bytes(number), queue_id=number % 2)
    return store


def test_units_are_found_by_offset_and_by_position_over_several_files(tmp_path):
    store = made(tmp_path / "broker-a", file_units=7)
    store.write()
    queue = store_files.queues(str(store.path))[1]
    units = store.units["orders", 1]
    assert (queue.topic, queue.queue_id, queue.first_named(), queue.end_written(0)) == ("orders", 1, 0, 25)
    assert [tuple(queue.unit(offset)) for offset in range(25)] == units
    assert queue.unit(25) is None
    for offset, (position, _) in enumerate(units):
        assert queue.first_at_or_above(position, 0, 25) == offset
        assert queue.first_at_or_above(position + 1, 0, 25) == offset + 1


def test_leading_blank_units_are_history_and_holes_count_as_the_next_unit(tmp_path):
    store = made(tmp_path / "broker-a", file_units=20)
    store.write()
    store.blank_front("orders", 0, 5)
    path = store.path / "consumequeue/orders/0" / f"{0:020d}"
    content = path.read_bytes()
    path.write_bytes(content[: 20 * 9] + CONSUME_QUEUE_BLANK * 3 + content[20 * 12 :])
    queue = store_files.queues(str(store.path))[0]
    assert queue.first_named() == 5
    units = store.units["orders", 0]
    assert queue.first_at_or_above(units[9][0], 5, 25) == 9
    assert queue.first_at_or_above(units[12][0], 5, 25) in range(9, 13)
    assert queue.first_at_or_above(units[13][0], 5, 25) == 13


def test_a_note_is_valid_only_if_no_other_program_wrote_to_the_directory(tmp_path):
    store = made(tmp_path / "broker-a")
    path = str(store.write(RUNNING))
    found = store_files.own_note(path)
    assert found is not None
    assert (found[0].status, found[1]) == (RUNNING, store.end)
    (store.path / "abort").unlink()
    assert store_files.own_note(path) is None
    (store.path / "abort").write_text("4711")
    assert store_files.own_note(path) is None


def test_a_torn_slot_of_the_note_leaves_the_other(tmp_path):
    store = made(tmp_path / "broker-a")
    path = store.write()
    note = path / "gantry/log.note"
    content = note.read_bytes()
    note.write_bytes(content[4096:] + content[4096:4200] + b"x" * 3992)
    assert store_files.note(str(path)).end == store.end


def test_offsets_are_those_of_the_table_and_then_of_the_journal(tmp_path):
    store = made(tmp_path / "broker-a")
    path = store.write()
    (path / "config").mkdir()
    (path / "config/consumerOffset.json").write_text('{"offsetTable":{"orders@billing":{0:3,"1":4}}}')
    lines = [
        json.dumps([n, "orders", "billing", queue, offset]).encode()
        for n, queue, offset in ((1, 1, 9), (2, 2, 5))
    ]
    journal = b"".join(b"%08x %b\n" % (zlib.crc32(line), line) for line in lines)
    (path / "gantry/offsets.journal").write_bytes(journal[:-7])
    assert store_files.offsets(str(path)) == {"orders@billing": {0: 3, 1: 9}}


def test_stores_are_found_by_path_by_data_directory_and_by_name(tmp_path):
    for name in ("broker-b", "broker-a"):
        made(tmp_path / "data" / name, 1).write()
    data = tmp_path / "data"
    assert [store.broker for store in store_directory.find([str(data)])] == ["broker-a", "broker-b"]
    assert [store.broker for store in store_directory.find([str(data / "broker-b")])] == ["broker-b"]
    named = store_directory.find([f"east={data / 'broker-a'}", f"west={data / 'broker-b'}"])
    assert [(store.broker, store.is_running, store.http) for store in named] == [
        ("east", False, None),
        ("west", False, None),
    ]


def test_a_path_without_a_store_is_refused_with_what_was_expected(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotAStore, match="no commitlog/"):
        store_directory.find([str(tmp_path / "empty")])
    with pytest.raises(NotAStore, match="is not a directory"):
        store_directory.find([str(tmp_path / "nothing")])
    for parent in ("x", "y"):
        made(tmp_path / parent / "broker-a", 1).write()
    with pytest.raises(NotAStore, match="NAME=PATH"):
        store_directory.find([str(tmp_path / "x"), str(tmp_path / "y")])


def test_of_replicas_one_must_be_named_because_each_has_all_messages(tmp_path):
    for name in ("a", "b"):
        made(tmp_path / "broker-a" / name, 1).write()
    with pytest.raises(NotAStore, match=f"as broker-a={tmp_path}/broker-a/a$"):
        store_directory.find([str(tmp_path)])
    (store,) = store_directory.find([f"broker-a={tmp_path}/broker-a/b"])
    assert (store.broker, store.path) == ("broker-a", f"{tmp_path}/broker-a/b")


def test_the_launcher_knows_the_address_of_a_running_replica(tmp_path, monkeypatch):
    replicas = [{"store": str(tmp_path / "broker-a" / name), "http": f"http://{name}"} for name in "ab"]
    listed = {"brokers": [{"store": replicas[0]["store"], "http": "http://a", "replicas": replicas}]}
    monkeypatch.setattr(store_directory, "_status", lambda data: listed if data == tmp_path else {})
    monkeypatch.setattr(store_directory, "is_running", lambda _directory: True)
    made(tmp_path / "broker-a" / "b", 1).write()
    (store,) = store_directory.find([f"broker-a={tmp_path}/broker-a/b"])
    assert store.http == "http://b"


def test_a_held_lock_is_detected_without_taking_it(tmp_path):
    made(tmp_path, 1).write()
    (tmp_path / "lock").write_bytes(b"lock")
    assert not store_directory.is_running(str(tmp_path))
    holds = (
        "import fcntl, os, sys; lock = os.open(sys.argv[1], os.O_RDWR); fcntl.lockf(lock, fcntl.LOCK_EX, 1, 0, 0); "
        "print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", holds, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        assert store_directory.is_running(str(tmp_path))
        holder.communicate(timeout=60)
    assert not store_directory.is_running(str(tmp_path))
