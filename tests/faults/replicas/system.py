"""A system with three replicas of one broker, as the launcher starts it, with proxies between its replicas and its NATS servers."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...conftest import start_system, stop_system  # noqa: TID252
from .cables import Cables
from .clocks import MODULES, VARIABLE, Clocks
from .disks import Disk

NAMES = "abc"
NODES = ("nats-1", "nats-2", "nats-3")
PEERS = frozenset({*NODES, *(f"broker-a-{name}" for name in NAMES)})
STORE_STEP, STORE_STEPS = 12, 10
NATS_STEPS = (3, 280, 281)
ROUTE_STEPS = (285, 286, 287)
"""Of the ports where NATS servers reach each other."""
STORE_PORTS = (-2, 0, 2)
"""Sends only, remoting, HTTP: distances from the remoting port."""
WHOLE_SECONDS_MAX = 120.0
SETTINGS = {
    "broker-store.segment_bytes": 8 << 20,
    "broker-store.zero_ahead_bytes": 1 << 20,
    "broker-store.ballast_bytes": 1 << 20,
    "broker-store.free_bytes_min": 4 << 20,
    "broker-store.checkpoint_seconds": 2,
    "broker-store.delay_levels": "1s 2s",
    "txn-checker.transaction_timeout_ms": 1000,
    "txn-checker.poll_ms": 200,
}


class ReplicaSystem:
    """The processes, by their names: broker-a-a, nats-1, gateway …. A replica has the name of its group: a, b, c."""

    def __init__(self, folder: Path, *, python_path: Path = MODULES, has_disks: bool = False) -> None:
        """Take where the data lies. `python_path`: a folder of modules that the processes find before their own.

        `has_disks` gives each replica a file system of its own; only for root.
        """
        self.data = folder / "system"
        self._python_path = python_path
        self.base = free_base()
        self.cables = Cables(self.pids_of_all)
        self.clocks = Clocks(folder / "clocks", NAMES)
        self.disks = {name: Disk(folder, name) for name in NAMES} if has_disks else {}
        self.state: dict[str, Any] = {}
        self._paused: set[int] = set()
        self._launcher = 0

    def start(self) -> None:
        """Start everything."""
        words = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        for at, name in enumerate(NAMES):
            host, nats_host = f"127.0.0.{11 + at}", f"127.0.0.{31 + at}"
            for step in STORE_PORTS:
                self.cables.lay(host, self.port(name) + step, self.port(name) + step, name)
            nats = [self.base + step for step in NATS_STEPS]
            for node, port in zip(NODES, nats, strict=True):
                self.cables.lay(nats_host, port, port, node, of=name)
            urls = ",".join(f"nats://{nats_host}:{nats[(at + one) % 3]}" for one in range(3))
            words += [
                "--set",
                f"broker-a-{name}.advertise={host}",
                "--set",
                f"broker-a-{name}.nats_url={urls}",
            ]
            if self.disks:
                words += ["--set", f"broker-a-{name}.store_dir={self.directory(name)}"]
        with self._environment():
            self.state = start_system(
                self.data, "--replicas", "3", *words, ports=("--port-base", str(self.base))
            )
        self._launcher = self.state["pids"]["launcher"][0]
        self._lay_routes()

    def _lay_routes(self) -> None:
        """Let the NATS servers reach each other through cables, from their next start on, which is now."""
        for at, (node, step) in enumerate(zip(NODES, ROUTE_STEPS, strict=True)):
            self.cables.lay(f"127.0.0.{41 + at}", self.base + step, self.base + step, node)
        for at, node in enumerate(NODES):
            path = self.data / "secrets" / "nats-cluster" / f"{node}.conf"
            words = path.read_text()
            for other, step in enumerate(ROUTE_STEPS):
                words = words.replace(
                    f"@127.0.0.1:{self.base + step}", f"@127.0.0.{41 + other}:{self.base + step}"
                )
            own = f"127.0.0.{41 + at}:{self.base + ROUTE_STEPS[at]}"
            path.write_text(words.replace("cluster {", f'cluster {{\n  advertise: "{own}"'))
        self.kill(*NODES)
        self.wait_register()

    @contextlib.contextmanager
    def _environment(self) -> Iterator[None]:
        added = {"PYTHONPATH": str(self._python_path), VARIABLE: str(self.clocks.folder)}
        before = {name: os.environ.get(name) for name in added}
        os.environ.update(added)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value

    def stop(self) -> None:
        """Stop everything, whatever was done to it."""
        self.cables.heal()
        for pid in self._paused:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._paused.clear()
        self.heal_disks()
        self.resume()
        try:
            if self._launcher:
                stop_system(self.data)
        finally:
            self.cables.close()
            for disk in self.disks.values():
                disk.remove()

    # --- who is what ---------------------------------------------------------------------------------------

    def port(self, name: str) -> int:
        """Return the remoting port of a replica, behind its proxy."""
        return self.base + STORE_STEP + STORE_STEPS * NAMES.index(name)

    def directory(self, name: str) -> Path:
        """Return the directory of a replica."""
        if self.disks:
            return self.disks[name].directory
        return self.data / "broker-a" / name

    @property
    def http(self) -> str:
        """The address of the gateway."""
        return str(self.state["http"])

    def pids(self) -> dict[str, int]:
        """Return the pid of each process by the name of its log."""
        found: dict[str, int] = {}
        if not self._launcher:
            return found
        children = Path(f"/proc/{self._launcher}/task/{self._launcher}/children")
        with contextlib.suppress(OSError):
            for pid in map(int, children.read_text().split()):
                name = _name_of(pid)
                if name:
                    found[name] = pid
        return found

    def pids_of_all(self) -> dict[int, str]:
        """Return the names of replicas and NATS servers by their pids. Before the start has ended, of replicas, by all processes of this directory."""
        if self._launcher:
            pids = self.pids().items()
            return {pid: name.removeprefix("broker-a-") for name, pid in pids if name in PEERS}
        mark = f"store_dir={self.data.parent}/".encode()
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (entry / "cmdline").read_bytes():
                        found[int(entry.name)] = _name_of(int(entry.name))[-1:]
        return found

    def view(self, name: str, seconds: float = 1.0) -> dict[str, Any]:
        """Return what GET /v1/replication of a replica says; empty for no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port(name) + 2, timeout=seconds)
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
        """Kill -9 processes; the launcher starts them again."""
        pids = self.pids()
        for name in names:
            _signal(pids.get(name, 0), signal.SIGKILL)

    def terminate(self, name: str) -> None:
        """Stop a process as an operator does; the launcher starts it again."""
        _signal(self.pids().get(name, 0), signal.SIGTERM)

    def pause(self, *names: str) -> None:
        """Pause processes until `resume`; `launcher` keeps ended processes down."""
        pids = {**self.pids(), "launcher": self._launcher}
        for name in names:
            if name in pids:
                self._paused.add(pids[name])
                _signal(pids[name], signal.SIGSTOP)

    def heal_disks(self) -> None:
        """End what was done to disks. A dead one is mounted again while its replica and the launcher do not run."""
        dead = [name for name, disk in self.disks.items() if disk.is_dead]
        if dead:
            self.pause("launcher")
            self.kill(*(f"broker-a-{name}" for name in dead))
        for name, disk in self.disks.items():
            disk.heal()
            if name in dead:
                disk.restore()

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


def _name_of(pid: int) -> str:
    """Return the name of a process of the launcher, empty if it has none yet."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    for word in words:
        if word.startswith("log_file="):
            return Path(word).stem
        if word.endswith(".conf") and "nats-" in word:
            return Path(word).stem
    return ""


def free_base() -> int:
    """Return a port whose 300 followers are free, as far as a system uses them."""
    used = (
        *NATS_STEPS,
        *ROUTE_STEPS,
        *range(8),
        *(12 + 10 * at + step for at in range(3) for step in (-2, 0, 1, 2)),
    )
    for _ in range(200):
        base = 15_000 + secrets.randbelow(16_000)
        if all(_is_free(base + step) for step in used):
            return base
    raise RuntimeError("no free ports on 127.0.0.1")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True
