"""An index file that becomes full while a checkpoint writes it: the thread has its pages, the loop adds the last entries."""

import pytest

from broker_store.log.index import index as index_module
from broker_store.log.index.index import IndexFiles
from broker_store.log.settings import LogSettings

T0 = 1_700_000_000_000
ALL = (0, 1 << 60, 1000)
SIZES = LogSettings(segment_bytes=4096, index_slots=16, index_entries=8)


def open_index(files, sizes=SIZES):
    index = IndexFiles(files, "/index", sizes)
    index.load()
    return index


def entries(first, count):
    return [(n % 5, 1000 + n, T0) for n in range(first, first + count)]


def found_in(index, keys=range(5)):
    return sorted((key, position) for key in keys for position in index.lookup(key, *ALL))


@pytest.mark.parametrize("job", range(2))
def test_a_file_that_fills_during_a_checkpoint_keeps_what_came_meanwhile(disk, job):
    index = open_index(disk)
    index.put(entries(0, 3))
    for number, write in enumerate(index.checkpoint()):
        if number == job:  # the loop runs beside the thread: the file becomes full, and the next one begins
            index.put(entries(3, 6))
        write()
    wanted = sorted((key, position) for key, position, _ in entries(0, 9))
    assert found_in(index) == wanted
    assert index.entries == 9
    for write in index.checkpoint():
        write()
    again = open_index(disk)
    assert found_in(again) == wanted
    assert again.entries == 9


def test_a_crash_after_that_loses_nothing_of_the_checkpoint(disk, monkeypatch):
    """Slots taken after the last entries lead to them, and the header does not count them yet."""
    monkeypatch.setattr(index_module, "_PAGES_PER_SLICE", 1)
    sizes = LogSettings(segment_bytes=4096, index_slots=2048, index_entries=8)
    index = open_index(disk, sizes)
    put = [(key, 1000 + number, T0) for number, key in enumerate((1, 1500, 1, 1500, 1500, 1, 1500, 1, 1500))]
    index.put(put[:3])
    for number, write in enumerate(index.checkpoint()):
        if number == 0:
            index.put(put[3:])
        write()
    covered = open_index(disk, sizes)
    assert found_in(covered, (1, 1500)) == sorted((key, position) for key, position, _ in put[:3])
    covered.put(put)
    assert found_in(covered, (1, 1500)) == sorted((key, position) for key, position, _ in put)
