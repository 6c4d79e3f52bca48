"""Zeros ahead of the tail: blocks exist before they are needed, and no record is ever overwritten."""

import errno
import threading
import time
from pathlib import Path

import pytest

from broker_store.log.commit_log.prezero import Prezero
from broker_store.log.commit_log.segment import open_segment
from broker_store.log.files.real_files import RealFiles
from broker_store.log.files.simulated_files import Fault, SimulatedFiles
from broker_store.log.settings import LogSettings
from gantry_chassis.machine.environment import machine

SIZES = LogSettings(segment_bytes=64 * 1024, prezero_bytes=16 * 1024, prezero_slice_bytes=4096)


class Failures(list):
    def __call__(self, error):
        self.append(error)


@pytest.fixture
def failures():
    return Failures()


def make(files, failures, sizes=SIZES, directory="/log", may_work=lambda: True):
    files.make_dirs(directory)
    prezero = Prezero(files, directory, sizes, failures, may_work)
    return prezero, open_segment(files, directory, 0, sizes.segment_bytes)


def slices(prezero):
    count = 0
    while prezero.zero_slice():
        count += 1
    return count


def test_the_stretch_ahead_is_zeroed_in_slices_and_synced(disk, failures):
    prezero, segment = make(disk, failures)
    prezero.follow(segment, 100)
    assert slices(prezero) == 5  # the first ends at a slice boundary
    assert [name for name, _ in disk.trace[-4:]] == ["pwrite", "sync"] * 2
    assert slices(prezero) == 0
    prezero.claim(9000)
    assert slices(prezero) == 2
    assert failures == []


def test_nothing_is_zeroed_below_what_the_writer_claimed(disk, failures):
    prezero, segment = make(disk, failures)
    segment.file.pwrite(b"x" * 20_000, 0)
    prezero.follow(segment, 20_000)
    prezero.claim(50_000)
    segment.file.pwrite(b"y" * 30_000, 20_000)
    slices(prezero)
    assert disk.read_bytes(segment.path)[:50_000] == b"x" * 20_000 + b"y" * 30_000


def test_the_next_segment_is_prepared_before_the_tail_reaches_it(disk, failures):
    prezero, segment = make(disk, failures)
    prezero.follow(segment, 60 * 1024)
    slices(prezero)
    assert disk.exists(f"/log/{65536:020d}")
    assert ("sync_dir", "/log") in disk.trace
    before = len(disk.trace)
    spare = prezero.take_spare(65536)
    assert (spare.start, spare.end) == (65536, 131072)
    assert len(disk.trace) == before
    prezero.claim(65536 + 100)
    assert slices(prezero) > 0


def test_a_segment_that_was_not_prepared_is_made_when_it_is_needed(disk, failures):
    prezero, segment = make(disk, failures)
    prezero.follow(segment, 100)
    assert prezero.take_spare(65536).start == 65536


def test_a_spare_of_another_place_is_forgotten(disk, failures):
    prezero, segment = make(disk, failures)
    prezero.follow(segment, 60 * 1024)
    slices(prezero)
    other = open_segment(disk, "/log", 131072, 65536)
    prezero.follow(other, 131072)
    assert prezero.take_spare(196608).start == 196608


def test_a_spare_that_still_fits_is_kept_when_the_tail_is_named_again(disk, failures):
    prezero, segment = make(disk, failures)
    prezero.follow(segment, 60 * 1024)
    slices(prezero)
    prezero.follow(segment, 60 * 1024)
    before = len(disk.trace)
    assert prezero.take_spare(65536).start == 65536
    assert len(disk.trace) == before


def test_taking_back_leaves_zeros_and_keeps_the_new_segment_as_spare(disk, failures):
    prezero, segment = make(disk, failures)
    prezero.follow(segment, 1000)
    spare = prezero.take_spare(65536)
    segment.file.pwrite(b"x" * 500, 1000)
    spare.file.pwrite(b"y" * 500, 0)
    prezero.take_back(segment, 1000, [spare])
    assert not any(disk.read_bytes(segment.path))
    assert not any(disk.read_bytes(spare.path))
    assert prezero.take_spare(65536) is spare
    prezero.take_back(segment, 1000, [])
    prezero.claim(1100)


def test_a_full_disk_ends_the_work_until_the_tail_moves(failures):
    disk = SimulatedFiles(capacity=8192)
    prezero, segment = make(disk, failures)
    prezero.follow(segment, 0)
    assert slices(prezero) == 2
    assert slices(prezero) == 0
    assert failures == []
    disk.capacity = 1 << 20
    assert slices(prezero) == 0
    prezero.claim(8000)
    assert slices(prezero) > 0


@pytest.mark.parametrize(
    ("operation", "error"), [("pwrite", errno.EIO), ("sync", errno.EIO), ("sync_dir", errno.EIO)]
)
def test_another_error_is_reported_to_the_log(disk, failures, operation, error):
    prezero, segment = make(disk, failures)
    prezero.follow(segment, 64 * 1024 - 10)
    disk.faults.append(Fault(operation, error))
    slices(prezero)
    assert len(failures) == 1


