"""The load of the benchmark of delayed messages: messages to delay, other sends and pulls, and a consumer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gantry_link.clients.scheduler import SchedulerClient
from gantry_link.clients.store import StoreClient
from gantry_link.connections.connection import Connection, connect
from gantry_link.connections.pool import ConnectionPool
from gantry_link.system_queues.claims import claim_holder
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.headers.admin import CreateTopicHeader
from gantry_wire.headers.messages import PullHeader, PullReplyHeader, SendHeaderV2
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.scheduling import ListSchedules
from gantry_wire.records.message_record import scan_records
from measuring.system import System

TOPIC, STEADY, OTHER = "delay", "delay-steady", "delay-other"
HOLD_MS = 15_000
WINDOW = 512
OTHER_SENDS = 64
READY_SECONDS = 600


def header_of(topic: str, properties: str) -> SendHeaderV2:
    return SendHeaderV2(
        producer_group="bench", topic=topic, default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
        born_timestamp=int(time.time() * 1000), flag=0, properties=properties,
    )  # fmt: skip


def _pull_header(topic: str, offset: int, hold_ms: int) -> PullHeader:
    return PullHeader(
        consumer_group="bench-consumers", topic=topic, queue_id=0, queue_offset=offset, max_msg_nums=32,
        sys_flag=(2 if hold_ms else 0) | 4, commit_offset=0, suspend_timeout_millis=hold_ms, subscription="*", sub_version=0,
    )  # fmt: skip


@asynccontextmanager
async def connected(system: System) -> AsyncGenerator[tuple[StoreClient, Connection]]:
    """Create the topics; yield a client of the store and a connection to it."""
    pool = ConnectionPool()
    store = StoreClient(pool, system.store, 30.0)
    for topic in (TOPIC, STEADY, OTHER):
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
        header = _pull_header(TOPIC, offset, HOLD_MS)
        answer = await connection.request(RequestCode.PULL_MESSAGE, header, timeout=30)
        now_ms = time.time() * 1000
        offset = answer.read(PullReplyHeader).next_begin_offset
        taken += [(int(record.body), now_ms, record.store_timestamp) for record in scan_records(answer.body)]
    connection.close()


async def schedule(connection: Connection, topic: str, instants: Iterable[tuple[int, int]]) -> float:
    """Send (number, instant in ms) as fast as possible; return messages per second."""
    rest, began, count = iter(instants), time.perf_counter(), 0

    async def sender() -> None:
        nonlocal count
        for number, at_ms in rest:
            properties = f"UNIQ_KEY\x01{number:032d}\x02TIMER_DELIVER_MS\x01{at_ms}\x02"
            while True:
                header = header_of(topic, properties)
                answer = await connection.request(
                    RequestCode.SEND_MESSAGE_V2, header, b"%d" % number, timeout=60
                )
                if answer.code != ResponseCode.SYSTEM_BUSY:
                    break
                await asyncio.sleep(0.05)
            assert answer.code == 0, answer.remark
            count += 1

    await asyncio.gather(*(sender() for _ in range(WINDOW)))
    return count / (time.perf_counter() - began)


@dataclass(slots=True)
class Others:
    """Sends and pulls without delays."""

    sends: float
    """Per second."""
    pulls: float
    """Of 32 messages each, per second."""


async def others(system: System, until: asyncio.Event) -> Others:
    """Send and pull plain messages over separate connections until stopped."""
    sending, pulling = await connect(system.store), await connect(system.store)
    sends = pulls = 0
    began = time.perf_counter()

    async def sender() -> None:
        nonlocal sends
        while not until.is_set():
            header = header_of(OTHER, "")
            answer = await sending.request(RequestCode.SEND_MESSAGE_V2, header, b"x" * 128, timeout=60)
            sends += answer.code == 0

    async def puller() -> None:
        nonlocal pulls
        while not until.is_set():
            answer = await pulling.request(RequestCode.PULL_MESSAGE, _pull_header(OTHER, 0, 0), timeout=60)
            pulls += answer.code == 0

    await asyncio.gather(*(sender() for _ in range(OTHER_SENDS)), *(puller() for _ in range(4)))
    seconds = time.perf_counter() - began
    sending.close()
    pulling.close()
    return Others(sends / seconds, pulls / seconds)


async def ready_scheduler(store: StoreClient) -> SchedulerClient:
    """Wait until a scheduler holds the claims and has read everything."""
    began = time.perf_counter()
    while True:
        try:
            holder = await claim_holder(store, SCHEDULE_TOPIC, 0)
            if holder is not None:
                scheduler = SchedulerClient(store.pool, holder.address, 30.0)
                page = await scheduler.list_schedules(ListSchedules(limit=1))
                if page.brokers and not page.incomplete and page.schedules:
                    return scheduler
        except Exception as error:
            if time.perf_counter() - began > READY_SECONDS:
                raise SystemExit(f"no scheduler: {error}") from error
        await asyncio.sleep(0.1)


def scheduler_pid(system: System) -> int:
    """Return the scheduler's current pid, which changes after a kill. Identified by its data directory, which belongs to this system alone."""
    mine = b"%s/scheduler" % os.fsencode(Path(system.raw["brokers"][0]["store"]).parent)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"scheduler" in words and any(word.endswith(mine) for word in words):
                    return int(entry.name)
    raise SystemExit("no scheduler is running")


def pss_mib(pid: int) -> float:
    """Return the memory of a process, counting shared pages proportionally."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0
