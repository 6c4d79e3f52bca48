"""Receive and acknowledge over HTTP in batches, compared with batches sent over HTTP: messages received and acknowledged per second.

    python bench/http_speed/receive_ack.py [--messages 300000] [--consumers 8] [--batch 32] [--flush sync] [--in-flight 100000]
    python bench/http_speed/receive_ack.py --load URL --messages N --consumers C --batch B      (what the program runs as a process of its own)

Each consumer receives a batch, acknowledges all of it with one request, and repeats. Acknowledgements are durable before they are
answered. Then `--in-flight` messages are received and not acknowledged, to measure the store's additional memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import uvloop

from http_speed.http_load import Answers
from measuring.system import cpu_seconds, percentile, provenance, started
from reporting.figures import figure

BODY = "x" * 128
SEND_BATCH = 500
HANDLE = re.compile(rb'"receiptHandle":"([^"]+)"')


class Consumer(Answers):
    """A connection: receive, acknowledge, receive, … until enough was received."""

    def __init__(self, host: str, path: str, batch: int, tally: Tally) -> None:
        super().__init__()
        self._tally = tally
        self._path, self._host, self._batch = path, host, batch
        self._sent_s = 0.0
        self._is_ack = False

    def answered(self, answer: bytes) -> None:
        if answer[9:12] != b"200":
            sys.exit(f"refused: {answer[:2000]!r}")
        if self._is_ack:
            self._acked(answer)
        else:
            self._received(answer)

    def _received(self, reply: bytes) -> None:
        self._tally.receive_s.append(time.perf_counter() - self._sent_s)
        handles = HANDLE.findall(reply)
        self._tally.received += len(handles)
        if not handles:
            self._go_on()
            return
        self._is_ack = True
        items = b",".join([b'{"receiptHandle":"' + handle + b'"}' for handle in handles])
        self._post(b"ack", b'{"acks":[' + items + b"]}")

    def _acked(self, reply: bytes) -> None:
        self._tally.ack_s.append(time.perf_counter() - self._sent_s)
        self._tally.acked += reply.count(b'"acked"')
        self._go_on()

    def _go_on(self) -> None:
        if self._tally.acked >= self._tally.wanted:
            self.transport.close()
        else:
            self.begin()

    def begin(self) -> None:
        """Request a batch."""
        self._is_ack = False
        self._post(b"receive", b'{"maxMessages":%d,"waitSeconds":1,"invisibleSeconds":60}' % self._batch)

    def _post(self, verb: bytes, body: bytes) -> None:
        self._sent_s = time.perf_counter()
        head = f"POST {self._path}:{verb.decode()} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
        self.transport.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)


class Tally:
    """The totals of all consumers."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.received = self.acked = 0
        self.receive_s: list[float] = []
        self.ack_s: list[float] = []


async def consume(url: str, messages: int, consumers: int, batch: int) -> dict[str, float]:
    """Receive and acknowledge this number of messages."""
    parts = urlsplit(url)
    tally = Tally(messages)
    loop = asyncio.get_running_loop()
    made = [
        (
            await loop.create_connection(
                lambda: Consumer(parts.netloc, parts.path, batch, tally),
                parts.hostname or "127.0.0.1",
                parts.port or 80,
            )
        )[1]
        for _ in range(consumers)
    ]
    begun = time.perf_counter()
    for one in made:
        one.begin()
    await asyncio.gather(*(one.done for one in made))
    took = time.perf_counter() - begun
    receive_s, ack_s = sorted(tally.receive_s), sorted(tally.ack_s)
    return {
        "received": tally.received,
        "acked": tally.acked,
        "per_second": tally.acked / took,
        "receive_p50_ms": 1000 * percentile(receive_s, 0.5),
        "receive_p99_ms": 1000 * percentile(receive_s, 0.99),
        "ack_p50_ms": 1000 * percentile(ack_s, 0.5),
        "ack_p99_ms": 1000 * percentile(ack_s, 0.99),
    }


def post(url: str, body: dict[str, Any], method: str = "POST") -> dict[str, Any]:
    """Make one call."""
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"}, method=method)
    with urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def fill(http: str, messages: int) -> float:
    """Send messages in batches; return the rate per second."""
    begun = time.perf_counter()
    body = {"messages": [{"body": BODY}] * SEND_BATCH}
    for _ in range(-(-messages // SEND_BATCH)):
        post(f"{http}/v1/topics/bench/messages", body)
    return messages / (time.perf_counter() - begun)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def measure(http: str, store_pid: int, gateway_pids: list[int], options: argparse.Namespace) -> None:
    """Fill the topic, consume it, then keep some messages on lease."""
    post(f"{http}/v1/topics/bench", {"readQueues": 8, "writeQueues": 8}, "PUT")
    sent = fill(http, options.messages + options.in_flight + 10_000)
    url = f"{http}/v1/topics/bench/groups/bench/messages"
    _load(url, 5_000, options)
    before_s, gateway_before_s = cpu_seconds(store_pid), sum(map(cpu_seconds, gateway_pids))
    figures = _load(url, options.messages, options)
    store_us = 1e6 * (cpu_seconds(store_pid) - before_s) / figures["acked"]
    gateway_us = 1e6 * (sum(map(cpu_seconds, gateway_pids)) - gateway_before_s) / figures["acked"]
    words = (
        f"batches of {options.batch}, {options.consumers} consumers, receive p50 {figures['receive_p50_ms']:.2f} p99 {figures['receive_p99_ms']:.2f} ms, "
        f"ack p50 {figures['ack_p50_ms']:.2f} p99 {figures['ack_p99_ms']:.2f} ms, "
        f"CPU a message: store {store_us:.1f} us, gateway {gateway_us:.1f} us"
    )
    beside = f"batches of {SEND_BATCH} sent one after the other"
    figure("receive_ack.rate", figures["per_second"], "msg/s", floor=sent, beside=beside, words=words)
    before_mb = resident_mb(store_pid)
    held = 0
    while held < options.in_flight:
        given = post(f"{url}:receive", {"maxMessages": 256, "invisibleSeconds": 3600})["messages"]
        if not given:
            break
        held += len(given)
    figure(
        "receive_ack.in flight",
        resident_mb(store_pid) - before_mb,
        "MB",
        words=f"{held:,} messages in flight",
    )


def _load(url: str, messages: int, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--load", url, "--messages", str(messages)]
    command += ["--consumers", str(options.consumers), "--batch", str(options.batch)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--consumers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--in-flight", type=int, default=100_000)
    parser.add_argument("--flush", choices=["sync", "async"], default="sync")
    parser.add_argument("--gateway-workers", type=int, default=1)
    parser.add_argument("--load", help="consume at this URL and print the results as JSON")
    parser.add_argument("--http", help="use a running system; needs --store-pid")
    parser.add_argument("--store-pid", type=int, default=0)
    parser.add_argument("--gateway-pid", type=int, nargs="*", default=[])
    options = parser.parse_args()
    if options.load:
        print(
            json.dumps(uvloop.run(consume(options.load, options.messages, options.consumers, options.batch)))
        )
        return
    print(provenance(f"flush={options.flush}"))
    if options.http:
        measure(options.http, options.store_pid, options.gateway_pid, options)
        return
    with started("--flush", options.flush, "--gateway-workers", str(options.gateway_workers)) as system:
        measure(system.http, system.store_pid, system.raw["pids"]["gateway"], options)


if __name__ == "__main__":
    main()
