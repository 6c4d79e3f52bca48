"""The state a run leaves for the next one, and when it is valid."""

import contextlib
import errno
import os

import pytest

from broker_store.log.checkpoint.checkpoint import Checkpoint
from broker_store.log.checkpoint.checkpoint_file import NO_TIMES, CheckpointFile, Times
from broker_store.log.checkpoint.log_note import LogNote, LogNoteFile, RunStatus
from broker_store.log.files.simulated_files import Crashed, Fault, SimulatedFiles

TIMES = Times(5000, 4000, 6000)
ROOT = "/store"


def opened(files):
    files.make_dirs(ROOT)
    return Checkpoint(files, ROOT, os.urandom)


def ran(files, close=False):
    checkpoint = opened(files)
    checkpoint.begin(77)
    checkpoint.write(1000, 1500, 1400, TIMES)
    checkpoint.write_confirm(1450)
    if close:
        checkpoint.close(1600, Times(9000, 9000, 9000))
    return checkpoint


def test_the_checkpoint_file_is_rocketmqs(disk):
    ran(disk)
    content = disk.read_bytes(f"{ROOT}/checkpoint")
    assert len(content) == 4096
    assert [int.from_bytes(content[at : at + 8], "big") for at in range(0, 40, 8)] == [
        5000,
        4000,
        6000,
        0,
        1450,
    ]
    assert not any(content[40:])


def test_recovery_by_times_starts_three_seconds_before_the_oldest_of_log_queues_and_index():
    assert TIMES.safe_ms == 1000
    assert Times(9000, 9000, 5000).safe_ms == 2000
    assert NO_TIMES.safe_ms == 0


def test_a_new_directory_holds_nothing_to_trust(disk):
    last = opened(disk).last
    assert (last.is_clean, last.confirm, last.position, last.end) == (True, 0, None, None)
    assert last.foreign


def test_a_clean_stop_is_trusted_completely(disk):
    ran(disk, close=True)
    checkpoint = opened(disk)
    last = checkpoint.last
    assert (last.is_clean, last.foreign, last.confirm, last.position, last.end) == (
        True,
        "",
        1600,
        1600,
        1600,
    )
    assert last.times == Times(9000, 9000, 9000)
    assert checkpoint.position == 1600
    assert not disk.exists(f"{ROOT}/abort")


def test_a_crash_is_recovered_from_the_checkpoint_with_the_newest_confirm_offset(disk):
    ran(disk)
    last = opened(disk).last
    assert (last.is_clean, last.foreign, last.confirm, last.position, last.end) == (
        False,
        "",
        1450,
        1000,
        None,
    )


def test_a_power_cut_leaves_the_confirm_offset_of_the_last_checkpoint_or_a_later_one(disk):
    ran(disk)
    assert {opened(state).last.confirm for state in disk.crash_states(50)} == {1400, 1450}


def test_the_abort_file_names_the_process_and_a_clean_stop_removes_it(disk):
    checkpoint = ran(disk)
    assert disk.read_bytes(f"{ROOT}/abort").startswith(b"77\n")
    checkpoint.close(1600, TIMES)
    assert disk.read_bytes(f"{ROOT}/abort") is None


def test_a_clean_stop_is_durable_when_it_has_returned(disk):
    ran(disk, close=True)
    for state in disk.crash_states(50):
        assert not state.exists(f"{ROOT}/abort")
        assert opened(state).last.is_clean


def test_a_run_begins_on_a_full_disk_by_freeing_the_ballast(disk):
    ran(disk, close=True)
    reserve = disk.open(f"{ROOT}/gantry/reserve", 0)
    reserve.zero(0, 65536)
    disk.capacity -= disk.free_bytes(ROOT)
    opened(disk).begin(78)
    assert not disk.exists(f"{ROOT}/gantry/reserve")
    assert disk.read_bytes(f"{ROOT}/abort").startswith(b"78\n")


def test_another_error_at_the_beginning_is_not_hidden(disk):
    checkpoint = opened(disk)
    disk.faults.append(Fault("pwrite", errno.EIO))
    with pytest.raises(OSError, match="injected"):
        checkpoint.begin(78)


def test_every_step_of_a_run_may_be_its_last_and_is_not_taken_for_a_foreign_writer():
    probe = SimulatedFiles()
    ran(probe, close=True)
    opened(probe).begin(78)
    for step in range(len(probe.trace)):
        files = SimulatedFiles()
        checkpoint = ran(files, close=True)
        checkpoint = opened(files)
        files.crash_after = step
        with contextlib.suppress(Crashed):
            checkpoint.begin(78)
            checkpoint.write(2000, 2500, 2400, Times(1, 2, 3))
            checkpoint.close(2600, Times(4, 5, 6))
        files.crash_after = None
        for state in files.crash_states(60, seed=step):
            again = opened(state)
            assert again.last.foreign == ""
            assert again.last.position in (1600, 2000, 2600)
            assert again.last.confirm >= again.last.position
            assert again.log_id == checkpoint.log_id


