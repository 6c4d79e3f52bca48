"""Logging never waits for a reader; dropped lines are counted; a full log file is moved aside."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROLOGUE = """
import os, sys, threading
from gantry_chassis.logs import structured, writer as log_writer
"""


def run(body: str, *arguments: str, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    source = PROLOGUE + textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-c", source, *arguments],
        stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("as_json", [False, True])
def test_logging_into_an_unread_pipe_does_not_wait_and_counts_dropped_lines(as_json: bool) -> None:
    ran = run(f"""
        reading, writing = os.pipe()
        keep = os.dup(2)
        os.dup2(writing, 2)
        log_writer.WAITING_BYTES_MAX = 100_000
        writer = structured.configure("trial", json={as_json})
        for number in range(20_000):
            structured.get_logger().info("line", number=number)
        print("not held up")
        os.set_blocking(reading, False)
        said = b""
        while not writer.flush(0.01):
            try:
                said += os.read(reading, 65536)
            except BlockingIOError:
                pass
        os.dup2(keep, 2)
        said += os.read(reading, 65536)
        print(said.decode(), end="")
    """)
    first, *lines = ran.stdout.splitlines()
    assert first == "not held up"
    # The thread may take one full batch before the pipe is full, so that more than one line gives a count.
    counts = [line for line in lines if "dropped log lines here: nobody read them in time" in line]
    dropped = sum(int(count) for line in counts for count in re.findall(r'lines"?[=:](\d+)', line))
    assert dropped > 0
    assert dropped + len(lines) - len(counts) == 20_000
    assert lines[-1] == counts[-1]


def test_exit_waits_for_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    ran = run(
        """
        structured.configure("trial", file=sys.argv[1])
        for number in range(5000):
            structured.get_logger().info("line", number=number)
        print("also what is printed")
        raise ValueError("and what was not caught")
        """,
        str(log),
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 1)
    said = log.read_text()
    assert [line for line in said.splitlines() if "info    line" in line][-1].endswith("number=4999")
    assert "also what is printed\n" in said
    assert "ValueError: and what was not caught" in said
    assert log.stat().st_mode & 0o777 == 0o600


def test_an_uncaught_exception_is_one_event_after_the_lines_before_it(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    run(
        """
        structured.configure("trial", json=True, file=sys.argv[1])
        for number in range(5000):
            structured.get_logger().info("line", number=number)
        def fail():
            raise LookupError("in a thread")
        thread = threading.Thread(target=fail, name="failing")
        thread.start()
        thread.join()
        raise ValueError("in the main thread")
        """,
        str(log),
    )
    *lines, in_thread, in_main = (json.loads(line) for line in log.read_text().splitlines())
    assert [line["number"] for line in lines] == list(range(5000))
    assert (in_thread["event"], in_thread["thread"], in_thread["level"]) == (
        "uncaught exception",
        "failing",
        "error",
    )
    assert in_thread["exception"].endswith("LookupError: in a thread")
    assert (in_main["event"], in_main["service"]) == ("uncaught exception", "trial")
    assert in_main["exception"].startswith("Traceback")
    assert in_main["exception"].endswith("in the main thread")


def test_lines_after_the_close_are_written_too(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    run(
        """
        writer = structured.configure("trial", file=sys.argv[1])
        structured.get_logger().info("first")
        writer.close(10)
        assert not [thread for thread in threading.enumerate() if thread.name == "log"]
        writer.close(10)
        structured.get_logger().info("second")
        """,
        str(log),
    )
    assert [line.split()[-1] for line in log.read_text().splitlines()] == ["first", "second"]


def test_a_full_file_is_moved_aside_and_no_line_is_missing_or_cut(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    run(
        """
        log_writer.FILE_BYTES_MAX = 20_000
        writer = structured.configure("trial", file=sys.argv[1])
        for number in range(500):
            structured.get_logger().info("line", number=number)
            writer.flush(10)
        """,
        str(log),
    )
    lines = (tmp_path / "one.log.1").read_text().splitlines() + log.read_text().splitlines()
    numbers = [int(line.rsplit("=", 1)[1]) for line in lines]
    assert numbers == list(range(numbers[0], 500))
    assert log.stat().st_size < 20_100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.log", "one.log.1"]


def test_a_deleted_file_is_created_again(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    run(
        """
        writer = structured.configure("trial", file=sys.argv[1])
        structured.get_logger().info("first")
        writer.flush(10)
        os.unlink(sys.argv[1])
        structured.get_logger().info("second")
        """,
        str(log),
    )
    assert log.read_text().endswith("second\n")


def test_a_file_that_cannot_be_opened_refuses_the_start(tmp_path: Path) -> None:
    ran = run('structured.configure("trial", file=sys.argv[1])', str(tmp_path / "none" / "one.log"))
    assert ran.returncode == 2
    assert (
        ran.stderr
        == f"trial: cannot log into {tmp_path}/none/one.log: No such file or directory; set another log_file\n"
    )
