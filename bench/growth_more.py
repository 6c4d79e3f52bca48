"""Speed as the store grows in groups, in connections, in the size of its log: sends and pulls compared with those of a small one.

    python bench/growth_more.py [--seconds 6] [--only groups|connections|log] [--groups 10000] [--connections 5000] [--gigabytes 2]

Each group has a consumer, 100 of them per connection, and an offset that moves. Connections are idle after one request. The log has
messages of 1 KiB in eight queues: sends to its end, pulls at its end and of its oldest messages, compared with a log of 100 MB; then the
start after a clean stop and after kill -9. Ten gigabytes: --gigabytes 10, with twice that free in the folder of temporary files.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from figures import figure
from flood import Sends, flood
from growth import BODY, Rates, create, pull_rate
from idle import pss_bytes
from recovery import QUEUES, Store, fill
from recovery import TOPIC as LOG_TOPIC
from system import System, provenance, started

from gantry_link.connection import Connection, connect
from gantry_wire.bodies.clients import ConsumerData, HeartbeatData, SubscriptionData
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import UpdateConsumerOffsetHeader

PARTS = ("groups", "connections", "log")
TOPIC = "narrow"
FEW_QUEUES = 10
GROUPS_A_CONNECTION = 100
LOG_BODY = bytes(1024)
SMALL_MEGABYTES = 100
RECENT = 20_000
"""Messages of each queue that count as its end."""
FAR_BACK = "further back than 40 % of the machine's memory a pull gets 8 messages at most, as in RocketMQ"
Grow = Callable[[System, int], Awaitable[list[Connection]]]


async def rates_of(system: System, seconds: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Measure sends and pulls, each as messages per second and the store's CPU us per message."""
    rates, sends = Rates(system, seconds), Sends(TOPIC, range(FEW_QUEUES), BODY)
    queues = [(TOPIC, number) for number in range(FEW_QUEUES)]
    await flood(system.store, sends, seconds=1)
    sent = await rates.of(lambda some: flood(system.store, sends, seconds=some))
    return sent, await rates.of(lambda some: pull_rate(system.store, queues, some))


async def beside(system: System, name: str, count: int, grow: Grow, seconds: float) -> None:
    """Measure, grow, and measure again."""
    few, before = await rates_of(system, seconds), pss_bytes(system.store_pid)
    connections = await grow(system, count)
    many, after = await rates_of(system, seconds), pss_bytes(system.store_pid)
    for connection in connections:
        connection.close()
    for what, found, floor in zip(("sends", "pulls"), many, few, strict=True):
        words = f"CPU us of the store each {found[1]:.1f}, before {floor[1]:.1f}"
        key = f"growth_more.{what}, {count:,} {name}"
        figure(key, found[0], "msg/s", floor=floor[0], beside="without", words=words)
    figure(f"growth_more.memory, {count:,} {name}", (after - before) / 1e6, "MB", words="more than before")


async def groups(system: System, count: int) -> list[Connection]:
    """Add consumer groups, each with a subscription and an offset; return the connections that keep them alive."""
    connections: list[Connection] = []
    for first in range(0, count, GROUPS_A_CONNECTION):
        connections.append(connection := await connect(system.store))
        names = [f"group-{number}" for number in range(first, min(first + GROUPS_A_CONNECTION, count))]
        topic = SubscriptionData(topic=TOPIC)
        consumers = [ConsumerData(group_name=name, subscription_data_set=[topic]) for name in names]
        data = HeartbeatData(client_id=f"client-{first}", consumer_data_set=consumers)
        answer = await connection.request(RequestCode.HEART_BEAT, None, encode_body(data), timeout=60)
        assert answer.code == 0, answer.remark
        for name in names:
            header = UpdateConsumerOffsetHeader(consumer_group=name, topic=TOPIC, queue_id=0, commit_offset=1)
            answer = await connection.request(RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout=60)
            assert answer.code == 0, answer.remark
    return connections


async def idle(system: System, count: int) -> list[Connection]:
    """Add connections that made one request and are idle."""
    connections: list[Connection] = []
    for _ in range(count):
        connections.append(connection := await connect(system.store))
        await connection.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout=60)
    return connections


async def at(store: Store, per_queue: int, seconds: float) -> dict[str, float]:
    """Measure sends to a log, pulls of its oldest messages and at its end; return messages per second."""
    queues = [(LOG_TOPIC, number) for number in range(QUEUES)]
    first = dict.fromkeys(queues, (0, min(RECENT, per_queue)))
    last = dict.fromkeys(queues, (max(per_queue - RECENT, 0), per_queue))
    return {
        "pulls of the oldest": await pull_rate(store.address, queues, seconds, bounds=first),
        "pulls at the end": await pull_rate(store.address, queues, seconds, bounds=last),
        "sends": await flood(store.address, Sends(LOG_TOPIC, range(QUEUES), LOG_BODY), seconds=seconds),
    }


def log(gigabytes: float, seconds: float) -> None:
    """Measure a small log, fill it, measure again, stop and start."""
    if shutil.disk_usage(tempfile.gettempdir()).free < gigabytes * 2e9:
        sys.exit(
            f"{tempfile.gettempdir()} has less than {gigabytes * 2:g} GB free: fewer --gigabytes, or another TMPDIR"
        )
    with tempfile.TemporaryDirectory(prefix="gantry-growth-") as folder, Store(Path(folder)) as store:
        figures: list[dict[str, float]] = []
        count, starts = 0, [store.start()]
        for megabytes in (SMALL_MEGABYTES, max(round(gigabytes * 1000) - SMALL_MEGABYTES, SMALL_MEGABYTES)):
            count += uvloop.run(fill(store.address, megabytes, LOG_BODY))
            figures.append(uvloop.run(at(store, count // QUEUES, seconds)))
        memory = pss_bytes(store.pid)
        for number in (signal.SIGTERM, signal.SIGKILL):
            store.end(number)
            starts.append(store.start())
    size = f"log of {gigabytes:g} GB"
    for name, value in figures[1].items():
        key = f"growth_more.{name}, {size}"
        words = FAR_BACK if name.endswith("oldest") else ""
        figure(key, value, "msg/s", floor=figures[0][name], beside=f"{SMALL_MEGABYTES} MB", words=words)
    empty, clean, killed = starts
    figure(f"growth_more.memory, {size}", memory / 1e6, "MB")
    figure(f"growth_more.start after a stop, {size}", clean, "s", floor=empty, beside="an empty store")
    figure(f"growth_more.start after kill -9, {size}", killed, "s", floor=empty, beside="an empty store")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--only", choices=PARTS, help="only this part")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=5_000)
    parser.add_argument("--gigabytes", type=float, default=2.0, help="of the log")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # connections of this process
    print(f"growth; {provenance('groups, connections: sync; log: async')}")
    parts: list[tuple[str, int, Grow]] = [
        ("groups", options.groups, groups),
        ("connections", options.connections, idle),
    ]
    for name, count, grow in parts:
        if options.only in {None, name}:
            with started() as system:
                uvloop.run(_grown(system, name, count, grow, options.seconds))
    if options.only in {None, "log"}:
        log(options.gigabytes, options.seconds)


async def _grown(system: System, name: str, count: int, grow: Grow, seconds: float) -> None:
    await create(system, {TOPIC: FEW_QUEUES})
    await beside(system, name, count, grow, seconds)


if __name__ == "__main__":
    main()
