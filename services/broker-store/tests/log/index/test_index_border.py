"""The border between two index files: after any end, adding entries again neither doubles nor loses one there."""

import pytest

from broker_store.log.index.index import IndexFiles
from broker_store.log.settings import LogSettings

T0 = 1_700_000_000_000
ALL = (0, 1 << 60, 1000)


def open_index(files, sizes):
    index = IndexFiles(files, "/index", sizes)
    index.load()
    return index


def checkpoint(index):
    for job in index.checkpoint():
        job()


BORDER = LogSettings(segment_bytes=4096, index_slots=16, index_entries=8)


def of_records(keys_per_record):
    """Return entries of records with several keys each. All entries of a record share its position."""
    return [(n * 31 + key, 1000 + n, T0) for n, keys in enumerate(keys_per_record) for key in range(keys)]


def found_in_all(index, put):
    return sorted(
        (key, position) for key in {key for key, _, _ in put} for position in index.lookup(key, *ALL)
    )


@pytest.mark.parametrize(
    "records", [[1] * 7, [7], [2, 2, 2, 1], [3, 3, 3], [20], [3, 3, 1, 16, 2], [1, 6, 6, 6, 1]]
)
def test_records_put_again_are_neither_doubled_nor_lost_at_the_border_of_two_files(disk, records):
    """A file that is exactly full, and a record whose keys lie in two or three files."""
    put = of_records(records)
    for whole in range(1, len(put) + 1):
        files = type(disk)()
        index = open_index(files, BORDER)
        index.put(put[:whole])  # a crash may leave the files up to any entry of a record
        checkpoint(index)
        again = open_index(files, BORDER)
        again.put(put)
        assert again.entries == len(put)
        assert found_in_all(again, put) == sorted((key, position) for key, position, _ in put)


def test_a_border_between_checkpointed_and_lost_files_is_repaired_in_every_crash_state(disk):
    put = of_records([3] * 9)
    index = open_index(disk, BORDER)
    index.put(put)
    jobs = index.checkpoint()
    for job in jobs:
        job()
        for state in disk.crash_states(30):
            again = open_index(state, BORDER)
            again.put(put)
            assert again.entries == len(put)
            assert found_in_all(again, put) == sorted((key, position) for key, position, _ in put)
