"""The rate of sends to a store: raw frames, a window of requests over a few connections, sync and async flush.

    python bench/store_speed/store_send.py [--seconds 10] [--connections 8] [--window 256] [--body 128] [--batch 32] [--flush sync|async|both]

`--batch` sends batches of so many messages instead of single ones; the window counts requests, the rate counts messages.

Starts a store on free ports; prints messages per second, messages per broker CPU second, messages per fdatasync.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator

import uvloop

from gantry_wire.codes import RequestCode
from gantry_wire.frames.encode import encode_request
from measuring.system import cpu_seconds, end_in_order, provenance
from reporting.figures import figure
from store_speed.flood import Sends, flood

TOPIC = "BenchSend"
READY = re.compile(r"ready address=[\d.]+:(\d+) http_port=(\d+)")


@contextlib.contextmanager
def store(flush: str, folder: str, *settings: str) -> Generator[tuple[int, int, int]]:
    """Start a store; yields pid, remoting port, HTTP port."""
    end_in_order()
    chosen = [f"store_dir={folder}", f"flush={flush}", "port=0", *settings]
    command = [sys.executable, "-m", "broker_store", *(word for pair in chosen for word in ("--set", pair))]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            found = READY.search(line)
            if found:
                yield process.pid, int(found[1]), int(found[2])
                break
        else:
            sys.exit("the store did not start")
    finally:
        process.terminate()
        process.communicate()


def counted(http_port: int, name: str) -> float:
    """Read a metric of the store."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return float(re.search(rf"^gantry_store_{name}(?:_total)? (\S+)", text, re.MULTILINE)[1])  # type: ignore[index]


async def make_topic(port: int, queues: int) -> None:
    """Create the topic with as many queues as are used."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    fields = {
        "topic": TOPIC,
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "order": "false",
    }
    writer.write(encode_request(RequestCode.UPDATE_AND_CREATE_TOPIC, 1, fields))
    await reader.read(65536)
    writer.close()


async def load(port: int, options: argparse.Namespace, http_port: int, pid: int) -> tuple[float, str]:
    """Send for a while; return messages per second after a short warm-up, and their cost."""
    await make_topic(port, options.queues)
    sends = Sends(TOPIC, range(options.queues), b"x" * options.body, options.batch)
    shape = {"connections": options.connections, "window": options.window}
    await flood(f"127.0.0.1:{port}", sends, seconds=1.0, **shape)
    syncs = await asyncio.to_thread(counted, http_port, "append_syncs")
    began, cpu = time.perf_counter(), cpu_seconds(pid)
    rate = options.batch * await flood(f"127.0.0.1:{port}", sends, seconds=options.seconds, **shape)
    took, used = time.perf_counter() - began, cpu_seconds(pid) - cpu
    syncs = await asyncio.to_thread(counted, http_port, "append_syncs") - syncs
    each = f"{rate * took / syncs:,.1f} messages per fdatasync, " if syncs else ""
    return rate, f"{each}{rate * took / used:,.0f} per CPU second, {used / took:.2f} of a core"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--body", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1, help="messages per request")
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--flush", choices=("sync", "async", "both"), default="both")
    parser.add_argument("--set", action="append", default=[], help="a setting of the store, as name=value")
    options = parser.parse_args()
    print(provenance(options.flush))
    shape, without = f"w{options.window}.c{options.connections}.{options.body}B", None
    if options.batch > 1:
        shape += f".batch{options.batch}"
    for flush in ("async", "sync") if options.flush == "both" else (options.flush,):
        with (
            tempfile.TemporaryDirectory(prefix="gantry-send-") as folder,
            store(flush, folder, *options.set) as running,
        ):
            pid, port, http_port = running
            rate, words = uvloop.run(load(port, options, http_port, pid))
        figure(
            f"store_send.{flush}.{shape}",
            rate,
            "msg/s",
            floor=without,
            beside="async" if without else "",
            words=words,
        )
        without = rate


if __name__ == "__main__":
    main()
