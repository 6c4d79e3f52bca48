"""A system with replicas for a benchmark: started whole, and its replicas in order. Part of the programs of this folder."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

from measuring.system import ROOT, System, started

JOIN_SECONDS_MAX = 60.0
BROKER = "broker-a"


@contextlib.contextmanager
def group(
    replicas: int, *options: str, followers_on: str = "", parent: str | None = None
) -> Generator[tuple[System, str]]:
    """Start a system with so many replicas for each broker; yield it, and its data directory, once all replicas are in sync.

    `followers_on`: a folder for the data of all replicas but the first, which leads after a first start.
    """
    with tempfile.TemporaryDirectory(prefix="gantry-replicated-", dir=parent) as folder:
        data, words, elsewhere = f"{folder}/data", list[str](), Path()
        if followers_on:
            elsewhere = Path(tempfile.mkdtemp(prefix="gantry-followers-", dir=followers_on))
            words = [
                word
                for name in "bcde"[: replicas - 1]
                for word in ("--set", f"{BROKER}-{name}.store_dir={elsewhere}/{name}")
            ]
        try:
            with started("--replicas", str(replicas), *words, *options, data=data) as system:
                leader = replicas_of(data)[0]
                yield replace(system, store=leader["address"], store_pid=leader["pid"]), data
        finally:
            if followers_on:
                shutil.rmtree(elsewhere, ignore_errors=True)


def brokers_of(data: str) -> list[dict[str, Any]]:
    """Return the brokers as `./gantry status --json` shows them."""
    command = [str(ROOT / "gantry"), "status", "--json", "--data", data]
    shown = subprocess.run(command, stdout=subprocess.PIPE, check=False, cwd=ROOT)
    return json.loads(shown.stdout)["brokers"]


def replicas_of(data: str, broker: str = BROKER) -> list[dict[str, Any]]:
    """Wait until every replica of a broker is in sync; return them, the leader first. A store without replicas is one leader."""
    until = time.monotonic() + JOIN_SECONDS_MAX
    while time.monotonic() < until:
        found = next(one for one in brokers_of(data) if one["name"] == broker)
        replicas = found.get("replicas") or [
            {"role": "leader", "address": found["address"], "pid": found["pid"]}
        ]
        if sorted(one["role"] for one in replicas) == ["follower"] * (len(replicas) - 1) + ["leader"]:
            return sorted(replicas, key=lambda one: one["role"] != "leader")
        time.sleep(0.2)
    raise SystemExit(f"not all replicas are in sync after {JOIN_SECONDS_MAX:.0f} s")


def name_of(pid: int) -> str:
    """Return the name of a process of the launcher, as broker-a-a or nats-1, by its log file or its configuration."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    for word in words:
        if word.startswith("log_file=") or word.endswith(".conf"):
            return Path(word.removeprefix("log_file=")).stem
    return Path(words[0]).name


def processes_of(launcher: int) -> dict[str, int]:
    """Return the pid of each running process of a launcher by its name."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text()
    return {name_of(int(pid)): int(pid) for pid in children.split()}
