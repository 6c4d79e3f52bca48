"""A whole system for tests that need one: started by the launcher on free ports, stopped at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
UP_SECONDS_MAX = 200
DOWN_SECONDS_MAX = 120

PATIENT = ("--set", "broker-store.send_wait_ms_max=60000")
"""The fast refusal of what waited 200 ms has tests of its own; here it would only tell how busy the machine is."""

Gantry = Callable[..., subprocess.CompletedProcess[str]]
NewSystem = Callable[..., dict[str, Any]]


def run_gantry(*words: str, timeout: float = UP_SECONDS_MAX) -> subprocess.CompletedProcess[str]:
    """Run one launcher command as a user would; its pipes are closed when it returns."""
    return subprocess.run(
        [sys.executable, str(ROOT / "gantry"), *words],
        capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def start_system(data: Path, *words: str, ports: tuple[str, ...] = ("--free-ports",)) -> dict[str, Any]:
    """Start a system that keeps running; the object of `up --json`, and where its data is."""
    ran = run_gantry("up", *ports, "--detach", "--json", "--data", str(data), *PATIENT, *words)
    assert ran.returncode == 0, f"{ran.stderr}\n{_log_tail(data)}"
    return {**json.loads(ran.stdout), "data": str(data)}


def stop_system(data: Path) -> None:
    ran = run_gantry("down", "--data", str(data), timeout=DOWN_SECONDS_MAX)
    assert ran.returncode == 0, f"{ran.stderr}\n{_log_tail(data)}"
    faults = [line for line in _log(data).splitlines() if "loop failed" in line or "Traceback" in line]
    assert not faults, f"a fault was logged, whatever was done to the system: {faults}\n{_log_tail(data)}"


def _log(data: Path) -> str:
    log = data / "logs" / "gantry.log"
    return log.read_text() if log.exists() else "(no log)"


def _log_tail(data: Path) -> str:
    return _log(data)[-4000:]


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """One system for all tests that only use it: one store, sync flush. Leave it as it was: no kills, own topics."""
    data = tmp_path_factory.mktemp("system")
    try:
        yield start_system(data)
    finally:
        stop_system(data)


@pytest.fixture
def new_system(tmp_path: Path) -> Iterator[NewSystem]:
    """A maker of systems of the test's own: new_system("--brokers", "2", name="one")."""
    started: list[Path] = []

    def start(*words: str, name: str = "system") -> dict[str, Any]:
        data = tmp_path / name
        if data not in started:
            started.append(data)
        return start_system(data, *words)

    yield start
    for data in started:
        stop_system(data)


@pytest.fixture
def gantry() -> Gantry:
    """The launcher's command line: gantry("status", "--data", …)."""
    return run_gantry
