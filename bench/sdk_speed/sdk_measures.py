"""Common parts of `sdk.py`: a new topic, one measurement per line, a window of outstanding sends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from gantry_link.clients.nameservers import NameserverClient
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused
from gantry_wire.headers.admin import CreateTopicHeader
from gantrymq import Message, Producer
from measuring.system import System, cpu_seconds

TOPIC = "SdkBench"
QUEUES = 4
WARM_SECONDS = 1.0
ROUTE_SECONDS = 60.0
SEND_SECONDS = 30.0
"""Longer than any stall of a shared machine: a timeout would be measured as an error."""


@dataclass(frozen=True, slots=True)
class Line:
    """A measurement. CPU in microseconds per message; `floor`: the value of `beside`."""

    what: str
    value: float
    client_us: float = 0.0
    broker_us: float = 0.0
    unit: str = "msg/s"
    floor: float | None = None
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured, and for how long."""

    flush: str
    seconds: float
    body: int


Part = Callable[[System, Options], AsyncIterator[Line]]


async def make_topic(system: System, topic: str) -> None:
    """Create a topic, and wait until the nameserver lists all its queues, so that every later query finds it."""
    header = CreateTopicHeader(topic=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6)
    pool = ConnectionPool()
    nameserver = NameserverClient(pool, system.nameserver)
    try:
        await StoreClient(pool, system.store, timeout_seconds=ROUTE_SECONDS).create_topic(header)
        async with asyncio.timeout(ROUTE_SECONDS):
            while not await _is_known(nameserver, topic):
                await asyncio.sleep(0.05)
    finally:
        await pool.close()


async def _is_known(nameserver: NameserverClient, topic: str) -> bool:
    try:
        route = await nameserver.route(topic)
    except BrokerRefused:
        return False
    return sum(queues.write_queue_nums for queues in route.queue_datas) == QUEUES


async def measured(
    system: System,
    what: str,
    seconds: float,
    work: Callable[[float], asyncio.Future[int]],
    floor: float | None = None,
) -> Line:
    """Run `work(until)` after a short warm-up; it returns the number of messages until that time."""
    await work(time.perf_counter() + WARM_SECONDS)
    began, own, broker = time.perf_counter(), time.process_time(), cpu_seconds(system.store_pid)
    done = await work(began + seconds)
    took = time.perf_counter() - began
    own, broker = time.process_time() - own, cpu_seconds(system.store_pid) - broker
    return Line(what, done / took, own / done * 1e6, broker / done * 1e6, floor=floor)


def sends(producer: Producer, in_flight: int, body: bytes) -> Callable[[float], asyncio.Future[int]]:
    """Return work that keeps `in_flight` sends outstanding, each from a caller that waits for its answer."""

    async def caller(until: float) -> int:
        done = 0
        while time.perf_counter() < until:
            await producer.send(Message(TOPIC, body))
            done += 1
        return done

    async def all_callers(until: float) -> int:
        return sum(await asyncio.gather(*(caller(until) for _ in range(in_flight))))

    return lambda until: asyncio.ensure_future(all_callers(until))
