"""Network namespaces as machines, in a sandbox that ends with its first process, and cuts between them by nftables.

A sandbox has namespaces of network, processes and mounts of its own. Nothing of it can be seen from outside, two of them do not meet, and the kernel
removes it whole when its first process ends, however that comes about.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from .group import NAMES, NODES

TOOLS = ("unshare", "nsenter", "mount", "ip", "nft")
BRIDGE = "gantry"
STORE_PORT, STORE_PORTS = 10911, "{ 10909, 10911, 10913 }"
"""Remoting; sends only, remoting, HTTP."""
NATS_PORT, ROUTE_PORT = 4222, 6222
CLIENTS = "10.77.0.254"
"""The address of the sandbox itself, where clients are."""
SANDBOX = """
set -e
mount -t tmpfs none /run
mkdir /run/netns
ip link set lo up
exec "$@"
"""
TRIAL = """
set -e
ip netns add trial
ip link add trial type bridge
ip link add one type veth peer name other netns trial
ip link set one master trial
nsenter --net=/run/netns/trial nft add table inet cuts
nsenter --net=/run/netns/trial nft add chain inet cuts input '{ type filter hook input priority 0; }'
nsenter --net=/run/netns/trial nft add rule inet cuts input ip saddr 10.0.0.1 tcp dport '{ 1, 2 }' drop
"""


def missing() -> str:
    """Return why this machine can have no sandbox, empty if it can."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"no {', '.join(absent)} on PATH"
    tried = subprocess.run(
        _in_sandbox("sh", "-c", TRIAL), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if tried.returncode == 0:
        return ""
    return f"no network namespaces here: {(tried.stderr.strip() or 'no reason given').splitlines()[-1]}"


def run_in_sandbox(words: Sequence[str], seconds: float | None = None) -> int:
    """Run a program in a sandbox of its own; return its status. It has to call `end_with_parent`.

    After so many seconds it is killed, and `subprocess.TimeoutExpired` raised.
    """
    with subprocess.Popen(_in_sandbox(*words), stdin=subprocess.PIPE) as sandbox:
        try:
            return sandbox.wait(seconds)
        finally:
            sandbox.kill()


def end_with_parent() -> None:
    """End this process, the first of its sandbox, when what started it ends: its standard input is closed then."""

    def wait() -> None:
        while os.read(0, 1 << 16):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="parent").start()


def _in_sandbox(*words: str) -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    own = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return ["unshare", *user, *own, "sh", "-c", SANDBOX, "sandbox", *words]


def host_of(name: str) -> str:
    """Return the address of the machine that a replica or a NATS server is on."""
    return f"10.77.0.{_machine(name) + 1}"


def on_machine(name: str, *words: str) -> list[str]:
    """Return a command that runs another one on the machine of a replica or a NATS server, as its process."""
    return ["nsenter", f"--net={_namespace(_machine(name))}", *words]


class Wires:
    """A bridge with three machines, and what is cut between them. What is cut is dropped: a packet is sent again until one of its sides gives up."""

    def __init__(self) -> None:
        _run("ip", "link", "add", BRIDGE, "type", "bridge")
        _run("ip", "addr", "add", f"{CLIENTS}/24", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        for at, name in enumerate(NAMES):
            space = _namespace(at).name
            _run("ip", "netns", "add", space)
            _run("ip", "link", "add", f"to-{space}", "type", "veth", "peer", "name", "eth0", "netns", space)
            _run("ip", "link", "set", f"to-{space}", "master", BRIDGE, "up")
            _run("ip", "-n", space, "addr", "add", f"{host_of(name)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _run("ip", "-n", space, "link", "set", device, "up")
            self._filter(
                at,
                "add table inet cuts\nadd chain inet cuts input { type filter hook input priority 0; }\n",
            )

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Drop what the first of each pair says to the second. Both are replicas or NATS servers."""
        for source, target in pairs:
            ends = " ".join(
                f"add rule inet cuts input ip saddr {host_of(source)} tcp {ports} drop\n"
                for ports in _ports(source, target)
            )
            self._filter(_machine(target), ends)

    def heal(self) -> None:
        """End all cuts."""
        for at in range(len(NAMES)):
            self._filter(at, "flush chain inet cuts input\n")

    @staticmethod
    def _filter(machine: int, rules: str) -> None:
        _run("nsenter", f"--net={_namespace(machine)}", "nft", "-f", "-", words=rules)


def _ports(source: str, target: str) -> list[str]:
    """Return how nftables recognises what a process says to another one: by the port of the one that listens.

    Two replicas, or two NATS servers, connect to each other: either of them may be the one that listens.
    """
    if source in NODES and target in NODES:
        return [f"dport {ROUTE_PORT}", f"sport {ROUTE_PORT}"]
    if source in NODES:
        return [f"sport {NATS_PORT}"]
    if target in NODES:
        return [f"dport {NATS_PORT}"]
    return [f"dport {STORE_PORTS}", f"sport {STORE_PORTS}"]


def _machine(name: str) -> int:
    return NODES.index(name) if name in NODES else NAMES.index(name)


def _namespace(machine: int) -> Path:
    return Path(f"/run/netns/machine-{machine + 1}")


def _run(*command: str, words: str = "") -> None:
    subprocess.run(command, input=words, text=True, check=True, timeout=10)
