"""The system of an endurance run: starts it with a small log, samples its processes, kills them and waits for them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gantry_launcher.planning.health import Check, ask
from gantry_launcher.processes import control
from measuring.system import ROOT, cpu_seconds, stop

ASK_SECONDS = 5.0
EVERY_HOUR = ";".join(f"{hour:02}" for hour in range(24))
SETTINGS = {
    "broker-store.delete_when": EVERY_HOUR,
    "broker-store.queue_file_units": 50_000,
    "broker-store.index_slots": 200_000,
    "broker-store.index_entries": 800_000,
    "broker-store.zero_ahead_bytes": 16 << 20,
    "broker-store.checkpoint_bytes": 16 << 20,
    "broker-store.send_wait_ms_max": 60_000,
    "broker-store.free_bytes_min": 64 << 20,
    "broker-store.ballast_bytes": 32 << 20,
}
"""Small files, so that retention that usually takes days happens within the run."""
HELD = re.compile(r"^(gateway_pulls_held|gateway_receives_held) ([\d.e+]+)", re.MULTILINE)
PENDING = re.compile(r"^scheduler_pending\{[^}]*\} ([\d.e+]+)", re.MULTILINE)


@dataclass(frozen=True)
class Process:
    """A process of the system at this moment."""

    name: str
    pid: int | None
    restarts: int
    check: Check

    def is_ready(self) -> bool:
        return self.pid is not None and ask(self.check, ASK_SECONDS).ready


class EnduranceSystem:
    """A system of one store on free ports, with its data in a separate folder."""

    def __init__(self, data: Path, *words: str) -> None:
        self.data = data
        settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        command = [str(ROOT / "gantry"), "up", "--free-ports", "--detach", "--json", "--data", str(data)]
        ran = subprocess.run([*command, *settings, *words], stdout=subprocess.DEVNULL, check=False, cwd=ROOT)
        if ran.returncode != 0:
            sys.exit(f"the system did not start (status {ran.returncode}): its last line above says why")
        state = self.state()
        self.http: str = state["http"]
        self.store_address: str = state["brokers"][0]["address"]
        self.store_folder = Path(state["brokers"][0]["store"])

    def stop(self) -> None:
        stop(str(self.data))

    def state(self) -> dict[str, Any]:
        answer = control.ask(self.data, "status")
        if answer is not None:
            answer.connection.close()
        if isinstance(answer, control.Answer):
            return answer.state
        raise RuntimeError("the launcher is gone or does not answer")

    def processes(self) -> list[Process]:
        processes = self.state()["processes"]
        return [Process(p["name"], p["pid"], p["restarts"], Check(**p["check"])) for p in processes]

    def process(self, name: str) -> Process:
        return next(process for process in self.processes() if process.name == name)

    def end_one(self, name: str, number: signal.Signals) -> int | None:
        """Send a signal to a process; return its pid, None if it is just restarting."""
        pid = self.process(name).pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid

    def await_return(self, name: str, old_pid: int | None, seconds_max: float) -> bool:
        """Wait until another process of the name is ready."""
        until = time.monotonic() + seconds_max
        while time.monotonic() < until:
            process = self.process(name)
            if process.pid not in {old_pid, None} and process.is_ready():
                return True
            time.sleep(0.05)
        return False

    def metrics(self, name: str) -> str:
        """Return a process's Prometheus metrics; empty while it does not answer."""
        check = self.process(name).check
        try:
            with urllib.request.urlopen(
                f"http://{check.host}:{check.port}/metrics", timeout=ASK_SECONDS
            ) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def held(self) -> dict[str, float]:
        """Return the number of pulls and receives held by the gateway; empty while it does not answer."""
        return {name: float(value) for name, value in HELD.findall(self.metrics("gateway"))}

    def pending(self) -> int | None:
        """Return the scheduler's number of waiting messages; None while it has no store."""
        found = PENDING.findall(self.metrics("scheduler"))
        return round(sum(float(value) for value in found)) if found else None

    def log_bytes(self) -> int:
        return sum(_size(path) for path in (self.store_folder / "commitlog").glob("*"))

    def first_segment(self) -> int:
        """Return the start of the log: it rises when retention deletes a segment."""
        return min((int(path.name) for path in (self.store_folder / "commitlog").glob("[0-9]*")), default=0)

    def disk_bytes(self) -> int:
        """Return the disk usage of all files of the system: blocks, not lengths."""
        total = 0
        for folder, _, names in os.walk(self.data):
            for name in names:
                with contextlib.suppress(OSError):
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118 - fast
        return total


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def sample_process(pid: int) -> dict[str, float]:
    """Return memory in bytes, handles, threads and CPU seconds of a process; empty if it has ended."""
    folder = Path(f"/proc/{pid}")
    try:
        memory = {
            line.split(":")[0]: int(line.split()[1]) * 1024
            for line in (folder / "smaps_rollup").read_text().splitlines()
            if line.startswith(("Pss:", "Rss:", "Private_Dirty:"))
        }
        status = (folder / "status").read_text()
        threads = int(status.split("Threads:")[1].split()[0])
        handles = sum(1 for _ in (folder / "fd").iterdir())
        return {
            "pss": memory.get("Pss", 0), "rss": memory.get("Rss", 0), "dirty": memory.get("Private_Dirty", 0),
            "handles": handles, "threads": threads, "cpu": cpu_seconds(pid),
        }  # fmt: skip
    except (OSError, IndexError, ValueError):
        return {}
