"""A cold `./gantry report` on a log of Gantry's store: first output, first table, all; CPU seconds and memory of its processes.

    python bench/spark_speed/spark_report.py [--megabytes 500] [--body 40] [--store DIR] [--runs 2]

Without --store it starts a store, fills twelve topics with messages of about 250 B in the log (a body of 40 B), stops it, and reads its directory.
The first run on a machine also warms the page cache and Java's files, so the last of --runs counts. Goals: first output 2 s, first
table 15 s, all 40 s on two quiet cores, 250 MB for a Python worker; the floor is a plain read with CRC32 of every byte.

The first table is the one by the queues: Spark has not started and nothing of the log was read. `first count` is the time when messages by topic were
counted in the log; the goal of the first table applies to it too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring.process_tree import Watch
from measuring.system import ROOT, provenance
from reporting.figures import figure
from spark_speed.spark_store import BODY_BYTES, read_with_crc, stopped_store


def report(folder: Path, out: Path) -> dict[str, Any]:
    """Run a report and return the time of each output."""
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
            seconds.setdefault("first words", now)
            if " messages in " in line:
                seconds.setdefault("first table" if "by the queues" in line else "first count", now)
            sys.stderr.write(line)
    if process.returncode:
        sys.exit(f"the report ended with {process.returncode}")
    seconds["all"] = time.perf_counter() - began
    found = json.loads((out / "report.json").read_text())
    return {
        **seconds,
        "cpu": watch.cpu,
        "java": watch.peak_mb("java"),
        "worker": watch.peak_mb("python"),
        "driver": watch.root_mb,  # the launcher becomes it
        "messages": found["totals"]["messages"],
        "check": found["check"]["state"],
    }


def measure(folder: Path, runs: int, of: str) -> None:
    """Report several times; the last one counts. `of`: the difference of the log from the usual one."""
    plain, size = read_with_crc(folder)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="gantry-report-bench-") as out:
        for number in range(runs):
            found = report(folder, Path(out) / str(number))
            times = (
                f"{name} {round(value, 1) if isinstance(value, float) else value}"
                for name, value in found.items()
            )
            print(f"run {number + 1} of {runs}: {', '.join(times)}", flush=True)
    figure(f"spark_report.first words{of}", found["first words"], "s")
    figure(f"spark_report.first table{of}", found["first table"], "s")
    figure(
        f"spark_report.first count{of}",
        found["first count"],
        "s",
        words="messages by topic, counted in the log",
    )
    figure(
        f"spark_report.all{of}", found["all"], "s", floor=plain, beside="a plain read with CRC32",
        words=f"{size / 1e6:.0f} MB, {found['messages']:,} messages, {found['cpu']:.0f} CPU seconds; equal to the queues: {found['check']}",
    )  # fmt: skip
    figure(
        f"spark_report.worker{of}", found["worker"], "MB",
        words=f"the driver {found['driver']} MB, Java {found['java']} MB",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--body", type=int, default=BODY_BYTES, help="bytes of a message's body")
    parser.add_argument("--store", type=Path, help="a store's directory that is there already")
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    print(provenance("async"))
    of = f", bodies of {options.body} B" if options.body != BODY_BYTES else ""
    with stopped_store(options.store, options.megabytes, options.body) as folder:
        measure(folder, max(1, options.runs), of)


if __name__ == "__main__":
    main()
