"""Output of the system goes to the file, is rotated when the file is full, and never blocks a process."""

import contextlib
import fcntl
import os
import sys
import time
from pathlib import Path

import pytest

from gantry_launcher.output import lines
from gantry_launcher.output import service_log as module
from gantry_launcher.output.service_log import Output


def test_lines_reach_the_file_with_their_prefix(tmp_path: Path) -> None:
    output = Output(tmp_path / "logs" / "gantry.log", echo=False)
    output.line("broker-a", "ready")
    output.close()
    assert (tmp_path / "logs" / "gantry.log").read_text() == "broker-a   | ready\n"


def test_a_full_file_is_moved_aside_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 20)
    log = tmp_path / "gantry.log"
    output = Output(log, echo=False)
    for text in ("one", "two"):
        output._write(f"{text:>30}\n")
    output.close()
    assert (tmp_path / "gantry.log.1").read_text().strip() == "one"
    assert log.read_text().strip() == "two"


def test_a_file_that_cannot_be_moved_aside_is_written_to_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 3)
    log = tmp_path / "logs" / "gantry.log"
    output = Output(log, echo=False)
    output._write("one\n")
    log.unlink()
    log.parent.rmdir()
    output._write("lost\n")
    output.line("gantry", "three")
    output.close()
    assert log.read_text() == "gantry     | three\n"


def test_a_log_that_cannot_be_written_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    output = Output(tmp_path / "file" / "gantry.log", echo=True)
    output.line("gantry", "said all the same")
    output.close()
    assert "said all the same" in capsys.readouterr().err


def test_without_a_reader_the_oldest_lines_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "WAITING_LINES_MAX", 3)
    output = Output(tmp_path / "gantry.log", echo=False)
    with output._to_file._wake:  # the writer waits
        for number in range(10):
            output.line("trial", str(number))
    output.close()
    first, *rest = (tmp_path / "gantry.log").read_text().splitlines()
    assert first == "gantry     | 7 lines are missing here: they came faster than they could be written"
    assert rest == [f"trial      | {number}" for number in (7, 8, 9)]


def test_a_stopped_terminal_blocks_neither_the_file_nor_the_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        output = Output(tmp_path / "gantry.log", echo=True)
        for number in range(2000):
            output.line("trial", str(number))
        until = time.monotonic() + 60
        while not _read(tmp_path / "gantry.log").endswith("1999\n") and time.monotonic() < until:
            time.sleep(0.01)
        assert _read(tmp_path / "gantry.log").endswith("1999\n")
        os.close(reading)
        output.close()


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""
