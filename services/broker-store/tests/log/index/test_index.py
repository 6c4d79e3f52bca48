"""Keys to positions: RocketMQ's layout, chains that survive a crash, no entry twice."""

import contextlib
import errno
import os
import time
from pathlib import Path

import pytest

from broker_store.log.files.real_files import RealFiles
from broker_store.log.files.simulated_files import Crashed, Fault
from broker_store.log.index.index import IndexFiles
from broker_store.log.index.index_file import IndexFile
from broker_store.log.settings import LogSettings
from gantry_wire.records.units import INDEX_ENTRY, INDEX_HEADER

SIZES = LogSettings(segment_bytes=4096, index_slots=2500, index_entries=3000)
T0 = 1_700_000_000_000
ALL = (0, 1 << 60, 1000)


def open_index(files, sizes=SIZES, directory="/index", **load):
    index = IndexFiles(files, directory, sizes)
    index.load(**load)
    return index


def checkpoint(index):
    for job in index.checkpoint():
        job()


def entries(count, first=0, spread=100):
    return [((first + n) % spread, 1000 + 100 * (first + n), T0 + 500 * (first + n)) for n in range(count)]


def expected(put, key_hash):
    return [position for entry_hash, position, _ in reversed(put) if entry_hash == key_hash]


def test_keys_are_found_newest_first_before_anything_is_written(disk):
    index = open_index(disk)
    put = entries(350)
    index.put(put[:200])
    index.put(put[200:])
    assert index.lookup(7, *ALL) == expected(put, 7)
    assert index.lookup(7, 0, 1 << 60, 2) == expected(put, 7)[:2]
    assert index.lookup(101, *ALL) == []
    assert index.entries == 350
    assert index.end_position == put[-1][1]


def test_keys_that_share_a_slot_are_distinguished(disk):
    index = open_index(disk)
    index.put([(5, 100, T0), (2505, 200, T0), (5, 300, T0), (5005, 400, T0)])
    assert [index.lookup(key, *ALL) for key in (5, 2505, 5005)] == [[300, 100], [200], [400]]


def test_the_time_of_an_entry_limits_the_search(disk):
    index = open_index(disk)
    put = [(1, 100 * n, T0 + 10_000 * n) for n in range(1, 20)]
    index.put(put)
    assert index.lookup(1, T0 + 50_000, T0 + 70_000, 100) == [700, 600, 500]
    assert index.lookup(1, T0 + 500_000, T0 + 600_000, 100) == []
    assert index.lookup(1, 0, T0 - 1, 100) == []


def test_the_bytes_are_rocketmqs(disk):
    index = open_index(disk)
    index.put([(5, 777, T0), (5 + 2500, 888, T0 + 2500), (9, 999, T0 + 2500)])
    checkpoint(index)
    (name,) = disk.listdir("/index")
    assert name == time.strftime("%Y%m%d%H%M%S", time.localtime(T0 / 1000)) + "000"
    content = disk.read_bytes(f"/index/{name}")
    assert len(content) == 40 + 2500 * 4 + 3000 * 20
    assert INDEX_HEADER.unpack_from(content) == (T0, T0 + 2500, 777, 999, 2, 4)
    assert content[40 + 5 * 4 : 40 + 6 * 4] == (2).to_bytes(4, "big")
    at = 40 + 2500 * 4
    assert not any(content[at : at + 20])
    assert INDEX_ENTRY.unpack_from(content, at + 20) == (5, 777, 0, 0)
    assert INDEX_ENTRY.unpack_from(content, at + 40) == (2505, 888, 2, 1)
    assert INDEX_ENTRY.unpack_from(content, at + 60) == (9, 999, 2, 0)


def test_seconds_are_kept_within_their_field(disk):
    index = open_index(disk)
    index.put([(1, 100, T0), (1, 200, T0 - 5000), (1, 300, T0 + (1 << 42))])
    assert index.lookup(1, *ALL) == [300, 200, 100]


def test_checkpointed_keys_are_found_after_opening_and_more_can_be_added(disk):
    index = open_index(disk)
    put = entries(350)
    index.put(put)
    checkpoint(index)
    again = open_index(disk)
    more = entries(50, first=350)
    again.put(more)
    assert again.lookup(7, *ALL) == expected(put + more, 7)
    assert again.entries == 400


def test_putting_again_what_is_there_adds_nothing(disk):
    index = open_index(disk)
    put = entries(350)
    index.put(put)
    checkpoint(index)
    again = open_index(disk)
    again.put(put[100:])
    again.put(entries(1, first=350))
    assert again.entries == 351


