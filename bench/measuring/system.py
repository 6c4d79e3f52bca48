"""A temporary system for a benchmark, and the line that describes the origin of its results."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from reporting.figures import collect

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class System:
    """Addresses and pids of a running system, as `./gantry up --json` prints them."""

    http: str
    nameserver: str
    store: str
    store_pid: int
    raw: dict[str, Any]

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> System:
        broker = raw["brokers"][0]
        return cls(raw["http"], raw["nameserver"], broker["address"], broker["pid"], raw)


@contextlib.contextmanager
def started(*options: str, data_parent: str | None = None, data: str = "") -> Generator[System]:
    """Start a system on free ports with its data in a temporary folder, or in `data`; stop it and delete the temporary folder at the end."""
    end_in_order()
    with tempfile.TemporaryDirectory(prefix="gantry-bench-", dir=data_parent) as folder:
        data = data or str(Path(folder) / "data")
        command = [str(ROOT / "gantry"), "up", "--free-ports", "--detach", "--json", "--data", data, *options]
        try:
            ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
            if ran.returncode != 0:
                sys.exit(f"`{' '.join(command)}` ended with {ran.returncode}: its last line above says why")
            yield System.from_json(cast("dict[str, Any]", json.loads(ran.stdout.splitlines()[-1])))
        finally:
            stop(data)


def stop(data: str) -> None:
    """Stop the system on this data directory. Cannot be interrupted: the data may be deleted next."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    down = [str(ROOT / "gantry"), "down", "--data", data]
    subprocess.run(down, check=False, cwd=ROOT, stdout=subprocess.DEVNULL)
    for number, handler in before.items():
        signal.signal(number, handler)


def end_process(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Stop a process in order, or kill it if it has not ended after this time."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_in_order() -> None:
    """Treat SIGTERM as a normal end from now on: a run limited by a timeout leaves nothing running."""
    signal.signal(signal.SIGTERM, _leave)


def _leave(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: the started processes are being stopped
    sys.exit(128 + signal.SIGTERM)


def cpu_seconds(pid: int) -> float:
    """Return the user and system CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pss_bytes(pid: int) -> int:
    """Return the proportional set size: shared pages count in parts."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def pids_of(system: System) -> dict[str, int]:
    """Return every process of the system by name, including the launcher."""
    found = {
        f"{name} {place}" if place else name: pid
        for name, pids in system.raw["pids"].items()
        for place, pid in enumerate(pids)
    }
    found.update({broker["name"]: broker["pid"] for broker in system.raw["brokers"]})
    return found


def descendants(pids: list[int]) -> list[int]:
    """Return these processes and their running descendants."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return sorted(found & parents.keys())


def provenance(durability: str) -> str:
    """Return machine, commit, durability and load, without which a result is meaningless."""
    collect({"durability": durability})
    return f"{machine()}, durability {durability}, load {os.getloadavg()[0]:.2f}"


def machine() -> str:
    """Processors, Python and commit."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return f"{os.cpu_count()} x {model}, Python {platform.python_version()}, commit {commit.stdout.strip() or 'none'}"


def no_collections() -> None:
    """Disable garbage collection in this process: a pause of 80 ms would delay every measured message."""
    gc.collect()
    gc.freeze()
    gc.disable()


def percentile(sorted_values: list[float], share: float) -> float:
    """Return the value below which this share lies; 0.0 for no values."""
    if not sorted_values:
        return 0.0
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]
