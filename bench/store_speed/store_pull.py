"""The rate of pulling stored messages: raw pull frames of 32 messages, several outstanding on a few connections.

    python bench/store_speed/store_pull.py [--seconds 10] [--connections 4] [--window 16] [--body 128] [--messages 200000] [--batch 32]

Starts a store on free ports, fills a topic, then reads it repeatedly; prints messages per second, messages per broker CPU
second and the broker's cost of a pull. Every answer is checked: its code, and that it has as many complete records as requested.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from struct import Struct
from typing import cast

import uvloop

from measuring.system import cpu_seconds, provenance
from reporting.figures import figure
from store_speed.flood import Sends, flood
from store_speed.store_send import store

HEAD = Struct(">iI")
TOPIC = "BenchPull"
BATCH = 32
QUEUES = 4
_SUCCESS = b'{"code":0,'


def pull_frame(topic: str, opaque: int, queue_id: int, offset: int, batch: int = BATCH) -> bytes:
    """Return a pull as a Java client writes it."""
    header = (
        b'{"code":11,"extFields":{"commitOffset":"0","consumerGroup":"bench","expressionType":"TAG","maxMsgNums":"%d",'
        b'"queueId":"%d","queueOffset":"%d","subVersion":"0","subscription":"*","suspendTimeoutMillis":"0","sysFlag":"4",'
        b'"topic":"%b"},"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":479}'
        % (batch, queue_id, offset, topic.encode(), opaque)
    )
    return HEAD.pack(4 + len(header), len(header)) + header


@dataclass(frozen=True)
class Filled:
    """A topic to pull from: messages in each queue, bytes of a record, messages a pull."""

    topic: str
    per_queue: int
    record_bytes: int
    batch: int


class Puller(asyncio.Protocol):
    """A connection that always has `window` pulls outstanding, each going through one queue repeatedly."""

    def __init__(self, window: int, filled: Filled) -> None:
        batch = filled.batch
        self._offsets = [(number * batch) % (filled.per_queue - batch) for number in range(window)]
        self._filled = filled
        self._body_bytes = filled.record_bytes * batch
        self._held = bytearray()
        self.pulls = 0
        self.wrong = ""
        self.stopping = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        self.transport.write(b"".join(self._next(number) for number in range(len(self._offsets))))

    def _next(self, number: int) -> bytes:
        offset = self._offsets[number]
        batch = self._filled.batch
        after = offset + batch
        self._offsets[number] = after if after + batch <= self._filled.per_queue else 0
        return pull_frame(self._filled.topic, number, number % QUEUES, offset, batch)

    def data_received(self, data: bytes) -> None:
        held = self._held
        held += data
        at, answered = 0, 0
        while len(held) - at >= HEAD.size:
            length, header_bytes = HEAD.unpack_from(held, at)
            if at + 4 + length > len(held):
                break
            if not held.startswith(_SUCCESS, at + 8) or length - 4 - header_bytes != self._body_bytes:
                self.wrong = self.wrong or bytes(held[at + 8 : at + 8 + header_bytes]).decode()
            answered += 1
            at += 4 + length
        del held[:at]
        if self.transport is None or self.stopping:
            return
        # Which slot was answered does not matter: every slot is one outstanding pull.
        self.transport.write(
            b"".join(self._next((self.pulls + n) % len(self._offsets)) for n in range(answered))
        )
        self.pulls += answered


async def fill(port: int, body_bytes: int, messages: int) -> int:
    """Store at least `messages` in all queues together; return the least number in a queue."""
    sends = Sends(TOPIC, range(QUEUES), b"x" * body_bytes)
    stored = 0.0
    while stored < messages:
        stored += 3 * await flood(f"127.0.0.1:{port}", sends, seconds=3.0)
    return int(stored * 0.9) // QUEUES


async def load(port: int, pid: int, options: argparse.Namespace) -> None:
    """Fill, warm up, measure."""
    per_queue = await fill(port, options.body, options.messages)
    filled = Filled(TOPIC, per_queue, await one_record(port, TOPIC), options.batch)
    rate, used = await pull_rate(port, pid, filled, options.connections, options.window, options.seconds)
    words = f"{used * options.batch * 1e6:.1f} us CPU of the broker a pull of {filled.record_bytes * options.batch:,} B"
    figure(f"store_pull.{options.batch} x {options.body} B", rate, "msg/s", words=words)


async def pull_rate(
    port: int, pid: int, filled: Filled, connections: int, window: int, seconds: float
) -> tuple[float, float]:
    """Return messages per second, and the broker's CPU seconds a message."""
    loop = asyncio.get_running_loop()
    pullers: list[Puller] = []
    for _ in range(connections):
        _, puller = await loop.create_connection(
            lambda: Puller(window // connections, filled), "127.0.0.1", port
        )
        pullers.append(puller)
    await asyncio.sleep(1.0)
    began, cpu, before = time.perf_counter(), cpu_seconds(pid), sum(puller.pulls for puller in pullers)
    await asyncio.sleep(seconds)
    took, used = time.perf_counter() - began, cpu_seconds(pid) - cpu
    pulls = sum(puller.pulls for puller in pullers) - before
    for puller in pullers:
        puller.stopping = True
        if puller.wrong:
            raise SystemExit(f"a pull was answered wrongly: {puller.wrong}")
    messages = pulls * filled.batch
    return messages / took, used / messages


async def one_record(port: int, topic: str) -> int:
    """Return the size of a stored record."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(pull_frame(topic, 1, 0, 0))
    length, header_bytes = HEAD.unpack(await reader.readexactly(HEAD.size))
    rest = await reader.readexactly(length - 4)
    writer.close()
    return int.from_bytes(rest[header_bytes : header_bytes + 4], "big")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--window", type=int, default=16)
    parser.add_argument("--body", type=int, default=128)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=BATCH, help="messages a pull")
    parser.add_argument("--set", action="append", default=[], help="a setting of the store, as name=value")
    options = parser.parse_args()
    print(provenance("async"))
    with (
        tempfile.TemporaryDirectory(prefix="gantry-pull-") as folder,
        store("async", folder, *options.set) as running,
    ):
        pid, port, _ = running
        uvloop.run(load(port, pid, options))


if __name__ == "__main__":
    main()
