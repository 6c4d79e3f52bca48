"""How many single sends a store takes: raw frames, a window of requests over a few connections, sync and async flush.

    python bench/store_send.py [--seconds 10] [--connections 8] [--window 256] [--body 128] [--flush sync|async|both]

Starts its own store on free ports; prints messages per second, messages per broker CPU second, messages per fdatasync.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path
from struct import Struct
from typing import cast

import uvloop
from system import cpu_seconds, provenance

from gantry_wire.codes import RequestCode
from gantry_wire.frame import encode_request

HEAD = Struct(">iI")
TOPIC = "BenchSend"
READY = re.compile(r"ready address=[\d.]+:(\d+) http_port=(\d+)")


class Frames:
    """Makes send requests that differ in their unique key only."""

    def __init__(self, body_bytes: int, queues: int) -> None:
        self._body = b"x" * body_bytes
        self._queues = queues
        self._count = 0

    def next(self) -> bytes:
        """Return one request."""
        count = self._count = self._count + 1
        header = (
            b'{"code":310,"extFields":{"a":"bench","b":"%b","c":"TBW102","d":"8","e":"%d","f":"0",'
            b'"g":"1700000000000","h":"0","i":"UNIQ_KEY\\u00017F000001%024X\\u0002WAIT\\u0001true\\u0002","j":"0",'
            b'"k":"false","m":"false"},"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON",'
            b'"version":479}' % (TOPIC.encode(), count % self._queues, count, count & 0x7FFFFFFF)
        )
        return HEAD.pack(4 + len(header) + len(self._body), len(header)) + header + self._body


class Sender(asyncio.Protocol):
    """One connection that always has `window` requests under way."""

    def __init__(self, frames: Frames, window: int) -> None:
        self._frames = frames
        self._window = window
        self._held = b""
        self.acknowledged = 0
        self.refused = 0
        self.refusal = ""
        self.stopping = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self.transport.write(b"".join(self._frames.next() for _ in range(self._window)))

    def data_received(self, data: bytes) -> None:
        data = self._held + data
        at, answers = 0, 0
        while at + 4 <= len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if end > len(data):
                break
            answers += 1
            if not data.startswith(b'{"code":0,', at + 8):
                self.refused += 1
                self.refusal = self.refusal or data[at:end].decode(errors="replace")
            at = end
        self._held = data[at:]
        self.acknowledged += answers
        if answers and not self.stopping and self.transport is not None:
            self.transport.write(b"".join(self._frames.next() for _ in range(answers)))


@contextlib.contextmanager
def store(flush: str, folder: str, *settings: str) -> Generator[tuple[int, int, int]]:
    """Start a store; yields pid, remoting port, HTTP port."""
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


def figure(http_port: int, name: str) -> float:
    """Read one figure of the store."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return float(re.search(rf"^gantry_store_{name} (\S+)", text, re.MULTILINE)[1])  # type: ignore[index]


async def make_topic(port: int, queues: int) -> None:
    """Make the topic with as many queues as are sent to."""
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


async def load(port: int, options: argparse.Namespace, http_port: int, pid: int) -> dict[str, float]:
    """Send for a while; returns the figures of the time after the warm-up."""
    loop = asyncio.get_running_loop()
    await make_topic(port, options.queues)
    frames = Frames(options.body, options.queues)
    senders: list[Sender] = []
    for _ in range(options.connections):
        _, sender = await loop.create_connection(
            lambda: Sender(frames, options.window // options.connections), "127.0.0.1", port
        )
        senders.append(sender)
    await asyncio.sleep(1.0)
    syncs = await asyncio.to_thread(figure, http_port, "append_syncs")
    began, cpu, sent = time.perf_counter(), cpu_seconds(pid), sum(sender.acknowledged for sender in senders)
    await asyncio.sleep(options.seconds)
    took, used = time.perf_counter() - began, cpu_seconds(pid) - cpu
    messages = sum(sender.acknowledged for sender in senders) - sent
    syncs = await asyncio.to_thread(figure, http_port, "append_syncs") - syncs
    for sender in senders:
        sender.stopping = True
    await asyncio.sleep(0.2)
    for sender in senders[:1]:
        if sender.refusal:
            print("first refusal:", sender.refusal)
    return {
        "messages_per_second": round(messages / took),
        "messages_per_cpu_second": round(messages / used),
        "broker_cores": round(used / took, 2),
        "messages_per_fdatasync": round(messages / syncs, 1) if syncs else 0,
        "refused": sum(sender.refused for sender in senders),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--body", type=int, default=128)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--flush", choices=("sync", "async", "both"), default="both")
    parser.add_argument("--set", action="append", default=[], help="a setting of the store, as name=value")
    options = parser.parse_args()
    print(provenance(options.flush))
    for flush in ("async", "sync") if options.flush == "both" else (options.flush,):
        with (
            tempfile.TemporaryDirectory(prefix="gantry-send-") as folder,
            store(flush, folder, *options.set) as running,
        ):
            pid, port, http_port = running
            result = uvloop.run(load(port, options, http_port, pid))
        print(json.dumps({"flush": flush, **result}))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