def test_full_files_are_followed_by_new_ones_and_all_are_searched(disk):
    small = LogSettings(segment_bytes=4096, index_slots=16, index_entries=8)
    index = open_index(disk, small)
    put = [(n % 3, 1000 + n, T0) for n in range(30)]
    for entry in put:
        index.put([entry])
    assert [index.lookup(key, *ALL) for key in range(3)] == [expected(put, key) for key in range(3)]
    checkpoint(index)
    assert len(disk.listdir("/index")) == 5
    assert index.lookup(1, *ALL) == expected(put, 1)
    again = open_index(disk, small)
    assert again.lookup(1, *ALL) == expected(put, 1)
    again.put([(1, 5000, T0)])
    assert again.lookup(1, *ALL) == [5000, *expected(put, 1)]
    assert again.delete_before(1007 + 1) == 1
    assert len(disk.listdir("/index")) == 4
    assert again.delete_before(1 << 60) == 3
    assert again.lookup(1, *ALL) == [5000, 1028]


def test_an_unsaved_full_file_is_repaired_by_putting_again(disk):
    small = LogSettings(segment_bytes=4096, index_slots=16, index_entries=8)
    index = open_index(disk, small)
    put = [(n % 3, 1000 + n, T0) for n in range(20)]
    index.put(put[:3])
    checkpoint(index)
    index.put(put[3:])
    for state in disk.crash_states(60):
        again = open_index(state, small)
        again.put([entry for entry in put if entry[1] >= 1003])
        assert [again.lookup(key, *ALL) for key in range(3)] == [expected(put, key) for key in range(3)]


def test_every_crash_state_of_a_checkpoint_keeps_the_chains_of_the_one_before(disk):
    put = entries(40, spread=5)
    index = open_index(disk)
    index.put(put[:20])
    checkpoint(index)
    index.put(put[20:])
    jobs = index.checkpoint()
    for job in jobs:
        job()
        for state in disk.crash_states(40):
            again = open_index(state)
            again.put([entry for entry in put if entry[1] > put[19][1]])
            assert [again.lookup(key, *ALL) for key in range(5)] == [expected(put, key) for key in range(5)]


def test_a_second_crash_does_not_follow_entries_that_were_overwritten_after_the_first(disk):
    put = entries(40, spread=5)
    index = open_index(disk)
    index.put(put[:20])
    checkpoint(index)
    index.put(put[20:])
    first_job = next(index.checkpoint())
    first_job()  # slots are on the disk, the header is not
    files = disk.killed()
    again = open_index(files)
    other = [(key + 60, position, store_ms) for key, position, store_ms in put[20:]]
    again.put(other)
    again._live[1].flush_entries()
    for state in files.crash_states(60):
        last = open_index(state)
        assert [last.lookup(key, *ALL) for key in range(5)] == [expected(put[:20], key) for key in range(5)]


def test_every_step_of_a_second_checkpoint_may_be_the_last(disk):
    put = [
        (500 * key, position, store_ms) for key, position, store_ms in entries(40, spread=5)
    ]  # in other sectors
    for step in range(9):
        files = type(disk)()
        index = open_index(files)
        index.put(put[:20])
        checkpoint(index)
        index.put(put[20:])
        files.crash_after = step
        with contextlib.suppress(Crashed):
            checkpoint(index)
        files.crash_after = None
        for state in files.crash_states(60, seed=step):
            again = open_index(state)
            again.put([entry for entry in put if entry[1] > put[19][1]])
            assert [again.lookup(500 * key, *ALL) for key in range(5)] == [
                expected(put, 500 * key) for key in range(5)
            ]


def test_every_step_of_a_first_checkpoint_may_be_the_last(disk):
    for step in range(12):
        files = type(disk)()
        index = open_index(files)
        put = entries(40, spread=5)
        index.put(put)
        files.crash_after = step
        with contextlib.suppress(Crashed):
            checkpoint(index)
        files.crash_after = None
        for state in files.crash_states(30, seed=step):
            again = open_index(state)
            again.put(put)
            assert [again.lookup(key, *ALL) for key in range(5)] == [expected(put, key) for key in range(5)]


def test_a_failed_checkpoint_is_repeated_whole(disk):
    index = open_index(disk)
    put = entries(350)
    index.put(put)
    disk.faults.append(Fault("pwrite", errno.ENOSPC, "index", skip=1))
    with pytest.raises(OSError, match="injected"):
        checkpoint(index)
    checkpoint(index)
    assert open_index(disk).lookup(7, *ALL) == expected(put, 7)