@pytest.mark.parametrize("error", [errno.EMFILE, errno.EDQUOT])
def test_lack_of_a_descriptor_or_of_quota_ends_the_work_until_the_tail_moves(disk, failures, error):
    prezero, segment = make(disk, failures)
    prezero.follow(segment, 0)
    disk.faults.append(Fault("open", error))
    assert slices(prezero) == 0
    assert failures == []
    prezero.claim(8000)
    assert slices(prezero) > 0


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_lack_of_a_descriptor_for_the_next_segment_is_not_a_failure_whichever_open_meets_it(
    disk, failures, error
):
    tries = 0
    for nth in range(8):
        directory = f"/log{nth}"
        prezero, segment = make(disk, failures, directory=directory)
        prezero.follow(segment, 60_000)  # the next segment is within the stretch ahead
        opens = sum(1 for operation, _ in disk.trace if operation == "open")
        disk.faults.append(Fault("open", error, skip=nth))
        slices(prezero)
        tries += sum(1 for operation, _ in disk.trace if operation == "open") - opens
        disk.faults.clear()
        prezero.claim(61_000 + nth)
        slices(prezero)
        assert failures == []
        assert prezero.take_spare(segment.end).start == segment.end
        prezero.close()
    assert tries >= 8


def test_it_pauses_while_the_log_may_not_take_space_and_after_closing(disk, failures):
    prezero, segment = make(disk, failures, may_work=lambda: False)
    prezero.follow(segment, 0)
    assert not prezero.zero_slice()
    prezero, segment = make(disk, failures)
    assert not prezero.zero_slice()
    prezero.follow(segment, 0)
    prezero.close()
    assert not prezero.zero_slice()


def test_segments_smaller_than_the_stretch_ahead_are_zeroed_whole(disk, failures):
    sizes = LogSettings(segment_bytes=8192, prezero_bytes=64 * 1024, prezero_slice_bytes=4096)
    prezero, segment = make(disk, failures, sizes)
    prezero.follow(segment, 0)
    slices(prezero)
    assert disk.listdir("/log") == [f"{0:020d}", f"{8192:020d}"]


def test_switched_off_there_is_no_thread(disk, failures):
    prezero, _ = make(disk, failures, LogSettings(segment_bytes=8192, prezero_bytes=0))
    prezero.start(machine().make_thread)
    assert prezero._thread is None
    prezero.close()


def test_the_writer_waits_while_a_slice_overlaps_what_it_claims(disk, failures):
    prezero, segment = make(disk, failures)
    own = prezero._own_file(segment)
    zero, entered, release, claimed = (
        own.zero,
        threading.Event(),
        threading.Event(),
        threading.Event(),
    )

    def slow_zero(start, size):
        entered.set()
        assert release.wait(10)
        zero(start, size)

    own.zero = slow_zero
    prezero.follow(segment, 0)
    worker = threading.Thread(target=prezero.zero_slice)
    worker.start()
    assert entered.wait(10)
    prezero.claim(0)  # ends before the slice: no wait

    def write():
        prezero.claim(2000)
        segment.file.pwrite(b"r" * 2000, 0)
        claimed.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert not claimed.wait(0.05)
    release.set()
    worker.join()
    writer.join()
    assert disk.read_bytes(segment.path)[:2000] == b"r" * 2000


def test_the_thread_keeps_ahead_of_a_running_tail_on_the_real_disk(tmp_path, failures):
    # The thread sleeps while half of it is left, so its last step may be that old.
    sizes = LogSettings(segment_bytes=1 << 20, prezero_bytes=256 * 1024, prezero_slice_bytes=16 * 1024)
    prezero, segment = make(RealFiles(), failures, sizes, directory=str(tmp_path))
    prezero.start(machine().make_thread)
    prezero.follow(segment, 0)
    content = b""
    for number in range(200):
        block = bytes([number + 1]) * 1500
        prezero.claim(len(content) + len(block))
        segment.file.pwrite(block, len(content))
        content += block
    deadline = time.monotonic() + 10
    while (
        Path(segment.path).stat().st_blocks * 512 < len(content) + 100 * 1024 and time.monotonic() < deadline
    ):
        time.sleep(0.005)
    prezero.close()
    assert Path(segment.path).stat().st_blocks * 512 >= len(content) + 100 * 1024
    assert segment.file.pread(len(content), 0) == content
    assert not any(segment.file.pread(1 << 20, len(content)))
    assert failures == []


def test_the_thread_begins_with_the_first_segment_of_a_new_log(tmp_path, failures):
    sizes = LogSettings(segment_bytes=1 << 20, prezero_bytes=128 * 1024, prezero_slice_bytes=16 * 1024)
    prezero = Prezero(RealFiles(), str(tmp_path), sizes, failures, lambda: True)
    prezero.start(machine().make_thread)
    segment = prezero.take_spare(0)
    prezero.claim(100)
    deadline = time.monotonic() + 10
    while Path(segment.path).stat().st_blocks * 512 < 100 * 1024 and time.monotonic() < deadline:
        time.sleep(0.005)
    prezero.close()
    assert Path(segment.path).stat().st_blocks * 512 >= 100 * 1024
    assert failures == []
