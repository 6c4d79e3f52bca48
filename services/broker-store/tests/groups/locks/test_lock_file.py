import errno
from contextlib import suppress

import pytest

from broker_store.groups.locks.lock_file import LockFile
from broker_store.log.files.simulated_files import Crashed, Fault, SimulatedFiles

PATH = "/store/gantry/locks"


@pytest.fixture
def files():
    return SimulatedFiles()


def test_the_newest_content_is_read_back(files):
    file = LockFile(files, PATH)
    assert file.load() is None
    for content in (b"first, and rather long", b"second", b"third"):
        file.save(content)
        assert LockFile(files, PATH).load() == content


def test_it_continues_where_the_last_run_ended(files):
    LockFile(files, PATH).save(b"first")
    again = LockFile(files, PATH)
    again.load()
    again.save(b"second")
    again.save(b"third")
    assert LockFile(files, PATH).load() == b"third"


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("at", [0, 5, 9, 13, 25])
def test_a_torn_or_damaged_write_leaves_the_previous_content(files, turn, at):
    file = LockFile(files, PATH)
    contents = [b"of turn 1", b"of turn 0"]
    for content in contents:
        file.save(content)
    spoiled = files.open(f"{PATH}.{turn}", create_bytes=0)
    spoiled.pwrite(b"\xff", at)
    left = LockFile(files, PATH).load()
    assert left == (b"of turn 1" if turn == 0 else b"of turn 0")


def test_a_failed_write_leaves_the_previous_content_and_the_next_one_counts(files):
    class Broken:
        def __getattr__(self, name):
            raise OSError(5, "Input/output error")

        def close(self):
            pass

    file = LockFile(files, PATH)
    file.save(b"first")
    file.save(b"second")
    file._open[1] = Broken()
    with pytest.raises(OSError, match="Input/output"):
        file.save(b"lost")
    assert LockFile(files, PATH).load() == b"second"
    file.save(b"third")
    assert LockFile(files, PATH).load() == b"third"


@pytest.mark.parametrize("steps", range(8))
def test_a_power_cut_during_the_first_save_after_a_kill_leaves_no_content_from_before(files, steps):
    file = LockFile(files, PATH)
    saved = [bytes([65 + number]) * 2000 for number in range(4)]
    for content in saved[:2]:
        file.save(content)
    files.crash_after = 1  # killed between write and sync
    with pytest.raises(Crashed):
        file.save(saved[2])
    files.crash_after = None
    again = LockFile(files, PATH)
    assert again.load() == saved[2]
    files.crash_after = steps
    with suppress(Crashed):
        again.save(saved[3])
    files.crash_after = None
    for left in files.crash_states(40):
        assert LockFile(left, PATH).load() in saved[1:]


def test_a_save_that_fails_at_what_was_found_is_repeated_and_loses_nothing(files):
    LockFile(files, PATH).save(b"first")
    again = LockFile(files, PATH)
    again.load()
    files.faults.append(Fault("sync", errno.EIO, PATH))
    with pytest.raises(OSError, match="injected"):
        again.save(b"second")
    assert LockFile(files, PATH).load() == b"first"
    again.save(b"third")
    assert [LockFile(left, PATH).load() for left in files.crash_states(8)] == [b"third"]