def test_entries_that_cannot_be_written_stay_in_memory(disk):
    sizes = LogSettings(segment_bytes=4096, index_slots=64, index_entries=100_000)
    index = open_index(disk, sizes)
    put = entries(3500)
    disk.faults.append(Fault("pwrite", errno.ENOSPC, "index"))
    index.put(put)
    assert index.write_failures == 1
    assert index.lookup(7, *ALL) == expected(put, 7)
    more = entries(10, first=3500)
    index.put(more)
    assert ("pwrite", f"/index/{disk.listdir('/index')[0]}") in disk.trace
    assert index.lookup(7, *ALL) == expected(put + more, 7)


def test_entries_without_a_file_wait_for_one_and_no_checkpoint_passes_them(disk):
    index = open_index(disk)
    put = entries(20)
    disk.faults.append(Fault("open", errno.ENOSPC, "index", count=3))
    index.put(put[:10])
    index.put(put[10:])
    assert index.lookup(7, *ALL) == []
    with pytest.raises(OSError, match="no file could be made"):
        checkpoint(index)
    assert index.write_failures == 3
    checkpoint(index)
    assert open_index(disk).lookup(7, *ALL) == expected(put, 7)


def test_after_a_foreign_crash_files_newer_than_its_checkpoint_are_dropped(disk):
    small = LogSettings(segment_bytes=4096, index_slots=16, index_entries=8)
    index = open_index(disk, small)
    index.put([(1, 1000 + n, T0 + 1000 * n) for n in range(12)])
    checkpoint(index)
    again = open_index(disk, small, newest_ms_max=T0 + 6000)
    assert again.lookup(1, *ALL) == list(range(1006, 999, -1))
    assert len(disk.listdir("/index")) == 1


@pytest.mark.parametrize(
    ("at", "value"),
    [(36, 1 << 30), (36, -5), (32, 900), (24, -1)],
    ids=["too many", "negative", "slots", "position"],
)
def test_a_file_whose_header_cannot_be_true_is_dropped_to_be_rebuilt(disk, at, value):
    index = open_index(disk)
    index.put(entries(350))
    checkpoint(index)
    path = f"/index/{disk.listdir('/index')[0]}"
    disk.write_at(path, at, value.to_bytes(8 if at == 24 else 4, "big", signed=True))
    assert open_index(disk).end_position == -1
    assert disk.listdir("/index") == []


def test_a_file_that_was_cut_is_dropped_to_be_rebuilt(disk):
    index = open_index(disk)
    index.put(entries(350))
    checkpoint(index)
    disk.open(f"/index/{disk.listdir('/index')[0]}").truncate(20_000)
    assert open_index(disk).end_position == -1


def test_a_chain_that_runs_in_a_circle_ends(disk):
    index = open_index(disk)
    index.put([(1, 100, T0), (1, 200, T0)])
    checkpoint(index)
    path = f"/index/{disk.listdir('/index')[0]}"
    disk.write_at(path, 40 + 2500 * 4 + 20, INDEX_ENTRY.pack(1, 100, 0, 2))
    assert open_index(disk).lookup(1, *ALL) == [200, 100]
    disk.write_at(path, 40 + 4, (9999).to_bytes(4, "big"))
    assert open_index(disk).lookup(1, *ALL) == []


def test_a_chain_is_followed_up_to_a_bound(disk, monkeypatch):
    monkeypatch.setattr("broker_store.log.index.index_file.CHAIN_STEPS_MAX", 3)
    index = open_index(disk)
    index.put([(1, 100 * n, T0) for n in range(1, 6)])
    assert index.lookup(1, *ALL) == [500, 400, 300]


def test_foreign_names_are_left_alone_and_destroying_removes_all(disk):
    index = open_index(disk)
    checkpoint(index)
    index.put(entries(5))
    checkpoint(index)
    disk.open("/index/notes.txt", 0)
    again = open_index(disk)
    assert again.lookup(1, *ALL) == [1100]
    again.destroy()
    assert disk.listdir("/index") == []
    assert again.lookup(1, *ALL) == []
    assert again.end_position == -1


def test_five_million_slots_cost_memory_only_when_touched(tmp_path):
    index = open_index(RealFiles(), LogSettings(), directory=str(tmp_path / "index"))
    before = _resident()
    index.put([(n, 100 * n, T0) for n in range(1000)])
    assert _resident() - before < 4 << 20
    checkpoint(index)
    (name,) = [path.name for path in (tmp_path / "index").iterdir()]
    assert (tmp_path / "index" / name).stat().st_size == IndexFile.file_bytes(LogSettings()) == 420_000_040
    assert (tmp_path / "index" / name).stat().st_blocks * 512 < 1 << 20
    again = open_index(RealFiles(), LogSettings(), directory=str(tmp_path / "index"))
    assert again.lookup(999, *ALL) == [99_900]


def _resident():
    statm = Path("/proc/self/statm").read_text()
    return int(statm.split()[1]) * os.sysconf("SC_PAGESIZE")
