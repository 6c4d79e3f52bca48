"""One short load of a real system through the command line; Locust runs in its own process, never in that of the tests."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "gantry"), "load", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.cluster
def test_a_short_load_of_its_own_system_is_judged_and_reported(tmp_path: Path) -> None:
    words = ("--seconds", "3", "--rate", "40", "--users", "4", "--headless", "--json")
    ran = load("end-to-end", *words, "--out", str(tmp_path / "r"))
    result = json.loads(ran.stdout.splitlines()[-1])
    assert (ran.returncode, result["verdict"], result["shortfalls"]) == (0, "pass", []), ran.stderr
    assert result["requests"] > 20
    assert (result["lost"], result["duplicates"], result["early"], result["failures"]) == (0, 0, 0, 0)
    page = (tmp_path / "r" / "report.html").read_text()
    assert "<svg" in page
    assert re.search("https?:", page) is None


def test_a_host_that_does_not_answer_is_refused_in_one_line() -> None:
    ran = load("send", "--host", "http://127.0.0.1:1")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[-1].startswith("gantry: load: http://127.0.0.1:1 does not answer (")


@pytest.mark.cluster
def test_a_worker_without_a_master_says_so_and_ends_on_request(tmp_path: Path) -> None:
    gantry, data = str(ROOT / "gantry"), str(tmp_path / "data")
    up = [gantry, "up", "--free-ports", "--detach", "--json", "--data", data]
    host = json.loads(subprocess.run(up, capture_output=True, timeout=280, check=True).stdout)["http"]
    words = [gantry, "load", "send", "--host", host, "--worker", "127.0.0.1:1"]
    try:
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as worker:
            assert worker.stderr is not None
            assert any("waiting for the master at 127.0.0.1:1 (" in line for line in worker.stderr)
            worker.terminate()
            assert "no master at 127.0.0.1:1 (" in worker.stderr.read()
        assert worker.returncode == 2
        impatient = [sys.executable, str(Path(__file__).with_name("impatient_worker.py"))]
        words = ["send", "--host", host, "--worker", host.removeprefix("http://")]
        ran = subprocess.run([*impatient, *words], capture_output=True, text=True, timeout=280, check=False)
        assert (ran.returncode, ran.stderr.splitlines()[-1].endswith("is no master of a load")) == (2, True)
    finally:
        subprocess.run([gantry, "down", "--data", data], timeout=120, check=True)


@pytest.mark.cluster
def test_a_second_interrupt_leaves_no_system_and_no_data(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "gantry"), "load", "send", "--seconds", "60", "--headless"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment
    ) as run:
        assert run.stderr is not None
        assert any(re.search(r"load: +\d+ of 60 s, \d+ users", line) for line in run.stderr)
        os.killpg(run.pid, signal.SIGINT)
        assert any("once more leaves at once" in line for line in run.stderr)
        until = time.monotonic() + 60
        while run.poll() is None and time.monotonic() < until:
            os.killpg(run.pid, signal.SIGINT)  # its processes are being stopped
            time.sleep(0.01)
        assert "Traceback" not in run.stderr.read()
    assert run.returncode == 130
    assert list(tmp_path.glob("gantry-load-*")) == []
    assert [words for words in command_lines() if str(tmp_path).encode() in words] == []


def command_lines() -> Iterator[bytes]:
    """The command line of every process of the machine; one may end while it is read."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()
