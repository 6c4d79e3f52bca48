"""The note of how far retention has deleted: it holds the old position or the new one, and never a wrong one."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.log.checkpoint.deleted_note import (
    NAME,
    POSITION_MAX,
    DeletedNote,
    decode_deleted,
    encode_deleted,
)
from broker_store.log.files.simulated_files import Crashed, Fault, SimulatedFiles

PATH = f"/store/{NAME}"


@pytest.fixture
def disk():
    files = SimulatedFiles()
    files.make_dirs("/store/gantry")
    for directory in ("/", "/store"):
        files.sync_dir(directory)
    return files


def test_the_bytes_of_the_file_stay_as_they_are():
    assert encode_deleted(1 << 30).hex() == "47444e310000000040000000" + "7b9249c2"


def test_a_directory_without_the_file_says_nothing(disk):
    assert DeletedNote(disk, "/store").position is None


def test_the_note_never_goes_back(disk):
    note = DeletedNote(disk, "/store")
    for position, noted in ((0, 0), (4096, 4096), (0, 4096), (8192, 8192)):
        note.raise_to(position)
        assert note.position == DeletedNote(disk, "/store").position == noted


def test_a_crash_at_any_step_leaves_the_old_position_or_the_new_one(disk):
    DeletedNote(disk, "/store").raise_to(4096)
    for step in range(1, 12):
        files = disk.killed()
        note = DeletedNote(files, "/store")
        files.crash_after = step
        try:
            note.raise_to(8192)
            is_durable = True
        except Crashed:
            is_durable = False
        files.crash_after = None
        for state in files.crash_states(50, seed=step):
            assert DeletedNote(state, "/store").position in ({8192} if is_durable else {4096, 8192})
    assert is_durable  # the last step was behind the end


def test_a_disk_without_room_leaves_no_note_and_stops_no_deletion(disk):
    note = DeletedNote(disk, "/store")
    note.raise_to(4096)
    disk.faults.append(Fault("pwrite", errno.ENOSPC, "gantry/deleted"))
    note.raise_to(8192)
    assert {DeletedNote(state, "/store").position for state in disk.crash_states(50)} == {None}
    disk.faults.clear()
    note.raise_to(8192)
    assert DeletedNote(disk, "/store").position == 8192


def test_a_failing_disk_is_an_error_and_the_note_stays(disk):
    note = DeletedNote(disk, "/store")
    note.raise_to(4096)
    disk.faults.append(Fault("sync", errno.EIO, "gantry/deleted"))
    with pytest.raises(OSError):
        note.raise_to(8192)
    assert note.position == DeletedNote(disk, "/store").position == 4096


@given(st.integers(0, POSITION_MAX))
def test_each_position_is_read_as_it_was_written(position):
    content = encode_deleted(position)
    assert decode_deleted(content) == position
    for cut in range(len(content)):
        assert decode_deleted(content[:cut]) is None
    assert decode_deleted(content + b"\0") is None


@given(st.integers(0, POSITION_MAX), st.integers(0, 127))
def test_a_flipped_bit_is_noticed(position, bit):
    content = bytearray(encode_deleted(position))
    content[bit // 8] ^= 1 << bit % 8
    assert decode_deleted(bytes(content)) is None
