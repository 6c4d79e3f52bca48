"""The log of one process is read whole and in order while its file is rotated, truncated or deleted."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_launcher.processes import tail as module
from gantry_launcher.processes.tail import Tail


def test_lines_come_once_and_a_half_line_waits_for_its_end(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "logs" / "one.log")
    writing = tail.open_for_process()
    os.write(writing, b"one\ntw")
    assert tail.lines() == [b"one"]
    os.write(writing, b"o\n")
    assert (tail.lines(), tail.lines()) == ([b"two"], [])
    os.write(writing, b"last")
    assert tail.last_words() == [b"last"]
    os.close(writing)
    tail.close()


def test_what_an_earlier_system_said_is_kept_and_not_said_again(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    log.write_bytes(b"before\n")
    tail = Tail(log)
    for words in (b"first start\n", b"second start\n"):
        writing = tail.open_for_process()
        os.write(writing, words)
        os.close(writing)
    assert tail.lines() == [b"first start", b"second start"]
    assert log.read_bytes() == b"before\nfirst start\nsecond start\n"
    tail.close()


STEPS = st.lists(st.sampled_from(["write", "move aside", "read", "empty"]), max_size=40)


@given(steps=STEPS)
def test_no_line_is_missed_or_doubled_when_the_file_is_moved_aside_or_emptied(
    tmp_path_factory, steps
) -> None:
    """Holds if the file is read between two rotations, as a file of 8 MiB is."""
    log = tmp_path_factory.mktemp("tail") / "one.log"
    tail = Tail(log)
    os.close(tail.open_for_process())
    said, read, number = [], [], 0
    for step in [*steps, "write", "read"]:
        if step == "write":
            with log.open("ab") as file:
                file.write(f"{number}\n".encode())
            said.append(str(number).encode())
            number += 1
        elif step == "read":
            read += tail.lines() + tail.lines()
        else:
            if step == "move aside":
                log.replace(log.with_name("one.log.1"))
                log.touch()
            else:
                read += tail.lines() + tail.lines()
                tail._position = max(tail._position, module.FILE_BYTES_MAX)
                tail.empty_when_full()
            read += tail.lines() + tail.lines()
    assert read == said
    tail.close()


def test_a_file_that_its_process_does_not_move_aside_is_emptied_when_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 10)
    tail = Tail(tmp_path / "one.log")
    writing = tail.open_for_process()
    for words in (b"0123456789abc\n", b"more\n"):
        os.write(writing, words)
        assert tail.lines() == [words.rstrip()]
        tail.empty_when_full()
    assert (tmp_path / "one.log").read_bytes() == b"more\n"
    os.close(writing)
    tail.close()
