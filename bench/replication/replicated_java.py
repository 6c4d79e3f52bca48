"""RocketMQ's own Producer against Gantry with 1, 2 and 3 replicas, and against RocketMQ's master with a slave, in turns.

    python bench/replication/replicated_java.py --jars DIR[:DIR...] [--replicas 1 2 3] [--body 128 1024] [--seconds 15] [--turns 1]
                                                [--threads 32] [--followers-on DIR] [--no-rocketmq]

The folders are those of rocketmq.py, with `rocketmq-controller` and `rocketmq-tools`. Gantry acknowledges what every replica in sync has on disk.
RocketMQ's master syncs, and waits for its slave, which reports what it has written, before its own sync; `mqadmin getSyncStateSet` says that the slave is
in sync. All processes and disks share one machine. `--followers-on /dev/shm` takes the followers' syncs off the disk, for both.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from measuring.system import end_in_order, provenance
from peers.rocketmq_report import Side
from peers.rocketmq_run import Broker, Java, Trial, run_trial
from replication.group import group, replicas_of
from replication.rocketmq_pair import NotInSync, rocketmq_pair
from reporting.figures import figure, skipped

PAIR = 0
"""Stands for RocketMQ's pair among the numbers of replicas."""
NAMES = {1: "single store", 2: "1 follower", 3: "2 followers", 5: "4 followers"}

Found = dict[tuple[int, int], list[Side]]
"""By replicas and bytes of a body."""


def trials(options: argparse.Namespace) -> Iterator[Trial]:
    for size in options.body:
        yield Trial(f"producer, {size} B", "Producer", (), "sync", body_bytes=size)


def against_gantry(count: int, options: argparse.Namespace, java: Java) -> Iterator[tuple[int, Side]]:
    """Measure Gantry with so many replicas."""
    with group(count, followers_on=options.followers_on) as (system, data):
        for size, trial in zip(options.body, trials(options), strict=True):
            leader = replicas_of(data)[0]
            yield size, run_trial(java, Broker(system.nameserver, leader["pid"]), trial, options)


def against_pair(options: argparse.Namespace, java: Java, folder: Path) -> Iterator[tuple[int, Side]]:
    """Measure RocketMQ's master with its slave."""
    elsewhere = (
        tempfile.mkdtemp(prefix="gantry-slave-", dir=options.followers_on) if options.followers_on else ""
    )
    try:
        with rocketmq_pair(java, folder, slave_on=elsewhere) as broker:
            for size, trial in zip(options.body, trials(options), strict=True):
                yield size, run_trial(java, broker, trial, options)
    finally:
        if elsewhere:
            shutil.rmtree(elsewhere, ignore_errors=True)


def measured(options: argparse.Namespace, java: Java, folder: Path) -> Found:
    """Measure all sides in turns, every second time in reversed order."""
    found: Found = {}
    sides = [*options.replicas, *(() if options.no_rocketmq else (PAIR,))]
    for turn in range(options.turns):
        for count in sides if turn % 2 == 0 else reversed(sides):
            try:
                results = (
                    against_gantry(count, options, java)
                    if count != PAIR
                    else against_pair(options, java, folder / f"pair-{turn}")
                )
                for size, side in results:
                    print(f"{NAMES.get(count, 'RocketMQ pair')}, {size} B: {words_of(side)}", flush=True)
                    found.setdefault((count, size), []).append(side)
            except NotInSync as words:
                skipped("RocketMQ pair", str(words))
    return found


def words_of(side: Side) -> str:
    result = side.result
    return f"{result.rate:,.0f}/s, {result.latency_ms:.2f} ms, {result.failed} failed"


def rate_of(sides: list[Side] | None) -> float | None:
    return fmean(side.result.rate for side in sides) or None if sides else None


def report(found: Found, options: argparse.Namespace) -> None:
    """Report each side, followed ones beside the single store and beside RocketMQ."""
    for size in options.body:
        single, pair = rate_of(found.get((1, size))), rate_of(found.get((PAIR, size)))
        for count in sorted(options.replicas):
            sides = found.get((count, size))
            rate = rate_of(sides)
            if rate is None or sides is None:
                skipped(f"replicated_java.{NAMES[count]}, {size} B", "the Producer reported nothing")
                continue
            words = "; ".join(map(words_of, sides))
            floor, beside = (None, "") if count == 1 else (single, NAMES[1] if single else "")
            figure(
                f"replicated_java.{NAMES[count]}, {size} B", rate, "msg/s", floor=floor, beside=beside, words=words
            )  # fmt: skip
        rate, pairs = rate_of(found.get((2, size))), found.get((PAIR, size))
        if rate is not None and pairs is not None and pair is not None:
            figure(
                f"replicated_java.1 follower, RocketMQ, {size} B", rate, "msg/s", floor=pair,
                beside="RocketMQ's master with a slave", words="; ".join(map(words_of, pairs)),
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jars", default="", help="folders of RocketMQ's jars or classes, separated by ':'")
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 3], choices=sorted(NAMES))
    parser.add_argument("--body", type=int, nargs="+", default=[128, 1024], help="bytes")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement, after the warm-up")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--followers-on", default="", metavar="DIR", help="a folder for the followers' data")
    parser.add_argument("--no-rocketmq", action="store_true", help="without RocketMQ's own broker")
    options = parser.parse_args()
    print(f"replicated_java; {provenance('sync, every replica in sync')}")
    if not options.jars or not shutil.which("java"):
        skipped("replicated_java", "it needs --jars and a java on PATH; bench/README.md says how to get them")
        return
    end_in_order()
    with tempfile.TemporaryDirectory(prefix="gantry-rocketmq-") as name:
        folder = Path(name)
        report(measured(options, Java(options.jars, folder), folder), options)


if __name__ == "__main__":
    main()
