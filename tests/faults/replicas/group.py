"""A group of three replicas, however it was started: what it says of itself, and what is done to its processes."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

NAMES = "abc"
NODES = ("nats-1", "nats-2", "nats-3")
WHOLE_SECONDS_MAX = 120.0
STORE_SETTINGS = {
    "segment_bytes": 8 << 20,
    "zero_ahead_bytes": 1 << 20,
    "ballast_bytes": 1 << 20,
    "free_bytes_min": 4 << 20,
    "checkpoint_seconds": 2,
    "delay_levels": "1s 2s",
}


class Cuts(Protocol):
    """What cuts the replicas and the NATS servers from each other, each direction for itself."""

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Let nothing pass that the first of each pair says to the second."""
        ...

    def heal(self) -> None:
        """End all cuts."""
        ...


class Group(ABC):
    """The processes, by their names: broker-a-a, nats-1, gateway …. A replica has the name of its group: a, b, c."""

    cables: Cuts

    def __init__(self, data: Path) -> None:
        self.data = data
        self._paused: set[int] = set()

    @abstractmethod
    def start(self) -> None:
        """Start everything."""

    @abstractmethod
    def stop(self) -> None:
        """Stop everything, whatever was done to it."""

    # --- who is what ---------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def http(self) -> str:
        """The address of the gateway."""

    @abstractmethod
    def address(self, name: str) -> tuple[str, int]:
        """Return host and remoting port of a replica."""

    @abstractmethod
    def directory(self, name: str) -> Path:
        """Return the directory of a replica."""

    @abstractmethod
    def pids(self) -> dict[str, int]:
        """Return the pid of each process by its name."""

    def view(self, name: str, seconds: float = 1.0) -> dict[str, Any]:
        """Return what GET /v1/replication of a replica says; empty for no answer."""
        host, port = self.address(name)
        connection = http.client.HTTPConnection(host, port + 2, timeout=seconds)
        try:
            connection.request("GET", "/v1/replication")
            answer = connection.getresponse()
            content = answer.read()
            return json.loads(content) if answer.status == 200 else {}
        except (OSError, http.client.HTTPException, ValueError):
            return {}
        finally:
            connection.close()

    def leader(self, seconds: float = WHOLE_SECONDS_MAX) -> str:
        """Wait for a leader that serves."""

        def leads() -> str:
            return next((name for name in NAMES if self.view(name).get("isServing")), "")

        return self.wait(leads, "a leader", seconds)

    def wait_whole(self, seconds: float = WHOLE_SECONDS_MAX) -> str:
        """Wait until all replicas are in sync and every process runs; return the leader."""

        def whole() -> str:
            views = {name: self.view(name) for name in NAMES}
            leads = [name for name, view in views.items() if view.get("isServing")]
            if len(leads) != 1 or len(views[leads[0]]["members"]) != len(NAMES):
                return ""
            return leads[0] if views[leads[0]]["hasLease"] and views[leads[0]]["acceptsSends"] else ""

        return self.wait(whole, "a whole group", seconds)

    def wait_register(self, seconds: float = WHOLE_SECONDS_MAX) -> None:
        """Wait until every replica reaches the register."""

        def reached() -> str:
            return "" if any(self.view(name).get("registerFault", "unknown") for name in NAMES) else "reached"

        self.wait(reached, "register for all", seconds)

    def wait(self, found: Callable[[], str], what: str, seconds: float) -> str:
        """Wait until it returns something."""
        until = time.monotonic() + seconds
        while not (result := found()):
            if time.monotonic() > until:
                views = {name: self.view(name) for name in NAMES}
                raise AssertionError(f"no {what} within {seconds:g} s: {views}")
            time.sleep(0.05)
        return result

    # --- what is done to it --------------------------------------------------------------------------------

    def kill(self, *names: str) -> None:
        """Kill -9 processes; what started them starts them again."""
        pids = self.pids()
        for name in names:
            _signal(pids.get(name, 0), signal.SIGKILL)

    def terminate(self, name: str) -> None:
        """Stop a process as an operator does; what started it starts it again."""
        _signal(self.pids().get(name, 0), signal.SIGTERM)

    def pause(self, *names: str) -> None:
        """Pause processes until `resume`; `launcher` keeps ended processes down."""
        pids = self.pids()
        for name in names:
            if name in pids:
                self._paused.add(pids[name])
                _signal(pids[name], signal.SIGSTOP)

    def copy_directory(self, name: str) -> Path:
        """Return a copy of the directory of a replica that does not run."""
        copy = self.data.parent / f"copy-{name}"
        shutil.rmtree(copy, ignore_errors=True)
        _copy(str(self.directory(name)), copy)
        return copy

    def replace_directory(self, name: str, copy: Path | None) -> None:
        """Give a replica that does not run a copy, or an empty directory."""
        for entry in self.directory(name).iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        if copy is not None:
            _copy(f"{copy}/.", self.directory(name))

    def resume(self) -> None:
        """Let all paused processes continue."""
        for pid in self._paused:
            _signal(pid, signal.SIGCONT)
        self._paused.clear()

    def heal(self) -> None:
        """End every fault."""
        self.cables.heal()
        self.resume()


def _copy(source: str, target: Path) -> None:
    """Copy a directory, or with `/.` at its end what it has, with its holes: index files have far more of them than content.

    Durably: a store takes the files that it finds as durable, and a power cut may come next.
    """
    subprocess.run(["cp", "-a", "--sparse=always", source, str(target)], check=True)
    subprocess.run(["sync", "-f", str(target)], check=True)


def _signal(pid: int, number: int) -> None:
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
