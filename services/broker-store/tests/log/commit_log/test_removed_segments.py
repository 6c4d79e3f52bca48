"""A segment that another program removed, moved or replaced stops the log: its content ends with the process."""

import shutil

import pytest

from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.errors import LogStopped
from broker_store.log.files.real_files import RealFiles

FIRST = "0" * 20


def _remove_directory(directory, path):
    shutil.rmtree(directory)


def _remove_file(directory, path):
    path.unlink()


def _remove_file_that_a_snapshot_links(directory, path):
    path.with_name("link").hardlink_to(path)
    path.unlink()


def _replace_file(directory, path):
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def _move_directory(directory, path):
    directory.rename(directory.with_name("elsewhere"))


def _put_file_for_directory(directory, path):
    shutil.rmtree(directory)
    directory.write_bytes(b"")


@pytest.mark.parametrize(
    "harm",
    [
        _remove_directory,
        _remove_file,
        _remove_file_that_a_snapshot_links,
        _replace_file,
        _move_directory,
        _put_file_for_directory,
    ],
)
def test_a_segment_that_lost_its_name_stops_the_log_with_a_reason(
    harm, tmp_path, small, open_log, put, commit
):
    directory = tmp_path / "commitlog"
    log = open_log(RealFiles(), small, str(directory))
    try:
        put(log, b"before")
        end = commit(log)
        harm(directory, directory / FIRST)
        put(log, b"never acknowledged")
        log.write()
        with pytest.raises(LogStopped, match=f"{FIRST} was removed, moved or replaced by another program"):
            log.check_names(log.sync())
        assert (log.state, log.confirm) == (LogState.STOPPED, end)
        assert log.read(0, end)  # what was acknowledged can still be saved
        with pytest.raises(LogStopped, match="put the file back, then restart"):
            put(log, b"refused")
    finally:
        log.close()


def test_a_segment_that_retention_deletes_before_its_flush_stops_nothing(tmp_path, small, open_log, put):
    files = RealFiles()
    log = open_log(files, small, str(tmp_path / "commitlog"))
    try:
        for _ in range(3):
            put(log, b"." * 2500)
        log.write()
        log.set_visible(log.written_end, log.written_end)
        files.remove(log.drop_first_segment())
        log.check_names(log.sync())
        log.set_confirm(log.durable_end)
        assert log.confirm == log.written_end
        assert log.state is LogState.RUNNING
    finally:
        log.close()


def test_a_segment_that_was_filled_and_confirmed_between_two_checks_is_checked(
    tmp_path, small, open_log, put, commit
):
    directory = tmp_path / "commitlog"
    log = open_log(RealFiles(), small, str(directory))
    try:
        put(log, b"checked")
        log.check_names(commit(log))
        (directory / FIRST).unlink()
        for _ in range(3):
            put(log, b"." * 2500)
            end = commit(log)
        assert len(log.segments) > 1
        with pytest.raises(LogStopped, match=f"{FIRST} was removed"):
            log.check_names(end)
    finally:
        log.close()
