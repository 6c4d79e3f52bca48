"""A system with three replicas of one broker, as the launcher starts it, with proxies between its replicas and its NATS servers."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...conftest import start_system, stop_system  # noqa: TID252
from .cables import Cables
from .clocks import MODULES, VARIABLE, Clocks
from .disks import Disk
from .group import NAMES, NODES, STORE_SETTINGS, Group

PEERS = frozenset({*NODES, *(f"broker-a-{name}" for name in NAMES)})
STORE_STEP, STORE_STEPS = 12, 10
NATS_STEPS = (3, 280, 281)
ROUTE_STEPS = (285, 286, 287)
"""Of the ports where NATS servers reach each other."""
STORE_PORTS = (-2, 0, 2)
"""Sends only, remoting, HTTP: distances from the remoting port."""
SETTINGS = {
    **{f"broker-store.{key}": value for key, value in STORE_SETTINGS.items()},
    "txn-checker.transaction_timeout_ms": 1000,
    "txn-checker.poll_ms": 200,
}


class ReplicaSystem(Group):
    """All processes on this machine, children of one launcher."""

    def __init__(self, folder: Path, *, python_path: Path = MODULES, has_disks: bool = False) -> None:
        """Take where the data lies. `python_path`: a folder of modules that the processes find before their own.

        `has_disks` gives each replica a file system of its own; only for root.
        """
        super().__init__(folder / "system")
        self._python_path = python_path
        self.base = free_base()
        self.cables = Cables(self.pids_of_all)
        self.clocks = Clocks(folder / "clocks", NAMES)
        self.disks = {name: Disk(folder, name) for name in NAMES} if has_disks else {}
        self.state: dict[str, Any] = {}
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
        self.resume()
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

    def address(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", self.port(name)

    def directory(self, name: str) -> Path:
        if self.disks:
            return self.disks[name].directory
        return self.data / "broker-a" / name

    @property
    def http(self) -> str:
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
        return {**found, "launcher": self._launcher}

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

    # --- what is done to it --------------------------------------------------------------------------------

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

    def heal(self) -> None:
        """End every fault."""
        self.cables.heal()
        self.clocks.heal()
        self.heal_disks()
        self.resume()


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
