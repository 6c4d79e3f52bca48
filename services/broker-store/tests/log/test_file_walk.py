"""Where the log of a stopped store ends, read from its files alone."""

import os

import pytest

from broker_store.log.file_walk import log_end
from broker_store.log.files.real_files import RealFiles


@pytest.fixture
def stored(mini, tmp_path):
    """A store of several segments: its directory of segments, and the positions of its messages."""
    store = mini(RealFiles(), directory=str(tmp_path)).open()
    for number in range(90):
        store.send(b"body %d" % number)
    end = store.log.written_end
    store.close()
    return tmp_path / "commitlog", end


def test_the_end_is_behind_the_last_record_wherever_the_walk_begins(stored):
    folder, end = stored
    segments = sorted(folder.iterdir())
    assert len(segments) > 2
    for start in (0, int(segments[1].name), end):
        assert log_end(folder, start) == end


def test_a_record_that_is_not_whole_is_no_part_of_the_log(stored):
    folder, end = stored
    last = max(path for path in folder.iterdir() if int(path.name) < end)
    with last.open("r+b") as file:
        file.seek(end - 1 - int(last.name))
        file.write(b"\xff")
    assert log_end(folder, 0) < end


def test_nothing_counts_behind_a_gap(stored):
    folder, _ = stored
    first, second, *_ = sorted(folder.iterdir())
    os.truncate(first, 0)
    os.truncate(first, int(second.name))
    assert log_end(folder, 0) == 0
    second.rename(folder / "away")
    assert log_end(folder, 0) == 0


def test_retention_may_have_removed_what_the_checkpoint_confirmed(stored):
    folder, end = stored
    first, second, *_ = sorted(folder.iterdir())
    first.unlink()
    assert log_end(folder, 0) == end
    assert log_end(folder, int(second.name)) == end


def test_an_empty_folder_ends_where_the_confirmed_log_does(tmp_path):
    assert log_end(tmp_path, 0) == 0
    assert log_end(tmp_path, 7) == 7
