"""A cold `./gantry report` on a log that our own store wrote: first words, first table, all; CPU seconds and memory of its processes.

    python bench/spark_report.py [--megabytes 500] [--store DIR] [--runs 2]

Without --store it starts a store, fills twelve topics with messages of about 250 B in the log, stops it, and reads its directory.
The first run of a machine also warms the page cache and Java's files, so the last of --runs counts. Goals: first words 2 s, first
table 15 s, all 40 s on two quiet cores, 250 MB for a Python worker; beside it the time of a plain read with CRC32 of every byte, for the ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from zlib import crc32

import uvloop
from flood import KEY_PLACE, Sends, flood
from process_tree import Watch
from store_send import store
from system import ROOT, provenance

from gantry_wire.codes import RequestCode
from gantry_wire.frame import encode_request
from gantry_wire.headers import SendHeaderV2

TOPICS, QUEUES, BODY_BYTES, TAGS = 12, 4, 40, 5
FILL_SECONDS = 2.0
SEGMENT_BYTES = 256 * 1024 * 1024


class Orders(Sends):
    """Sends with a tag of five and a key of their own, beside the unique key: what sketches find it hardest to count."""

    def __init__(self, topic: str) -> None:
        """Messages of one topic; their born time is now."""
        self._parts: list[list[bytes]] = []
        self._number = time.time_ns()
        for number in range(QUEUES * TAGS):
            properties = f"UNIQ_KEY\x01{KEY_PLACE}\x02KEYS\x01order-{KEY_PLACE}\x02TAGS\x01tag-{number % TAGS}\x02WAIT\x01true\x02"
            header = SendHeaderV2(
                producer_group="flood", topic=topic, default_topic="TBW102", default_topic_queue_nums=QUEUES,
                queue_id=number % QUEUES, sys_flag=0, born_timestamp=int(time.time() * 1000), flag=0, properties=properties,
            )  # fmt: skip
            frame = encode_request(RequestCode.SEND_MESSAGE_V2, 7, header, os.urandom(BODY_BYTES))
            self._parts.append(frame.split(KEY_PLACE.encode()))

    def frames(self, count: int) -> bytes:
        """The next `count` frames, joined."""
        first = self._number
        self._number = first + count
        some = len(self._parts)
        return b"".join(
            (b"%032X" % number).join(self._parts[number % some]) for number in range(first, first + count)
        )


async def fill(port: int, folder: Path, megabytes: int) -> None:
    """Send to one topic after the other until the log holds so much."""
    number = 0
    while written_bytes(folder) < megabytes * 1_000_000:
        await flood(f"127.0.0.1:{port}", Orders(f"topic-{number % TOPICS}"), seconds=FILL_SECONDS)
        number += 1
        await asyncio.sleep(0)


def written_bytes(folder: Path) -> int:
    """Return how much the log holds, about: blocks of its segments that were written to."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("commitlog/*"))


def read_with_crc(folder: Path) -> tuple[float, int]:
    """Return the time of a sequential read with CRC32 of every byte, and the bytes."""
    buffer = bytearray(1 << 20)
    view, began, total, crc = memoryview(buffer), time.perf_counter(), 0, 0
    for path in sorted(folder.rglob("commitlog/*")):
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                crc = crc32(view[:count], crc)
                total += count
    return time.perf_counter() - began, total


def report(folder: Path, out: Path) -> dict[str, Any]:
    """Run one report and return when it said what."""
    began = time.perf_counter()
    command = [str(ROOT / "gantry"), "report", "--store", str(folder), "--out", str(out), "--no-open"]
    seconds: dict[str, float] = {}
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process,
        Watch(process.pid) as watch,
    ):
        assert process.stderr is not None
        for line in process.stderr:
            now = time.perf_counter() - began
            seconds.setdefault("first_words", now)
            if " messages in " in line:
                seconds.setdefault("first_table", now)
            sys.stderr.write(line)
    if process.returncode:
        sys.exit(f"the report ended with {process.returncode}")
    seconds["all"] = time.perf_counter() - began
    found = json.loads((out / "report.json").read_text())
    return {
        **{name: round(value, 1) for name, value in seconds.items()},
        "cpu_seconds": round(watch.cpu, 1),
        "java_mb": watch.peak_mb("java"),
        "largest_python_worker_mb": watch.peak_mb("python"),
        "load": round(os.getloadavg()[0], 1),
        "messages": found["totals"]["messages"],
        "check": found["check"]["state"],
    }


def measure(folder: Path, runs: int) -> None:
    """Report some times, and print each run beside the plain read."""
    plain, size = read_with_crc(folder)
    print(f"plain read with CRC32 of {size / 1e6:.0f} MB: {plain:.2f} s")
    with tempfile.TemporaryDirectory(prefix="gantry-report-bench-") as out:
        for number in range(runs):
            print(json.dumps(report(folder, Path(out) / str(number))), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--store", type=Path, help="a store's directory that is there already")
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    print(provenance("async"))
    if options.store:
        measure(options.store, options.runs)
        return
    with tempfile.TemporaryDirectory(prefix="gantry-report-log-") as folder:
        with store("async", folder, f"segment_bytes={SEGMENT_BYTES}", "send_wait_ms_max=60000") as running:
            uvloop.run(fill(running[1], Path(folder), options.megabytes))
        measure(Path(folder), options.runs)


if __name__ == "__main__":
    main()
