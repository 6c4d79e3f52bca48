import pytest

from broker_store.groups.locks.lock_file import LockFile
from broker_store.log.files.simulated_files import SimulatedFiles

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