def foreign(change):
    files = SimulatedFiles()
    checkpoint = ran(files, close=change.__name__.startswith("clean"))
    change(files)
    last = opened(files).last
    assert checkpoint.log_id
    return last


def clean_then_other_times(files):
    files.write_at(f"{ROOT}/checkpoint", 0, (12345).to_bytes(8, "big"))


def clean_then_lower_confirm(files):
    files.write_at(f"{ROOT}/checkpoint", 32, (5).to_bytes(8, "big"))


def clean_then_foreign_crash(files):
    files.replace_atomically(f"{ROOT}/abort", b"4711")


def crash_then_foreign_clean_stop(files):
    files.remove(f"{ROOT}/abort")


def crash_then_foreign_crash(files):
    files.replace_atomically(f"{ROOT}/abort", b"")


def crash_then_other_log_id(files):
    files.replace_atomically(f"{ROOT}/gantry/logId", b"0" * 32 + b"\n")


@pytest.mark.parametrize(
    "change",
    [
        clean_then_other_times, clean_then_lower_confirm, clean_then_foreign_crash,
        crash_then_foreign_clean_stop, crash_then_foreign_crash, crash_then_other_log_id,
    ],
)  # fmt: skip
def test_a_foreign_writer_invalidates_the_confirm_offset(change):
    last = foreign(change)
    assert last.foreign
    assert last.confirm == 0
    assert last.position in (1000, 1600), "still a hint where to begin"


def test_a_foreign_log_is_ours_once_a_run_of_gantry_has_begun(disk):
    ran(disk)
    disk.remove(f"{ROOT}/abort")
    checkpoint = opened(disk)
    assert checkpoint.last.foreign
    checkpoint.begin(1)
    again = opened(disk)
    assert again.last.foreign == ""
    assert again.last.confirm == 0


def test_a_lost_or_damaged_log_id_is_taken_from_the_note(disk):
    checkpoint = ran(disk)
    for content in (None, b"nonsense"):
        if content is None:
            disk.remove(f"{ROOT}/gantry/logId")
        else:
            disk.replace_atomically(f"{ROOT}/gantry/logId", content)
        assert opened(disk).log_id == checkpoint.log_id


def test_a_lost_directory_of_ours_makes_a_new_log_id(disk):
    checkpoint = ran(disk)
    disk.remove_dir(f"{ROOT}/gantry")
    again = opened(disk)
    assert again.log_id != checkpoint.log_id
    assert again.position == 0
    assert not again.last.is_clean


def test_a_torn_note_leaves_the_previous_one(disk):
    disk.make_dirs("/x")
    file = LogNoteFile(disk, "/x/note")
    assert file.note is None
    for end in (1, 2, 3):
        file.write(LogNote(RunStatus.RUNNING, b"i" * 16, b"t" * 16, end=end))
    assert file.note.end == 3
    disk.flip("/x/note", 4096 + 40, 0xFF)  # generation 3 lies in the second slot
    assert LogNoteFile(disk, "/x/note").note.end == 2
    disk.flip("/x/note", 40, 0xFF)
    assert LogNoteFile(disk, "/x/note").note is None
    file.close()


def test_the_note_has_the_bytes_the_document_draws(disk):
    disk.make_dirs("/x")
    file = LogNoteFile(disk, "/x/note")
    file.write(
        LogNote(RunStatus.STOPPED_CLEANLY, b"i" * 16, b"t" * 16, 1, 2, 3, Times(4, 5, 6), Times(7, 8, 9))
    )
    content = disk.read_bytes("/x/note")
    expected = b"GLN1" + (3).to_bytes(4, "big") + (1).to_bytes(8, "big") + b"i" * 16 + b"t" * 16
    expected += b"".join(number.to_bytes(8, "big") for number in range(1, 10))
    assert content[4096 : 4096 + len(expected)] == expected
    assert len(content) == 8192


def test_the_checkpoint_file_can_be_read_alone(disk):
    disk.make_dirs("/x")
    file = CheckpointFile(disk, "/x/checkpoint")
    file.write_times(TIMES)
    file.write_confirm(42)
    file.sync()
    file.close()
    assert CheckpointFile(disk, "/x/checkpoint").read() == (TIMES, 42)
