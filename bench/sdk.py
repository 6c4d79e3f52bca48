"""The Python SDK from one process: acknowledged sends of 128 B at 32 and 256 in flight, sync and async flush, and gathered into batches.

    python bench/sdk.py [--seconds 5] [--only producer|consume|deliver|rebalance|cpp] [--flush sync|async|both] [--body 128]

Starts a system for each kind of flush. Beside the rate: CPU time a message of this process and of the broker.
A part is a coroutine `part(system, options)` that yields one line a measurement; `parts` names them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop
from figures import figure
from system import System, cpu_seconds, provenance, started

from gantry import Message, Producer
from gantry.producer.settings import ProducerOptions
from gantry_link import BrokerRefused, ConnectionPool, NameserverClient, StoreClient
from gantry_wire.headers import CreateTopicHeader

TOPIC = "SdkBench"
QUEUES = 4
WARM_SECONDS = 1.0
ROUTE_SECONDS = 60.0
SEND_SECONDS = 30.0
"""Longer than any stall of a shared machine: a time-out would be measured as an error."""


@dataclass(frozen=True, slots=True)
class Line:
    """One measurement. CPU in microseconds a message; `floor`: what `beside` did of the same."""

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
    """Create a topic, and wait until the nameserver tells all its queues: whoever asks from now on finds it."""
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
    """Run `work(until)` after a moment of warming up; it returns how many messages it did until that time."""
    await work(time.perf_counter() + WARM_SECONDS)
    began, own, broker = time.perf_counter(), time.process_time(), cpu_seconds(system.store_pid)
    done = await work(began + seconds)
    took = time.perf_counter() - began
    own, broker = time.process_time() - own, cpu_seconds(system.store_pid) - broker
    return Line(what, done / took, own / done * 1e6, broker / done * 1e6, floor=floor)


def sends(producer: Producer, in_flight: int, body: bytes) -> Callable[[float], asyncio.Future[int]]:
    """Return work that keeps so many sends on their way, each by a caller that waits for its answer."""

    async def caller(until: float) -> int:
        done = 0
        while time.perf_counter() < until:
            await producer.send(Message(TOPIC, body))
            done += 1
        return done

    async def all_callers(until: float) -> int:
        return sum(await asyncio.gather(*(caller(until) for _ in range(in_flight))))

    return lambda until: asyncio.ensure_future(all_callers(until))


async def producer_part(system: System, options: Options) -> AsyncIterator[Line]:
    """Single sends at two windows, then with the accumulator."""
    body = bytes(options.body)
    await make_topic(system, TOPIC)
    async with Producer("sdk-bench", nameservers=system.nameserver, send_timeout=SEND_SECONDS) as producer:
        for in_flight in (32, 256):
            work = sends(producer, in_flight, body)
            yield await measured(system, f"send, {in_flight} in flight", options.seconds, work)
    gathering: ProducerOptions = {
        "nameservers": system.nameserver,
        "send_timeout": SEND_SECONDS,
        "linger": 0.002,
        "batch_bytes_max": 128 * 1024,
    }
    async with Producer("sdk-bench", **gathering) as producer:
        work = sends(producer, 2048, body)
        yield await measured(system, "send, gathered", options.seconds, work)


def parts() -> dict[str, Part]:
    from sdk_consumer import (  # which take the shapes above from here
        consume_part,
        deliver_part,
        rebalance_part,
    )
    from sdk_cpp import cpp_part

    return {
        "producer": producer_part,
        "consume": consume_part,
        "deliver": deliver_part,
        "rebalance": rebalance_part,
        "cpp": cpp_part,
    }


async def run(system: System, options: Options, only: str | None) -> None:
    for name, part in parts().items():
        if only not in (None, name):
            continue
        async for line in part(system, options):
            cost = f"CPU us a message: client {line.client_us:.1f}, broker {line.broker_us:.1f}"
            key = f"sdk.{options.flush}.{line.what}"
            figure(key, line.value, line.unit, floor=line.floor, beside=line.beside, words=cost)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--body", type=int, default=128)
    parser.add_argument("--flush", choices=("sync", "async", "both"), default="both")
    parser.add_argument("--only", choices=sorted(parts()))
    chosen = parser.parse_args()
    print(provenance(chosen.flush))
    for flush in ("sync", "async") if chosen.flush == "both" else (chosen.flush,):
        with started("--flush", flush) as system:
            uvloop.run(run(system, Options(flush, chosen.seconds, chosen.body), chosen.only))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
