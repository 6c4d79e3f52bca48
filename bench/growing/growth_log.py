"""Speed as the store's log grows: sends to its end, pulls at its end and of its oldest messages, compared with a log of 100 MB.

    python bench/growing/growth_log.py [--seconds 6] [--gigabytes 2]

Messages of 1 KiB in eight queues; then the start after a clean stop and after kill -9. Ten gigabytes: --gigabytes 10, with twice
that free in the folder of temporary files.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import uvloop

from growing.rates import pull_rate
from measuring.system import provenance, pss_bytes
from reporting.figures import figure
from store_speed.flood import Sends, flood
from store_speed.recovery import QUEUES, Store, fill
from store_speed.recovery import TOPIC as LOG_TOPIC

LOG_BODY = bytes(1024)
SMALL_MEGABYTES = 100
RECENT = 20_000
"""Messages of each queue that count as its end."""
FAR_BACK = "further back than 40 % of the machine's memory a pull gets 8 messages at most, as in RocketMQ"


async def at(store: Store, per_queue: int, seconds: float) -> dict[str, float]:
    """Measure sends to a log, pulls of its oldest messages and at its end; return messages per second."""
    queues = [(LOG_TOPIC, number) for number in range(QUEUES)]
    first = dict.fromkeys(queues, (0, min(RECENT, per_queue)))
    last = dict.fromkeys(queues, (max(per_queue - RECENT, 0), per_queue))
    return {
        "pulls of the oldest": await pull_rate(store.address, queues, seconds, bounds=first),
        "pulls at the end": await pull_rate(store.address, queues, seconds, bounds=last),
        "sends": await flood(store.address, Sends(LOG_TOPIC, range(QUEUES), LOG_BODY), seconds=seconds),
    }


def log(gigabytes: float, seconds: float) -> None:
    """Measure a small log, fill it, measure again, stop and start."""
    if shutil.disk_usage(tempfile.gettempdir()).free < gigabytes * 2e9:
        sys.exit(
            f"{tempfile.gettempdir()} has less than {gigabytes * 2:g} GB free: fewer --gigabytes, or another TMPDIR"
        )
    with tempfile.TemporaryDirectory(prefix="gantry-growth-") as folder, Store(Path(folder)) as store:
        figures: list[dict[str, float]] = []
        count, starts = 0, [store.start()]
        for megabytes in (SMALL_MEGABYTES, max(round(gigabytes * 1000) - SMALL_MEGABYTES, SMALL_MEGABYTES)):
            count += uvloop.run(fill(store.address, megabytes, LOG_BODY))
            figures.append(uvloop.run(at(store, count // QUEUES, seconds)))
        memory = pss_bytes(store.pid)
        for number in (signal.SIGTERM, signal.SIGKILL):
            store.end(number)
            starts.append(store.start())
    size = f"log of {gigabytes:g} GB"
    for name, value in figures[1].items():
        key = f"growth_log.{name}, {size}"
        words = FAR_BACK if name.endswith("oldest") else ""
        figure(key, value, "msg/s", floor=figures[0][name], beside=f"{SMALL_MEGABYTES} MB", words=words)
    empty, clean, killed = starts
    figure(f"growth_log.memory, {size}", memory / 1e6, "MB")
    figure(f"growth_log.start after a stop, {size}", clean, "s", floor=empty, beside="an empty store")
    figure(f"growth_log.start after kill -9, {size}", killed, "s", floor=empty, beside="an empty store")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--gigabytes", type=float, default=2.0, help="of the log")
    options = parser.parse_args()
    print(f"growth; {provenance('async')}")
    log(options.gigabytes, options.seconds)


if __name__ == "__main__":
    main()
