"""Delayed messages: how late they are at a fixed rate, how long very many due at once take, what very many pending ones cost.

Lateness counts from the instant the store promised to the arrival at a consumer that holds a pull. Producer, consumer and store
share a machine and so a clock. A message that arrives before its time is counted as early.

    python bench/delay.py [lateness] [burst] [pending] [--rate 1000] [--seconds 20] [--burst 100000] [--pending 1000000]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop
from latency import HttpLine
from system import System, cpu_seconds, percentile, provenance, started

from gantry_link import ConnectionPool, StoreClient
from gantry_link.claims import claim_holder
from gantry_link.connection import Connection, connect
from gantry_link.scheduler_client import SchedulerClient
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.headers import CreateTopicHeader, PullHeader, PullReplyHeader, SendHeaderV2, SendReplyHeader
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.record import scan_records
from gantry_wire.scheduler_bodies import ListSchedules, ScheduleOrder

TOPIC, OTHER = "delay", "delay-other"
HOLD_MS = 15_000
WARM_SECONDS = 2.0
WINDOW = 512


def header_of(topic: str, properties: str) -> SendHeaderV2:
    return SendHeaderV2(
        producer_group="bench", topic=topic, default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
        born_timestamp=int(time.time() * 1000), flag=0, properties=properties,
    )  # fmt: skip


@asynccontextmanager
async def connected(system: System) -> AsyncGenerator[tuple[StoreClient, Connection]]:
    pool = ConnectionPool()
    store = StoreClient(pool, system.store, 30.0)
    for topic in (TOPIC, OTHER):
        await store.create_topic(
            CreateTopicHeader(topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6, topic_filter_type="SINGLE_TAG", topic_sys_flag=0)
        )  # fmt: skip
    connection = await connect(system.store)
    try:
        yield store, connection
    finally:
        connection.close()
        await pool.close()


async def consume(address: str, offset: int, total: int, taken: list[tuple[int, float, int]]) -> None:
    """Take (number, arrival in ms, store time) of every message from an offset on, by held pulls."""
    connection = await connect(address)
    while len(taken) < total:
        header = PullHeader(
            consumer_group="bench-consumers", topic=TOPIC, queue_id=0, queue_offset=offset, max_msg_nums=32, sys_flag=2 | 4,
            commit_offset=0, suspend_timeout_millis=HOLD_MS, subscription="*", sub_version=0,
        )  # fmt: skip
        answer = await connection.request(RequestCode.PULL_MESSAGE, header, timeout=30)
        now_ms = time.time() * 1000
        offset = answer.read(PullReplyHeader).next_begin_offset
        taken += [(int(record.body), now_ms, record.store_timestamp) for record in scan_records(answer.body)]
    connection.close()


async def lateness(system: System, rate: float, seconds: float, *, over_http: bool) -> None:
    async with connected(system) as (store, producer):
        total, due, sent = int(rate * seconds), dict[int, int](), list[asyncio.Task[None]]()
        taken: list[tuple[int, float, int]] = []
        lines: asyncio.Queue[HttpLine] = asyncio.Queue()
        for _ in range(32 if over_http else 0):
            lines.put_nowait(line := HttpLine(system.http))
            await line.open()

        async def by_remoting(number: int) -> None:
            instant = f"TIMER_DELIVER_MS\x01{int(time.time() * 1000) + random.randint(1000, 3000)}\x02"
            properties = f"UNIQ_KEY\x01{number:032d}\x02" + (instant if number % 2 else "DELAY\x011\x02")
            answer = await producer.request(
                RequestCode.SEND_MESSAGE_V2, header_of(TOPIC, properties), b"%d" % number, timeout=30
            )
            assert answer.code == 0, answer.remark
            due[number] = answer.read(SendReplyHeader).deliver_ms or 0

        async def by_http(number: int) -> None:
            line = await lines.get()
            delay = {"delayMs": random.randint(1000, 3000)} if number % 2 else {"delayLevel": 1}
            body = json.dumps({"messages": [{"body": str(number), **delay}]}).encode()
            status, answer = await line.call("POST", f"/v1/topics/{TOPIC}/messages", body)
            lines.put_nowait(line)
            assert status == 200, answer
            text = json.loads(answer)["results"][0]["deliverAt"]
            due[number] = _epoch_ms(text)

        consuming = asyncio.ensure_future(
            consume(system.store, await store.max_offset(TOPIC, 0), total, taken)
        )
        began = time.perf_counter() + 0.05
        for number in range(total):
            while (wait := began + number / rate - time.perf_counter()) > 0:
                await asyncio.sleep(wait if wait > 0.0015 else 0)
            sent.append(asyncio.ensure_future((by_http if over_http else by_remoting)(number)))
        await asyncio.gather(*sent)
        await asyncio.wait_for(consuming, 60)
        ordered = sorted(
            arrived - due[number] for number, arrived, _ in taken if number > rate * WARM_SECONDS
        )
        early = sum(stored < due[number] for number, _, stored in taken)
        shares = "  ".join(
            f"p{share * 100:g} {percentile(ordered, share):.2f} ms" for share in (0.5, 0.99, 0.999)
        )
        doubles = len(taken) - len({number for number, *_ in taken})
        print(
            f"lateness {'HTTP' if over_http else 'remoting'}: {total} at {rate:g}/s  {shares}  early {early}  doubled {doubles}"
        )


def _epoch_ms(text: str) -> int:
    from datetime import datetime

    return round(datetime.fromisoformat(text).timestamp() * 1000)


async def schedule(connection: Connection, numbers: range, due_ms: int, spread_ms: int = 0) -> float:
    """Send delayed messages as fast as it goes; messages per second."""
    rest, began = iter(numbers), time.perf_counter()

    async def sender() -> None:
        for number in rest:
            at = due_ms + (number % spread_ms if spread_ms else 0)
            properties = f"UNIQ_KEY\x01{number:032d}\x02TIMER_DELIVER_MS\x01{at}\x02"
            while True:
                header = header_of(TOPIC, properties)
                answer = await connection.request(
                    RequestCode.SEND_MESSAGE_V2, header, b"%d" % number, timeout=60
                )
                if answer.code != ResponseCode.SYSTEM_BUSY:
                    break
                await asyncio.sleep(0.05)
            assert answer.code == 0, answer.remark

    await asyncio.gather(*(sender() for _ in range(WINDOW)))
    return len(numbers) / (time.perf_counter() - began)


async def plain_rate(connection: Connection, until: asyncio.Event, window: int = 64) -> float:
    """Send plain messages until told to stop; messages per second."""
    count, began = 0, time.perf_counter()

    async def sender() -> None:
        nonlocal count
        while not until.is_set():
            await connection.request(
                RequestCode.SEND_MESSAGE_V2, header_of(OTHER, ""), b"x" * 128, timeout=60
            )
            count += 1

    await asyncio.gather(*(sender() for _ in range(window)))
    return count / (time.perf_counter() - began)


async def burst(system: System, messages: int) -> None:
    async with connected(system) as (store, connection):
        due_ms = int(time.time() * 1000) + max(15_000, messages // 4)
        rate = await schedule(connection, range(messages), due_ms)
        print(
            f"burst: {messages} scheduled at {rate:,.0f}/s, {(due_ms / 1000 - time.time()):.1f} s before they are due"
        )
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(4, stop.set)
        alone = await plain_rate(connection, stop)
        await asyncio.sleep(max(due_ms / 1000 - time.time(), 0))
        stop.clear()
        beside = asyncio.ensure_future(plain_rate(connection, stop))
        while await store.max_offset(TOPIC, 0) < messages and time.time() < due_ms / 1000 + 120:
            await asyncio.sleep(0.02)
        took = time.time() - due_ms / 1000
        stop.set()
        share = await beside / alone
        print(
            f"burst: all {await store.max_offset(TOPIC, 0)} delivered {took:.2f} s after their instant; other sends at {share:.2f} of {alone:,.0f}/s"
        )


async def pending(system: System, messages: int) -> None:
    async with connected(system) as (store, connection):
        due_ms = int(time.time() * 1000) + 7_200_000
        rate = await schedule(connection, range(messages), due_ms, 3_600_000)
        scheduler = await _scheduler(store)
        pid = _pid(system)
        print(f"pending: {messages} scheduled at {rate:,.0f}/s; scheduler {_rss_mib(pid):.0f} MiB")
        took: list[float] = []
        for number in random.sample(range(messages), min(500, messages)):
            began = time.perf_counter()
            answer = await scheduler.cancel(ScheduleOrder(id=f"{number:032d}"))
            took.append((time.perf_counter() - began) * 1000)
            assert answer.status == "cancelled", answer
        took.sort()
        print(f"pending: cancel p50 {percentile(took, 0.5):.2f} ms, p99 {percentile(took, 0.99):.2f} ms")
        os.kill(pid, signal.SIGKILL)
        began = time.perf_counter()
        scheduler = await _scheduler(store, since=began)
        print(
            f"pending: index rebuilt {time.perf_counter() - began:.1f} s after kill -9; scheduler {_rss_mib(_pid(system)):.0f} MiB, CPU {cpu_seconds(_pid(system)):.1f} s"
        )


async def _scheduler(store: StoreClient, since: float = 0.0) -> SchedulerClient:
    """Wait until a scheduler holds the claims and has read everything."""
    while True:
        try:
            holder = await claim_holder(store, SCHEDULE_TOPIC, 0)
            if holder is not None:
                scheduler = SchedulerClient(store.pool, holder.address, 30.0)
                page = await scheduler.list_schedules(ListSchedules(limit=1))
                if page.brokers and not page.incomplete and page.schedules:
                    return scheduler
        except Exception as error:
            if time.perf_counter() - since > 300:
                raise SystemExit(f"no scheduler: {error}") from error
        await asyncio.sleep(0.1)


def _pid(system: System) -> int:
    """The scheduler's pid: another one after it was killed. Found by its data directory, which is this system's alone."""
    mine = b"%s/scheduler" % os.fsencode(Path(system.raw["brokers"][0]["store"]).parent)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"scheduler" in words and any(word.endswith(mine) for word in words):
                    return int(entry.name)
    raise SystemExit("no scheduler is running")


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=["lateness", "burst", "pending"])
    parser.add_argument("--rate", type=float, default=1000.0, help="messages due per second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--burst", type=int, default=100_000, help="messages due in one instant")
    parser.add_argument("--pending", type=int, default=1_000_000, help="messages that wait")
    parser.add_argument("--flush", default="sync", choices=["sync", "async"])
    arguments = parser.parse_args()

    def runs(what: str, flush: str) -> None:
        with (
            started("--flush", flush) as system,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            if what == "lateness":
                for over_http in (False, True):
                    runner.run(lateness(system, arguments.rate, arguments.seconds, over_http=over_http))
            elif what == "burst":
                runner.run(burst(system, arguments.burst))
            else:
                runner.run(pending(system, arguments.pending))

    print(f"delayed messages; {provenance(arguments.flush)}")
    for what in arguments.what:
        runs(what, arguments.flush)


if __name__ == "__main__":
    main()
