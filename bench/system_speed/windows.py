"""Sends and pulls at 1, 32 and 256 in flight, of 128 B, 1 KiB and 64 KiB, over remoting and over HTTP.

    python bench/system_speed/windows.py [--seconds 3] [--flush sync] [--over remoting|http] [--body 128 1024 65536] [--window 1 32 256]

Over remoting the requests in flight share up to 8 connections; over HTTP each has its own connection. Pulls read what the
previous sends stored: 32 messages each, fewer if they are large.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from urllib.request import urlopen

import uvloop

from http_speed.http_send import load
from http_speed.receive_ack import post
from measuring.system import System, provenance, started
from reporting.figures import figure
from store_speed.flood import Sends, flood
from store_speed.store_pull import QUEUES, Filled, one_record, pull_rate

PULL_BYTES = 200_000
"""Below the size limit of a store's answer (`pull_bytes_max`)."""
CONNECTIONS = 8
STORED_LEAST = 2_000


def named(size: int) -> str:
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} B"


def make_topic(system: System, topic: str) -> None:
    post(f"{system.http}/v1/topics/{topic}", {"readQueues": QUEUES, "writeQueues": QUEUES}, "PUT")


async def remoting(system: System, size: int, options: argparse.Namespace) -> None:
    topic = f"windows-{size}"
    await asyncio.to_thread(make_topic, system, topic)
    sends, stored = Sends(topic, range(QUEUES), b"x" * size), 0.0
    port = int(system.store.rpartition(":")[2])
    for window in options.window:
        shape = {"connections": min(window, CONNECTIONS), "window": window}
        rate = await flood(system.store, sends, seconds=options.seconds, **shape)
        stored += rate * options.seconds
        figure(f"windows.remoting send, {named(size)}, {window} in flight", rate, "msg/s")
    while stored < STORED_LEAST:
        stored += await flood(system.store, sends, seconds=1.0)
    batch = max(1, min(32, PULL_BYTES // size))
    filled = Filled(topic, int(stored * 0.9) // QUEUES, await one_record(port, topic), batch)
    for window in options.window:
        connections = min(window, CONNECTIONS)
        rate, used = await pull_rate(port, system.store_pid, filled, connections, window, options.seconds)
        words = f"{batch} a pull, {used * 1e6:.2f} us CPU of the broker each"
        figure(f"windows.remoting pull, {named(size)}, {window} in flight", rate, "msg/s", words=words)


def over_http(system: System, size: int, options: argparse.Namespace) -> None:
    topic = f"windows-http-{size}"
    make_topic(system, topic)
    url = f"{system.http}/v1/topics/{topic}"
    body = json.dumps({"messages": [{"body": "x" * size}]}).encode()
    for _ in range(64 * QUEUES):
        post(f"{url}/messages", {"messages": [{"body": "x" * size}]})
    for window in options.window:
        found = load(f"{url}/messages", body, window, options.seconds, with_wrk=False)
        _report("send", size, window, found, 1)
    queue = f"{url}/queues/broker-a/0/messages?offset=0&max=32"
    with urlopen(queue, timeout=60) as answer:
        batch = len(json.loads(answer.read())["messages"])
    for window in options.window:
        found = load(queue, b"", window, options.seconds, with_wrk=False, method="GET")
        _report("pull", size, window, found, batch)


def _report(what: str, size: int, window: int, found: dict[str, float], batch: int) -> None:
    words = f"p50 {found['p50_ms']:.2f} ms, p99 {found['p99_ms']:.2f} ms"
    words += f", {batch} a pull" if what == "pull" else ""
    words += f", FAILED {found['failed']}" if found["failed"] else ""
    key = f"windows.HTTP {what}, {named(size)}, {window} in flight"
    figure(key, found["per_second"] * batch, "msg/s", words=words)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--flush", default="sync", choices=["sync", "async"])
    parser.add_argument("--over", choices=["remoting", "http"], help="only this way")
    parser.add_argument("--body", type=int, nargs="+", default=[128, 1024, 65536], help="bytes")
    parser.add_argument("--window", type=int, nargs="+", default=[1, 32, 256], help="requests in flight")
    options = parser.parse_args()
    print(f"windows; {provenance(options.flush)}")
    with started("--flush", options.flush) as system:
        for size in options.body:
            if options.over != "http":
                uvloop.run(remoting(system, size, options))
            if options.over != "remoting":
                over_http(system, size, options)


if __name__ == "__main__":
    main()
