"""The simulated disk itself: it must allow what a real one may do, and nothing more."""

import errno

import pytest

from broker_store.log.files.simulated_files import Crashed, Fault, SimulatedFiles


def contents(files, path="/d/f"):
    return {bytes(state.read_bytes(path) or b"-") for state in files.crash_states(10_000)}


@pytest.fixture
def file(disk):
    disk.make_dirs("/d")
    file = disk.open("/d/f", 0)
    disk.sync_dir("/d")
    file.sync()
    return file


def test_each_sector_is_old_or_new_by_itself(disk, file):
    file.pwrite(b"a" * 1024, 0)
    file.sync()
    file.pwrite(b"b" * 1024, 0)
    assert contents(disk) == {x * 512 + y * 512 for x in (b"a", b"b") for y in (b"a", b"b")}
    file.sync()
    assert contents(disk) == {b"b" * 1024}


def test_a_sector_may_be_as_after_any_of_several_writes(disk, file):
    for byte in (b"a", b"b", b"c"):
        file.pwrite(byte * 10, 0)
    assert contents(disk) == {b"-", bytes(10), b"a" * 10, b"b" * 10, b"c" * 10}


def test_names_may_be_lost_until_their_directory_is_synced(disk, file):
    disk.open("/d/g", 3)
    disk.rename("/d/f", "/d/h")
    names = {tuple(state.listdir("/d")) for state in disk.crash_states(1000)}
    assert names == {("f",), ("f", "g"), ("g", "h")}
    disk.sync_dir("/d")
    assert {tuple(state.listdir("/d")) for state in disk.crash_states(1000)} == {("g", "h")}


def test_kill_keeps_everything_written(disk, file):
    file.pwrite(b"abc", 0)
    disk.open("/d/g", 3)
    files = disk.killed()
    assert files.read_bytes("/d/f") == b"abc"
    assert files.listdir("/d") == ["f", "g"]


def test_a_sample_of_many_states_holds_both_extremes(disk, file):
    file.pwrite(b"a" * 512 * 40, 0)
    states = [state.read_bytes("/d/f") for state in disk.crash_states(50)]
    assert len(states) == 50
    assert b"" in states
    assert b"a" * 512 * 40 in states
    assert len(set(states)) > 20


def test_after_a_failed_sync_the_device_has_nothing_and_a_later_sync_does_not_help(disk, file):
    file.pwrite(b"lost", 0)
    disk.faults.append(Fault("sync", errno.EIO))
    with pytest.raises(OSError, match="injected"):
        file.sync()
    assert file.pread(4, 0) == b"lost"
    file.sync()
    file.drop_cached(0, 4)
    assert file.pread(4, 0) != b"lost"


def test_dirty_pages_are_not_dropped(disk, file):
    file.pwrite(b"dirty", 0)
    file.drop_cached(0, 5)
    assert file.pread(5, 0) == b"dirty"


def test_a_full_disk_accepts_what_fits_and_reports_the_rest():
    disk = SimulatedFiles(capacity=8192)
    disk.make_dirs("/d")
    file = disk.open("/d/f", 1 << 20)
    file.pwrite(b"x" * 4096, 0)
    with pytest.raises(OSError, match="no space") as raised:
        file.pwrite(b"y" * 8192, 6000)
    assert raised.value.errno == errno.ENOSPC
    assert file.pread(8192, 4096)[1904:4096] == b"y" * 2192
    assert disk.free_bytes("/d") == 0
    with pytest.raises(OSError, match="no space"):
        file.pwrite(b"z", 50_000)
    file.truncate(0)
    assert disk.free_bytes("/d") == disk.total_bytes("/d") == 8192


def test_a_disk_that_holds_more_than_its_capacity_is_full():
    disk = SimulatedFiles()
    disk.make_dirs("/d")
    file = disk.open("/d/f", 1 << 20)
    file.pwrite(b"x" * 12_288, 0)
    assert disk.used_bytes() == 12_288
    disk.capacity = 4096
    with pytest.raises(OSError, match="no space"):
        file.pwrite(b"y", 20_000)
    assert disk.free_bytes("/d") == 0


def test_faults_fire_as_often_as_configured(disk, file):
    disk.faults.append(Fault("pwrite", errno.EIO, "/d/f", skip=1, count=2))
    file.pwrite(b"1", 0)
    for _ in range(2):
        with pytest.raises(OSError, match="injected"):
            file.pwrite(b"2", 0)
    file.pwrite(b"3", 0)


def test_power_goes_after_so_many_steps(disk, file):
    disk.crash_after = 1
    file.pwrite(b"1", 0)
    with pytest.raises(Crashed):
        file.sync()


def test_a_missing_client_is_an_error(disk):
    for call in (
        lambda: disk.open("/d/f"),
        lambda: disk.open("/none/f", 1),
        lambda: disk.size("/x"),
        lambda: disk.link("/a", "/b/c"),
    ):
        with pytest.raises(FileNotFoundError):
            call()
    assert disk.read_bytes("/x") is None
    disk.remove("/x")


def test_sparse_files_report_where_data_may_be(disk, file):
    file.truncate(100_000)
    assert file.next_data(0) is None
    file.pwrite(b"x", 50_000)
    assert file.next_data(0) <= 50_000
    assert file.next_data(0) + 4096 > 50_000
    assert file.next_data(60_000) is None
    assert file.size() == 100_000
    file.close()


def test_a_whole_disk_can_be_synced_at_once(disk, file):
    file.pwrite(b"abc", 0)
    disk.open("/d/g", 3)
    disk.sync_all("/d")
    (state,) = disk.crash_states(10)
    assert (state.listdir("/d"), state.read_bytes("/d/f")) == (["f", "g"], b"abc")


def test_times_of_files_can_be_set(disk, file):
    disk.set_modified_ms("/d/f", 5)
    assert disk.modified_ms("/d/f") == disk.killed().modified_ms("/d/f") == 5
