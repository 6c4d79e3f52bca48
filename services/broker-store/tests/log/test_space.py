"""A full disk: refused in time, bridged by the ballast, healed by itself."""

import errno

import pytest

from broker_store.log.commit_log.commit_log import CommitLog, LogState
from broker_store.log.files.simulated_files import Fault, SimulatedFiles
from broker_store.log.settings import LogSettings
from broker_store.log.space import HEALED_MARGIN_BYTES, Space

BLOCK = 4096
SIZES = LogSettings(segment_bytes=BLOCK, prezero_bytes=0, free_bytes_min=10 * BLOCK, reserve_bytes=4 * BLOCK)


@pytest.fixture
def disk():
    files = SimulatedFiles(capacity=100 * BLOCK)
    for directory in ("/store/gantry", "/store/commitlog"):
        files.make_dirs(directory)
    return files


@pytest.fixture
def log(disk):
    return CommitLog(disk, "/store/commitlog", SIZES, lambda _: [], lambda *_: None, None)


def test_the_ballast_is_made_once_and_takes_its_blocks(disk, log):
    space = Space(disk, "/store", log)
    assert space.check() is LogState.RUNNING
    assert space.has_ballast
    assert disk.free_bytes("/store") == 96 * BLOCK
    steps = len(disk.trace)
    space.check()
    assert len(disk.trace) == steps


def test_sends_are_refused_below_the_minimum_and_the_ballast_is_given_up(disk, log):
    space = Space(disk, "/store", log)
    space.check()
    disk.capacity = 13 * BLOCK
    assert space.check() is LogState.DISK_FULL
    assert not space.has_ballast


def test_it_heals_when_space_for_ballast_and_margin_has_returned(disk, log):
    space = Space(disk, "/store", log)
    disk.capacity = 9 * BLOCK
    assert space.check() is LogState.DISK_FULL
    disk.capacity = 14 * BLOCK + HEALED_MARGIN_BYTES - BLOCK
    assert space.check() is LogState.DISK_FULL
    disk.capacity += BLOCK
    assert space.check() is LogState.RUNNING
    assert space.has_ballast


def test_a_write_that_met_the_end_of_the_disk_frees_the_ballast_at_the_next_check(disk, log):
    space = Space(disk, "/store", log)
    space.check()
    log.mark_disk_full(full=True)
    assert space.check() is LogState.DISK_FULL
    assert not space.has_ballast


def test_space_lost_while_the_ballast_is_made_keeps_sends_refused(disk, log):
    space = Space(disk, "/store", log)
    disk.capacity = 9 * BLOCK
    space.check()
    disk.capacity = 20 * BLOCK + HEALED_MARGIN_BYTES
    disk.faults.append(Fault("pwrite", errno.ENOSPC, "reserve"))
    assert space.check() is LogState.DISK_FULL
    assert not disk.exists("/store/gantry/reserve")
    assert space.check() is LogState.RUNNING


def test_with_too_little_space_for_a_ballast_sends_continue_without(disk, log):
    disk.capacity = 12 * BLOCK
    space = Space(disk, "/store", log)
    assert space.check() is LogState.RUNNING
    assert not space.has_ballast


def test_a_stopped_log_stays_stopped(disk, log):
    space = Space(disk, "/store", log)
    log._stop_on(OSError(errno.EIO, "bad"))
    assert space.check() is LogState.STOPPED
