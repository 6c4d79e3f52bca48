"""Produce → held pull at a fixed rate: the time until a waiting consumer has the message.

An open loop: each send has an intended start time, and waiting for a late one counts. Producer and consumer are one process,
so they share a clock. Over remoting and over HTTP, sync flush.

    python bench/system_speed/latency.py [--rate 1000] [--seconds 15] [--flush sync]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import uvloop

from gantry_link.connections.connection import Connection, connect
from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import PullHeader, PullReplyHeader, SendHeaderV2
from gantry_wire.records.message_record import scan_records
from measuring.pacing import moments
from measuring.system import System, no_collections, percentile, provenance, started
from reporting.figures import figure

TOPIC = "latency"
BODY_BYTES = 128
HOLD_MS = 15_000
WARM_SECONDS = 2.0


def _body(number: int, intended: float) -> bytes:
    return f"{number} {intended:.7f} ".encode().ljust(BODY_BYTES, b".")


def _taken(body: bytes, now: float) -> float:
    return now - float(body.split(b" ", 2)[1])


async def pace(rate: float, seconds: float, send: Callable[[int, float], None]) -> None:
    """Call `send(number, intended)` at its time, whether or not earlier ones were answered."""
    no_collections()
    async for number, intended in moments(rate, seconds):
        send(number, intended)


async def remoting(system: System, rate: float, seconds: float) -> list[float]:
    producer, consumer = await connect(system.store), await connect(system.store)
    taken: list[float] = []
    total = int(rate * seconds)
    failed: list[str] = []

    def send(number: int, intended: float) -> None:
        header = SendHeaderV2(
            producer_group="bench", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
            born_timestamp=int(time.time() * 1000), flag=0, properties=f"UNIQ_KEY\x01{number:032d}\x02",
        )  # fmt: skip
        producer.request(RequestCode.SEND_MESSAGE_V2, header, _body(number, intended)).add_done_callback(
            lambda done: failed.append(str(done.exception())) if done.exception() else None
        )

    first = await producer.request(RequestCode.SEND_MESSAGE_V2, SendHeaderV2(
        producer_group="bench", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
        born_timestamp=0, flag=0, properties=""), b"first")  # fmt: skip
    assert first.code == 0, first.remark
    consuming = asyncio.ensure_future(_consume(consumer, total, taken))
    await pace(rate, seconds, send)
    await asyncio.wait_for(consuming, 30)
    producer.close()
    consumer.close()
    assert not failed, failed[:3]
    return taken[int(rate * WARM_SECONDS) :]


async def _consume(connection: Connection, total: int, taken: list[float]) -> None:
    offset = 1
    while len(taken) < total:
        header = PullHeader(
            consumer_group="bench-consumers", topic=TOPIC, queue_id=0, queue_offset=offset, max_msg_nums=32, sys_flag=2 | 4,
            commit_offset=0, suspend_timeout_millis=HOLD_MS, subscription="*", sub_version=0,
        )  # fmt: skip
        answer = await connection.request(RequestCode.PULL_MESSAGE, header, timeout=30)
        now = time.perf_counter()
        offset = answer.read(PullReplyHeader).next_begin_offset
        taken.extend(_taken(record.body, now) for record in scan_records(answer.body))


class HttpLine:
    """A keep-alive connection, one request at a time, with the minimum of HTTP/1.1."""

    def __init__(self, http: str) -> None:
        parts = urlsplit(http)
        self.host, self.port = parts.hostname or "", parts.port or 80

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)

    async def call(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        raw = await self.reader.readuntil(b"\r\n\r\n")
        length = int(raw.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return int(raw[9:12]), await self.reader.readexactly(length)


async def over_http(system: System, rate: float, seconds: float, lines: int = 16) -> list[float]:
    admin = HttpLine(system.http)
    await admin.open()
    status, answer = await admin.call(
        "PUT", "/v1/topics/latency-http", b'{"readQueues":1,"writeQueues":1,"perm":"rw"}'
    )
    assert status == 200, answer
    free: asyncio.Queue[HttpLine] = asyncio.Queue()
    for _ in range(lines):
        line = HttpLine(system.http)
        await line.open()
        free.put_nowait(line)
    taken: list[float] = []
    total = int(rate * seconds)
    sending: set[asyncio.Task[None]] = set()

    async def send_one(number: int, intended: float) -> None:
        line = await free.get()
        text = _body(number, intended).decode()
        status, answer = await line.call(
            "POST", "/v1/topics/latency-http/messages", json.dumps({"messages": [{"body": text}]}).encode()
        )
        assert status == 200, answer
        free.put_nowait(line)

    def send(number: int, intended: float) -> None:
        task = asyncio.ensure_future(send_one(number, intended))
        sending.add(task)
        task.add_done_callback(sending.discard)

    consuming = asyncio.ensure_future(_consume_http(system.http, total, taken))
    await pace(rate, seconds, send)
    await asyncio.gather(*sending)
    await asyncio.wait_for(consuming, 30)
    return taken[int(rate * WARM_SECONDS) :]


async def _consume_http(http: str, total: int, taken: list[float]) -> None:
    line = HttpLine(http)
    await line.open()
    offset = 0
    while len(taken) < total:
        path = f"/v1/topics/latency-http/queues/broker-a/0/messages?offset={offset}&max=32&waitSeconds=15"
        status, answer = await line.call("GET", path)
        now = time.perf_counter()
        assert status == 200, answer
        pulled = json.loads(answer)
        offset = pulled["nextOffset"]
        taken.extend(_taken(message["body"].encode(), now) for message in pulled["messages"])


def _report(way: str, taken: list[float]) -> None:
    ordered = sorted(taken)
    for share in (0.5, 0.99, 0.999):
        figure(f"latency.{way}.p{share * 100:g}", percentile(ordered, share) * 1000, "ms")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=1000.0, help="messages per second")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--flush", default="sync", choices=["sync", "async"])
    arguments = parser.parse_args()
    with started("--flush", arguments.flush) as system:
        print(f"produce → held pull at {arguments.rate:g} msg/s; {provenance(arguments.flush)}")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            _report("remoting", runner.run(remoting(system, arguments.rate, arguments.seconds)))
            _report("HTTP", runner.run(over_http(system, arguments.rate, arguments.seconds)))


if __name__ == "__main__":
    main()
