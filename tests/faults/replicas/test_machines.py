"""A group on three machines, which are network namespaces: its promises hold while the network cuts the machine of its leader off.

More of it by the program: `.venv/bin/python -m tests.faults.replicas.nemesis --machines sandbox --cycles 100`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .nemesis import in_sandbox
from .wires import missing, run_in_sandbox

pytestmark = [pytest.mark.crash, pytest.mark.cluster]
CUTS = ("leader_alone", "leader_machine_alone", "leader_unheard")
RUN_SECONDS_MAX = 150.0
END_SECONDS_MAX = 10.0
ROOT = Path(__file__).parents[3]
STARTER = f"""
import sys
from {__package__}.wires import run_in_sandbox
run_in_sandbox([sys.executable, "-c", sys.argv[1], sys.argv[2]])
"""
SLEEPER = f"""
import subprocess, sys, time
from {__package__}.wires import Wires, end_with_parent, on_machine
end_with_parent()
Wires()
subprocess.Popen(on_machine("b", "sh", "-c", "sleep 1000; true", sys.argv[1]))
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    """Skip where this user can make no network namespaces, with the reason."""
    if reason := missing():
        pytest.skip(reason)


@pytest.mark.timeout(RUN_SECONDS_MAX + 30)
def test_a_leader_that_the_network_cuts_off_breaks_no_promise(tmp_path: Path, seed: int) -> None:
    """Alone; with the NATS server of its machine, a minority; in one direction."""
    words = ["--cycles", str(len(CUTS)), "--only", *CUTS, "--pace", "0", "--seed", str(seed)]
    assert in_sandbox([*words, "--data", str(tmp_path)], RUN_SECONDS_MAX) == 0


def test_a_sandbox_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    """However that ends: nothing of the sandbox stays behind."""
    mark = str(tmp_path)
    command = [sys.executable, "-c", STARTER, SLEEPER, mark]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        try:
            assert starter.stdout is not None
            assert starter.stdout.readline() == "ready\n"
            assert len(_with(mark)) >= 3  # the program, unshare, the first process of the sandbox
            assert not any(name.startswith("machine-") for name in _named_here())
        finally:
            starter.kill()
        _wait_gone(mark)


def test_a_program_that_takes_too_long_ends_with_its_sandbox(tmp_path: Path) -> None:
    mark = str(tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        run_in_sandbox(["sh", "-c", "sleep 1000 & sleep 1000; true", mark], 1)
    _wait_gone(mark)


def _wait_gone(mark: str) -> None:
    until = time.monotonic() + END_SECONDS_MAX
    while _with(mark):
        assert time.monotonic() < until, _with(mark)
        time.sleep(0.05)


def _with(mark: str) -> list[int]:
    """Return the processes with this word in their command, without this one."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark.encode() in words:
                found.append(int(entry.name))
    return found


def _named_here() -> list[str]:
    """Return the network namespaces that have a name on this machine itself."""
    folder = Path("/run/netns")
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
