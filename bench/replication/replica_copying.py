"""How fast a replica with an empty directory and a new name copies the log of its leader.

    python bench/replication/replica_copying.py [--megabytes 400] [--body 1024 16384] [--replicas 3]

Fills a broker, adds a replica with `./gantry replicas add`, without a limit of its speed (`copy_bytes_per_second=0`), and asks the new store where its
log ends until it has what was there. Nothing is sent meanwhile. The floor is the disk: the same bytes written in steps of 8 MiB with fdatasync.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import uvloop

from measuring.system import ROOT, cpu_seconds, provenance
from replication.group import BROKER, brokers_of, group, replicas_of
from reporting.figures import figure
from store_speed.flood import Sends, flood
from store_speed.store_send import TOPIC, make_topic

QUEUES = 8
BATCH_BYTES = 64 * 1024
STEP_BYTES = 8 << 20
"""As much as a leader has on its way to a follower."""
ASK_SECONDS = 0.05
COPY_SECONDS_MAX = 300.0
SHARE = 0.9
"""The speed is that of the first nine tenths: the rest waits for the set."""


def said_by(http: str) -> dict[str, Any]:
    """Return what a store says about its group; nothing while it does not answer."""
    try:
        with urllib.request.urlopen(f"{http}/v1/replication", timeout=2) as answer:
            return json.loads(answer.read())
    except (OSError, ValueError):
        return {}


async def fill(address: str, body: int, total: int) -> None:
    """Send batches until the log has grown by so many bytes."""
    await make_topic(int(address.rpartition(":")[2]), QUEUES)
    batch = max(BATCH_BYTES // body, 1)
    sends = Sends(TOPIC, range(QUEUES), b"x" * body, batch)
    sent = 0.0
    while sent < total:
        began = time.perf_counter()
        rate = await flood(address, sends, connections=4, window=16, seconds=1.0)
        sent += rate * (time.perf_counter() - began) * batch * body


class Watch:
    """Asks the new replica where its log ends, and notes when."""

    def __init__(self, data: str, known: set[str]) -> None:
        self._data, self._known = data, known
        self.samples: list[tuple[float, int, float]] = []
        """Time, end of its log, its CPU seconds."""
        self.stop = threading.Event()

    def work(self) -> None:
        new: dict[str, Any] = {}
        while not new and not self.stop.wait(0.2):
            unknown = [one for one in _replicas(self._data) if one["name"] not in self._known]
            new = unknown[0] if unknown else {}
        pid = 0
        while new and not self.stop.wait(ASK_SECONDS):
            said = said_by(new["http"])
            pid = pid or self._pid(new["name"])
            if said and pid:
                try:
                    self.samples.append((time.monotonic(), said["endOffset"], cpu_seconds(pid)))
                except FileNotFoundError:
                    return  # it has copied and is restarted

    def _pid(self, name: str) -> int:
        """Return the pid of a replica; 0 before its process runs."""
        return next((one["pid"] or 0 for one in _replicas(self._data) if one["name"] == name), 0)


def _replicas(data: str) -> list[dict[str, Any]]:
    return next(one for one in brokers_of(data) if one["name"] == BROKER)["replicas"]


def disk_speed(folder: Path, total: int) -> float:
    """Return MB/s of synced writes."""
    path, step = folder / "floor", os.urandom(STEP_BYTES)
    began = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(total // STEP_BYTES):
            file.write(step)
            os.fdatasync(file.fileno())
    took = time.perf_counter() - began
    path.unlink()
    return total / took / 1e6


def copied(samples: list[tuple[float, int, float]], total: int) -> tuple[float, float]:
    """Return MB/s and the new replica's CPU seconds a GB while it copied."""
    first = max((one for one in samples if one[1] == 0), default=samples[0])
    last = next(one for one in samples if one[1] >= total * SHARE)
    size = last[1] - first[1]
    return size / (last[0] - first[0]) / 1e6, (last[2] - first[2]) / size * 1e9


def measure(options: argparse.Namespace, body: int) -> None:
    unlimited = ("--set", "broker-store.copy_bytes_per_second=0")
    with group(options.replicas, *unlimited, parent=options.parent) as (system, data):
        uvloop.run(fill(system.store, body, options.megabytes * 1_000_000))
        known = {one["name"]: one for one in replicas_of(data)}
        total = said_by(replicas_of(data)[0]["http"])["endOffset"]
        floor = disk_speed(Path(data), min(total, 256_000_000))
        watch = Watch(data, set(known))
        thread = threading.Thread(target=watch.work)
        thread.start()
        try:
            began = time.monotonic()
            command = [str(ROOT / "gantry"), "replicas", "add", BROKER, "--data", data]
            subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=COPY_SECONDS_MAX)
            took = time.monotonic() - began
        finally:
            watch.stop.set()
            thread.join()
        speed, cpu = copied(watch.samples, total)
        figure(
            f"replica_copying.{body} B", speed, "MB/s", floor=floor, beside="synced writes of 8 MiB",
            words=f"{total / 1e6:,.0f} MB of log; CPU of the new replica {cpu:.1f} s a GB; all of `replicas add` {took:.1f} s",
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=400, help="of bodies")
    parser.add_argument("--body", type=int, nargs="+", default=[1024, 16384], help="bytes")
    parser.add_argument("--replicas", type=int, default=3, help="before the new one")
    parser.add_argument("--parent", default=None, help="a folder for the data")
    options = parser.parse_args()
    print(f"replica_copying; {provenance('sync')}")
    for body in options.body:
        measure(options, body)


if __name__ == "__main__":
    main()
