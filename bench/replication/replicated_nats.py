"""Acknowledged sends from one Python process to Gantry with three replicas, and to a JetStream stream with three, in turns.

    python bench/replication/replicated_nats.py [--seconds 5] [--turns 2] [--body 128] [--in-flight 32 256]

Three NATS servers with `sync_interval: always`, a stream of three replicas in files, and the client connected to the stream's leader; Gantry with its
SDK, sync flush. All processes share one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import nats
import uvloop
from nats.errors import Error as NatsError
from nats.js.api import StorageType, StreamConfig

from gantry_launcher.layout import nats_server
from gantrymq import Producer
from measuring.system import end_in_order, end_process, provenance
from peers.against_client import STOP_SECONDS_MAX, Client, free_port, start
from peers.against_gantry import Sdk
from peers.against_nats import JetStream, Nats
from peers.against_rabbitmq import RabbitMq
from replication.group import group
from reporting.figures import figure, skipped
from sdk_speed.sdk_measures import SEND_SECONDS

REPLICAS = 3
STREAM = "replicated"
WARM_SECONDS = 1.0
FORM_SECONDS_MAX = 60.0
ROUTE_SECONDS = 1.5


@contextlib.contextmanager
def servers(folder: Path) -> Generator[dict[str, str]]:
    """Run a cluster of three NATS servers with JetStream; yield their URLs by name."""
    ports = [free_port() for _ in range(REPLICAS)]
    routes = [free_port() for _ in range(REPLICAS)]
    urls = {f"n{at}": f"nats://127.0.0.1:{port}" for at, port in enumerate(ports)}
    with contextlib.ExitStack() as running:
        for (name, _), port, route in zip(urls.items(), ports, routes, strict=True):
            config = folder / f"{name}.conf"
            others = ", ".join(f'"nats://127.0.0.1:{one}"' for one in routes)
            config.write_text(
                f'server_name: {name}\njetstream {{\n store_dir: "{folder}/{name}"\n sync_interval: always\n}}\n'
                f'cluster {{\n name: bench\n listen: "127.0.0.1:{route}"\n routes: [{others}]\n}}\n'
            )
            command = [str(nats_server()), "-c", str(config), "-a", "127.0.0.1", "-p", str(port)]
            process = start(command, port, folder / f"{name}.log")
            running.callback(end_process, process, STOP_SECONDS_MAX)
        yield urls


@contextlib.asynccontextmanager
async def stream(urls: dict[str, str]) -> AsyncGenerator[Client]:
    """Make the stream as soon as the cluster can, and connect to the server that leads it."""
    first = await cast("Any", nats).connect(next(iter(urls.values())))
    try:
        config = StreamConfig(name=STREAM, subjects=[STREAM], storage=StorageType.FILE, num_replicas=REPLICAS)
        info: Any = None
        async with asyncio.timeout(FORM_SECONDS_MAX):
            while info is None:
                try:
                    info = await first.jetstream().add_stream(config)
                except NatsError:
                    await asyncio.sleep(0.5)
    finally:
        await first.close()
    connection = await cast("Any", nats).connect(urls[info.cluster.leader])
    try:
        yield JetStream(connection)
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def sdk(nameserver: str) -> AsyncGenerator[Client]:
    """Connect the SDK, and make the topic."""
    async with Producer("bench", nameservers=nameserver, send_timeout=SEND_SECONDS) as producer:
        client = Sdk(producer, nameserver)
        await client.prepare(STREAM)
        await asyncio.sleep(ROUTE_SECONDS)
        yield client


async def rates(
    connected: contextlib.AbstractAsyncContextManager[Client], options: argparse.Namespace
) -> list[float]:
    """Return the rate for each number of sends in flight."""
    found: list[float] = []
    async with connected as client:
        for in_flight in options.in_flight:
            body = b"x" * options.body
            await client.send_until(STREAM, body, in_flight, time.perf_counter() + WARM_SECONDS)
            began = time.perf_counter()
            done = await client.send_until(STREAM, body, in_flight, began + options.seconds)
            found.append(done / (time.perf_counter() - began))
    return found


def of_gantry(options: argparse.Namespace) -> list[float]:
    with group(REPLICAS) as (system, _):
        return uvloop.run(rates(sdk(system.nameserver), options))


def of_jetstream(options: argparse.Namespace) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="gantry-jetstream-") as folder, servers(Path(folder)) as urls:
        return uvloop.run(rates(stream(urls), options))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--body", type=int, default=128, help="bytes")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[32, 256])
    options = parser.parse_args()
    print(f"replicated_nats; {provenance('sync, every replica in sync; JetStream: a majority of three')}")
    end_in_order()
    # A cluster of three is not tried here: one quorum queue on one server is a part of against.py.
    skipped("RabbitMQ's quorum queues", RabbitMq().missing() or "this program starts no cluster of it")
    if why := Nats().missing():
        skipped("replicated_nats", why)
        return
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    for turn in range(options.turns):
        sides = [(of_gantry, ours), (of_jetstream, theirs)]
        for measure, into in sides if turn % 2 == 0 else reversed(sides):
            into.append(measure(options))
    for at, in_flight in enumerate(options.in_flight):
        rate, floor = fmean(one[at] for one in ours), fmean(one[at] for one in theirs)
        words = f"Gantry {_all(ours, at)}; JetStream {_all(theirs, at)}"
        figure(
            f"replicated_nats.{in_flight} in flight", rate, "msg/s", floor=floor, beside="JetStream R3, sync_interval always", words=words,
        )  # fmt: skip


def _all(turns: list[list[float]], at: int) -> str:
    return " ".join(f"{one[at]:,.0f}" for one in turns)


if __name__ == "__main__":
    main()
