"""A system with two schedulers and two txn-checkers whose processes are killed and restarted."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...conftest import ROOT, run_gantry, start_system, stop_system  # noqa: TID252
from ..recoveries import Recoveries, random_settings  # noqa: TID252
from ..store_process import free_port_block  # noqa: TID252

READY_SECONDS_MAX = 90.0
QUICK_CHECKS = {"transaction_timeout_ms": 1000, "poll_ms": 200}
"""Settings of the txn-checkers: a producer that is lost is asked soon."""
MODULES = {"scheduler": "scheduler", "txn-checker": "txn_checker"}
SOURCES = [ROOT / "libs" / name / "src" for name in ("wire", "link", "chassis")] + [
    ROOT / "services" / name / "src" for name in MODULES
]


@dataclass
class Second:
    """A second scheduler or txn-checker beside the launcher's; the test restarts it after a kill."""

    service: str
    nameserver: str
    folder: Path
    port: int = field(default_factory=free_port_block)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        values = {
            "port": self.port,
            "http_port": self.port + 2,
            "nameservers": self.nameserver,
        }
        values |= {"data_dir": self.folder} if self.service == "scheduler" else QUICK_CHECKS
        words = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(path) for path in SOURCES)}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULES[self.service], *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            )  # fmt: skip

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None


@dataclass
class MixedSystem:
    """The launcher's system, a second scheduler and a second txn-checker."""

    data: Path
    brokers: int = 1
    http: str = ""
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    seconds: list[Second] = field(default_factory=list[Second])
    kills: dict[str, int] = field(default_factory=dict[str, int])
    recoveries: dict[str, Recoveries] = field(default_factory=dict[str, Recoveries])
    """Recoveries by store name."""
    _seen_pids: set[int] = field(default_factory=set[int])
    """Processes of stores whose start has been checked."""

    def start(self, dice: random.Random) -> None:
        """Start on the existing directory, with a random checkpoint interval and flush mode."""
        settings = random_settings(dice)
        words = ["--set", "broker-store.segment_bytes=8388608", "--flush", settings["flush"]]
        words += ["--set", f"broker-store.checkpoint_seconds={settings['checkpoint_seconds']}"]
        words += ["--set", "broker-store.delay_levels=1s 2s"]
        words += [
            word for key, value in QUICK_CHECKS.items() for word in ("--set", f"txn-checker.{key}={value}")
        ]
        self.state = start_system(self.data / "system", "--brokers", str(self.brokers), *words)
        self.http = self.state["http"]
        self._note_starts(was_killed=False)
        for service in MODULES:
            second = Second(service, self.state["nameserver"], self.data / f"second-{service}")
            second.start()
            self.seconds.append(second)

    def stop(self) -> None:
        for second in self.seconds:
            second.kill()
        self.seconds.clear()
        stop_system(self.data / "system")

    def kill_one(self, dice: random.Random) -> str:
        """Kill -9 a random store, scheduler or checker; return which."""
        kind = dice.choice(("store", "scheduler", "txn-checker"))
        self.kills[kind] = self.kills.get(kind, 0) + 1
        if kind == "store":
            self._note_starts()
            self._kill_pid(dice.choice(self._status()["brokers"])["pid"])
        elif dice.random() < 0.5:
            second = next(one for one in self.seconds if one.service == kind)
            second.kill()
            second.start()
        else:
            self._kill_pid(self._status()["pids"][kind][0])
        return kind

    def wait_whole(self) -> None:
        """Wait until every process of the launcher is ready again."""
        until = time.monotonic() + READY_SECONDS_MAX
        state: dict[str, Any] = {}
        while time.monotonic() < until:
            state = self._status()
            if state["ready"]:
                self._note_starts()
                return
            time.sleep(0.1)
        raise AssertionError(f"not all ready again: {state.get('processes')}")

    @property
    def counts(self) -> str:
        """Return how stores recovered after kills. A start that rebuilds fails the run."""
        starts = sum(one.starts for one in self.recoveries.values())
        from_last = sum(one.from_last_run for one in self.recoveries.values())
        return f"starts after kills {starts}, from a checkpoint of the killed run {from_last}, rebuilds 0"

    def _note_starts(self, *, was_killed: bool = True) -> None:
        """Check the recovery of each ready store; one that is killed during its recovery is not counted."""
        for broker in self._status()["brokers"]:
            pid, name = broker["pid"], broker["name"]
            if pid is None or pid in self._seen_pids:
                continue
            with contextlib.suppress(OSError):
                metrics = urllib.request.urlopen(f"{broker['http']}/metrics", timeout=30).read()
                if b"gantry_store_recovery_rebuild{" in metrics:
                    self.recoveries.setdefault(name, Recoveries()).note(metrics, was_killed=was_killed)
                    self._seen_pids.add(pid)

    def _status(self) -> dict[str, Any]:
        return json.loads(run_gantry("status", "--data", str(self.data / "system"), "--json").stdout)

    def _kill_pid(self, pid: int | None) -> None:
        if pid is not None:  # it may be restarting
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
