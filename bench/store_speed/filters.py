"""The cost of SQL92 filters: evaluations a second on one core, and messages a second that a pull examines when it drops 99 %.

    python bench/store_speed/filters.py [--messages 400000] [--queues 4] [--body 128] [--seconds 5]

The first part evaluates the compiled filter alone, three conditions over the properties of a stored message. The second starts a store
on free ports, fills a topic of which one message in a hundred matches, and reads all of it with the filter, each queue from its
beginning by one client after the other; then the same topic without a filter. Every answer is checked: its code, and the total number
of messages found.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable

import uvloop

from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import PullHeader, PullReplyHeader, SendHeaderV2
from gantry_wire.limits import PER_ITEM_BATCH_BYTES_MAX
from gantry_wire.messages.batch import BatchItem, encode_batch
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import scan_records
from gantry_wire.sql92.compiling import compile_filter
from measuring.system import cpu_seconds, provenance
from reporting.figures import figure
from store_speed.store_send import store

TOPIC = "BenchFilter"
BATCH = 100
EVERY = 100
"""One message in this many matches."""
EXPRESSION = "region = 'eu' AND amount BETWEEN 10 AND 1000 AND kind IN ('retail', 'web')"
SQL_CONDITIONS = "region = 'eu' AND amount > 100 AND vip = TRUE"
HELD_BACK = 8
"""Outstanding batches while filling."""


def properties_of(number: int) -> bytes:
    """Return properties as a client of an order system might set them."""
    return format_properties(
        {
            "KEYS": f"order-{number}",
            "UNIQ_KEY": f"{number:032X}",
            "WAIT": "true",
            "TAGS": "created",
            "region": "eu" if number % EVERY == 0 else "us",
            "amount": str(101 + number % 500),
            "kind": "retail",
            "vip": "true",
        }
    )


def evaluations(seconds: float) -> None:
    """Report the rate of evaluating a filter of three conditions, when all three must be evaluated."""
    properties = [properties_of(number * EVERY) for number in range(1, 1000)]
    matches = compile_filter(SQL_CONDITIONS).matches
    assert all(map(matches, properties))
    count, began, until = 0, time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < until:
        for one in properties:
            matches(one)
        count += len(properties)
    took = time.process_time() - began
    figure("filters.evaluations", count / took, "/s", words="a CPU second")


class Line:
    """A connection; answers come in the order of the requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._decoder = FrameDecoder()
        self._answers: list[Command] = []

    @classmethod
    async def open(cls, port: int) -> Line:
        """Connect to a store."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22))

    def send(self, frame: bytes) -> None:
        """Send a request without waiting."""
        self._writer.write(frame)

    async def answer(self) -> Command:
        """Return the next answer."""
        while not self._answers:
            data = await self._reader.read(1 << 20)
            if not data:
                raise SystemExit("the store closed the connection")
            self._answers += [decode_command(raw) for raw in self._decoder.receive(data)]
        return self._answers.pop(0)

    def close(self) -> None:
        """Close it."""
        self._writer.close()


def batch_frame(queue_id: int, first: int, body: bytes) -> bytes:
    """Return a send of BATCH messages with numbers from `first` on."""
    items = [BatchItem(0, body, properties_of(number)) for number in range(first, first + BATCH)]
    header = SendHeaderV2(
        producer_group="bench", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=16, queue_id=queue_id,
        sys_flag=0, born_timestamp=int(time.time() * 1000), flag=0, batch=True,
    )  # fmt: skip
    return encode_request(
        RequestCode.SEND_BATCH_MESSAGE, 1, header, encode_batch(items, PER_ITEM_BATCH_BYTES_MAX)
    )


async def fill(port: int, options: argparse.Namespace) -> int:
    """Store the messages, evenly over the queues; return the number in each queue."""
    line, body = await Line.open(port), b"x" * options.body
    batches = options.messages // options.queues // BATCH * options.queues
    under_way = 0
    for number in range(batches):
        line.send(batch_frame(number % options.queues, number // options.queues * BATCH, body))
        under_way += 1
        if under_way == HELD_BACK or number == batches - 1:
            for _ in range(under_way):
                reply = await line.answer()
                if reply.code != ResponseCode.SUCCESS:
                    raise SystemExit(f"a batch was refused: {reply.remark}")
            under_way = 0
    line.close()
    return batches // options.queues * BATCH


async def read_all(port: int, per_queue: int, options: argparse.Namespace, expression: str | None) -> int:
    """Read every queue from its beginning to its end; return the number of messages found."""
    line, found = await Line.open(port), 0
    for queue_id in range(options.queues):
        offset = 0
        while offset < per_queue:
            header = PullHeader(
                consumer_group="bench", topic=TOPIC, queue_id=queue_id, queue_offset=offset, max_msg_nums=32,
                sys_flag=4, subscription=expression or "*", expression_type="SQL92" if expression else None,
            )  # fmt: skip
            line.send(encode_request(RequestCode.PULL_MESSAGE, 1, header))
            reply = await line.answer()
            if reply.code not in {ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY}:
                raise SystemExit(f"a pull was answered with {reply.code}: {reply.remark}")
            found += (
                sum(1 for _ in scan_records(reply.body)) if expression else reply.body.count(b"UNIQ_KEY\x01")
            )
            offset = reply.read(PullReplyHeader).next_begin_offset
    line.close()
    return found


async def scan(port: int, pid: int, options: argparse.Namespace) -> None:
    """Fill, then read with the filter and without, several times, and use the best of each."""
    per_queue = await fill(port, options)
    total = per_queue * options.queues
    with_filter = await best(lambda: read_all(port, per_queue, options, EXPRESSION), total // EVERY, pid)
    without = await best(lambda: read_all(port, per_queue, options, None), total, pid)
    words = (
        f"{100 - 100 // EVERY} % of {total:,} dropped; a CPU second of the broker: "
        f"{total / with_filter[1]:,.0f}, unfiltered {total / without[1]:,.0f}"
    )
    unfiltered = total / without[0]
    figure(
        "filters.scan", total / with_filter[0], "msg/s", floor=unfiltered, beside="unfiltered", words=words
    )


async def best(read: Callable[[], Awaitable[int]], expected: int, pid: int) -> tuple[float, float]:
    """Run a read three times; return the shortest time and the broker's CPU seconds of that run."""
    runs: list[tuple[float, float]] = []
    for _ in range(3):
        began, cpu = time.perf_counter(), cpu_seconds(pid)
        found = await read()
        runs.append((time.perf_counter() - began, cpu_seconds(pid) - cpu))
        if found != expected:
            raise SystemExit(f"{found} messages were found where {expected} match")
    return min(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--queues", type=int, default=4)
    parser.add_argument("--body", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    print(provenance("async"))
    evaluations(options.seconds)
    with (
        tempfile.TemporaryDirectory(prefix="gantry-filters-") as folder,
        store("async", folder, f"topic_queues_default={options.queues}") as running,
    ):
        pid, port, _ = running
        uvloop.run(scan(port, pid, options))


if __name__ == "__main__":
    main()
