"""Transactions over remoting compared with plain sends: half message, commit one-way; and commit → held pull of a consumer.

    python bench/store_speed/transactions.py [--seconds 8] [--connections 8] [--window 256] [--body 128] [--flush sync|async|both] [--rate 100]

Starts a store on free ports. A transaction counts when its message is readable. Prints transactions per second, plain sends
per second of the same run, their ratio, and the latency from writing the commit to holding the message (ms).
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from typing import cast

import uvloop

from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.codes import RequestCode
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import EndTransactionHeader, PullHeader, SendHeaderV2
from gantry_wire.messages.properties import UNIQ_KEY, find_property
from gantry_wire.names import OP_HALF_TOPIC
from gantry_wire.records.message_record import scan_records
from measuring.system import cpu_seconds, percentile, provenance
from reporting.figures import figure
from store_speed.flood import KEY_PLACE, Sends, flood
from store_speed.store_send import TOPIC, make_topic, store

GROUP = "bench"
COMMIT = 8
OFFSET_PLACE, POSITION_PLACE = 7_777_777_777_777_771, 7_777_777_777_777_773
_SUCCESS = b'{"code":0,'
_ANSWER = re.compile(rb'"msgId":"\w{16}(\w{16})".*?"queueOffset":"(\d+)","transactionId":"(\w+)"')


class Transactions(Sends):
    """The frames of half messages, and those of the commits for their answers."""

    def __init__(self, topic: str, queue_ids: range, body: bytes) -> None:
        super().__init__(topic, queue_ids, body)
        self._templates.clear()
        for queue_id in queue_ids:
            frame = encode_request(
                RequestCode.SEND_MESSAGE_V2, 7, half_header(topic, queue_id, KEY_PLACE), body
            )
            before, _, after = frame.partition(KEY_PLACE.encode())
            self._templates.append([before, after])
        end = EndTransactionHeader(
            producer_group=GROUP, tran_state_table_offset=OFFSET_PLACE, commit_log_offset=POSITION_PLACE,
            commit_or_rollback=COMMIT, from_transaction_check=False, msg_id=KEY_PLACE, transaction_id=KEY_PLACE,
        )  # fmt: skip
        frame = encode_request(RequestCode.END_TRANSACTION, 9, end, oneway=True)
        self._end = frame[8:]
        self._end_mark = frame[4:8][:1]

    def commit(self, answer: bytes) -> bytes:
        """Return the commit of the half in an answer."""
        found = _ANSWER.search(answer)
        assert found is not None, answer
        header = (
            self._end.replace(b"%d" % OFFSET_PLACE, found[2])
            .replace(b"%d" % POSITION_PLACE, b"%d" % int(found[1], 16))
            .replace(KEY_PLACE.encode(), found[3])
        )
        size = len(header)
        return (4 + size).to_bytes(4, "big") + self._end_mark + size.to_bytes(3, "big") + header


def half_header(topic: str, queue_id: int, key: str) -> SendHeaderV2:
    return SendHeaderV2(
        producer_group=GROUP, topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=queue_id,
        sys_flag=4, born_timestamp=int(time.time() * 1000), flag=0,
        properties=f"UNIQ_KEY\x01{key}\x02TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02WAIT\x01true\x02",
    )  # fmt: skip


class _Line(asyncio.Protocol):
    """A window of halves; each answer is followed by its commit and the next half."""

    def __init__(self, sends: Transactions, window: int, until: float) -> None:
        self.sends, self.window, self.until = sends, window, until
        self.answered = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._outstanding = 0
        self._decoder = FrameDecoder()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send(self.window, b"")

    def data_received(self, data: bytes) -> None:
        frames = self._decoder.receive(data)
        stored = [frame.header for frame in frames if frame.header.startswith(_SUCCESS)]
        commits = b"".join([self.sends.commit(header) for header in stored])
        self.answered += len(stored)  # a loaded machine may make the store refuse some as busy
        self._outstanding -= len(frames)
        if time.monotonic() < self.until:
            self._send(len(frames), commits)
            return
        self._transport.write(commits)
        if not self._outstanding and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("the store closed the connection"))

    def _send(self, count: int, commits: bytes) -> None:
        self._outstanding += count
        self._transport.write(commits + self.sends.frames(count))


async def transact(
    port: int, sends: Transactions, *, connections: int, window: int, seconds: float
) -> tuple[int, float]:
    """Return transactions, and the seconds from the first half until every commit is readable."""
    pool = ConnectionPool()
    client = StoreClient(pool, f"127.0.0.1:{port}")
    before = await client.max_offset(OP_HALF_TOPIC, 0)
    loop = asyncio.get_running_loop()
    began = time.monotonic()
    lines: list[_Line] = []
    for _ in range(connections):
        _, line = await loop.create_connection(
            lambda: _Line(sends, window // connections, began + seconds), "127.0.0.1", port
        )
        lines.append(line)
    await asyncio.gather(*(line.done for line in lines))
    count = sum(line.answered for line in lines)
    while await client.max_offset(OP_HALF_TOPIC, 0) - before < count:
        assert time.monotonic() - began < seconds + 60, "commits are missing"
        await asyncio.sleep(0.005)
    took = time.monotonic() - began
    await pool.close()
    return count, took


async def latencies(port: int, rate: float, seconds: float, body: bytes) -> list[float]:
    """Return the sorted milliseconds from writing a commit to receiving its message, at a fixed rate."""
    pool = ConnectionPool()
    producer, consumer = StoreClient(pool, f"127.0.0.1:{port}"), StoreClient(pool, f"127.0.0.1:{port}")
    committed: dict[bytes, float] = {}
    found: list[float] = []
    count = int(rate * seconds)

    async def consume() -> None:
        offset = await consumer.max_offset(TOPIC, 0)
        while len(found) < count:
            header = PullHeader(
                consumer_group="TOOLS_CONSUMER", topic=TOPIC, queue_id=0, queue_offset=offset, max_msg_nums=32,
                sys_flag=6, suspend_timeout_millis=5000, subscription="*",
            )  # fmt: skip
            pulled = await consumer.pull(header)
            now = time.perf_counter()
            for record in scan_records(pulled.records):
                key = find_property(record.properties, UNIQ_KEY.encode()) or b""
                found.append((now - committed[key]) * 1000)
            offset = pulled.next_offset

    consuming = asyncio.ensure_future(consume())
    await asyncio.sleep(0.2)
    for number in range(count):
        key = f"L{number:031d}"
        stored = (await producer.send(half_header(TOPIC, 0, key), body)).reply
        end = EndTransactionHeader(
            producer_group=GROUP, tran_state_table_offset=stored.queue_offset, msg_id=key, transaction_id=key,
            commit_log_offset=int(stored.msg_id[-16:], 16), commit_or_rollback=COMMIT, from_transaction_check=False,
        )  # fmt: skip
        committed[key.encode()] = time.perf_counter()
        await producer.tell(RequestCode.END_TRANSACTION, end)
        await asyncio.sleep(1 / rate)
    await asyncio.wait_for(consuming, 30)
    await pool.close()
    return sorted(found)


async def measure(port: int, pid: int, flush: str, options: argparse.Namespace) -> None:
    await make_topic(port, options.queues)
    body, queues = b"x" * options.body, range(options.queues)
    shape = {"connections": options.connections, "window": options.window}
    plain, halves = Sends(TOPIC, queues, body), Transactions(TOPIC, queues, body)
    await flood(f"127.0.0.1:{port}", plain, seconds=1.0, **shape)
    await transact(port, halves, seconds=1.0, **shape)
    sends = await flood(f"127.0.0.1:{port}", plain, seconds=options.seconds, **shape)
    cpu = cpu_seconds(pid)
    count, took = await transact(port, halves, seconds=options.seconds, **shape)
    used, transactions = cpu_seconds(pid) - cpu, count / took
    waits = await latencies(port, options.rate, options.seconds, body)
    words = f"{used / count * 1e6:.1f} us CPU of the broker each"
    figure(f"transactions.{flush}", transactions, "tx/s", floor=sends, beside="plain sends", words=words)
    for share in (0.5, 0.99):
        figure(f"transactions.{flush}.p{share * 100:g}", percentile(waits, share), "ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--body", type=int, default=128)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument(
        "--rate", type=float, default=100, help="transactions a second while latency is measured"
    )
    parser.add_argument("--flush", choices=("sync", "async", "both"), default="both")
    options = parser.parse_args()
    print(provenance(options.flush))
    for flush in ("async", "sync") if options.flush == "both" else (options.flush,):
        with (
            tempfile.TemporaryDirectory(prefix="gantry-transactions-") as folder,
            store(flush, folder) as (pid, port, _http_port),
        ):
            uvloop.run(measure(port, pid, flush, options))


if __name__ == "__main__":
    main()
