"""Compares other brokers with Gantry: the same work, the same durability, in one run on this machine, one after the other.

    python bench/peers/against.py [--against rocketmq,nats,redis,rabbitmq] [--jars DIR[:DIR...]] [--seconds 5] [--body 128 1024]
                            [--flush sync|async|both] [--fill 50000]

Measures for each system: acknowledged sends with 32 and 256 in flight from one Python process by its usual client, end to end latency
at 1,000 messages a second, consumption of a filled queue, the time from its start to the first acknowledged send, memory when idle.
Once acknowledged when written, once when on disk. Systems that are not installed are skipped with a reason. RocketMQ's own benchmark
programs run against both brokers too, as in rocketmq.py.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from measuring.refusing import refuse
from measuring.system import cpu_seconds, descendants, end_in_order, percentile, provenance, pss_bytes
from peers.against_client import Client, NotStarted, Rival, Server
from peers.against_gantry import Gantry, RocketMq
from peers.against_nats import Nats
from peers.against_rabbitmq import RabbitMq
from peers.against_redis import Valkey
from peers.rocketmq_run import TRIALS, compare
from reporting.figures import figure, skipped
from store_speed.flood import Sends, flood
from system_speed.latency import pace
from system_speed.windows import named
from whole_run.plan import SYSTEMS

IN_FLIGHT = (32, 256)
RATE = 1_000
WARM_SECONDS = 1.0
SETTLE_SECONDS = 3.0
ROUTE_SECONDS = 1.5
"""After this time all parts know a new topic."""
WAIT_SECONDS = 120.0
JAVA_TRIALS = ("producer, async", "producer, sync", "batch", "consumer")


class Trial:
    """A system under one kind of durability."""

    def __init__(self, rival: Rival, flush: str, options: argparse.Namespace) -> None:
        self.rival, self.flush, self.options = rival, flush, options

    def report(self, question: str, value: float, unit: str, words: str = "", name: str = "") -> None:
        figure(f"against.{self.flush}.{question}.{name or self.rival.name}", value, unit, words=words)

    def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="gantry-against-") as folder:
            began = time.perf_counter()
            with self.rival.server(self.flush, Path(folder)) as server:
                uvloop.run(self.ask(server, began))

    async def ask(self, server: Server, began: float) -> None:
        """Measure a listening system; `began` is the start of its start-up."""
        async with self.rival.client(server) as client:
            await client.prepare("first")
            await client.send("first", b"x")
            self.report("first acknowledged send", time.perf_counter() - began, "s")
            await asyncio.sleep(SETTLE_SECONDS)
            memory = sum(pss_bytes(pid) for pid in descendants(server.pids))
            self.report("memory, idle", memory / 1e6, "MB")
            for size in self.options.body:
                await self.sends(client, server, size)
            await self.latency(client)
            await self.consumption(client)
        if isinstance(self.rival, Gantry):
            for size in self.options.body:
                await self.bench_client(server, size)

    async def sends(self, client: Client, server: Server, size: int) -> None:
        topic, body = f"sends-{size}", b"x" * size
        await made(client, topic)
        for in_flight in IN_FLIGHT:
            await client.send_until(topic, body, in_flight, time.perf_counter() + WARM_SECONDS)
            pids = descendants(server.pids)
            began, own, theirs = time.perf_counter(), time.process_time(), sum(map(cpu_seconds, pids))
            done = await client.send_until(topic, body, in_flight, began + self.options.seconds)
            took, own = time.perf_counter() - began, time.process_time() - own
            theirs = sum(map(cpu_seconds, pids)) - theirs
            words = f"CPU us a message: client {own / done * 1e6:.1f}, broker {theirs / done * 1e6:.1f}"
            self.report(f"send {named(size)}, {in_flight} in flight", done / took, "msg/s", words)

    async def bench_client(self, server: Server, size: int) -> None:
        """Measure the same sends with a client that costs almost nothing: the capacity of the broker."""
        store = server.address.split(" ")[1]
        sends = Sends(f"sends-{size}", range(4), b"x" * size)
        for in_flight in IN_FLIGHT:
            shape = {"connections": 8, "window": in_flight}
            rate = await flood(store, sends, seconds=self.options.seconds, **shape)
            name = "Gantry, bench client"
            self.report(f"send {named(size)}, {in_flight} in flight", rate, "msg/s", name=name)

    async def latency(self, client: Client) -> None:
        """Measure from the intended instant of a send to its arrival; one process does both."""
        topic, late, sending = "latency", list[float](), set[asyncio.Task[None]]()
        total, stop = int(RATE * (self.options.seconds + WARM_SECONDS)), asyncio.Event()
        await made(client, topic)

        def taken(bodies: list[bytes]) -> None:
            now = time.perf_counter()
            late.extend(now - float(body[:20]) for body in bodies if body[:1].isdigit())
            if len(late) >= total:
                stop.set()

        def send(_number: int, intended: float) -> None:
            body = f"{intended:020.9f}".encode().ljust(self.options.body[0], b".")
            task = asyncio.ensure_future(client.send(topic, body))
            sending.add(task)
            task.add_done_callback(sending.discard)

        consuming = asyncio.ensure_future(client.consume(topic, taken, stop))
        await asyncio.sleep(1.0)
        await pace(RATE, total / RATE, send)
        if await self._ended(consuming, stop, "end to end latency"):
            ordered = sorted(late[int(RATE * WARM_SECONDS) :])
            for share in (0.5, 0.99):
                value = percentile(ordered, share) * 1000
                self.report(f"end to end at {RATE:,}/s, p{share * 100:g}", value, "ms")

    async def consumption(self, client: Client) -> None:
        """Measure a filled queue from the first message that arrives to the last."""
        topic, body, stored = "filled", b"1" * self.options.body[0], 0
        await made(client, topic)
        while stored < self.options.fill:
            stored += await client.send_until(topic, body, IN_FLIGHT[-1], time.perf_counter() + 1.0)
        left, first, stop = stored, 0.0, asyncio.Event()

        def taken(bodies: list[bytes]) -> None:
            nonlocal left, first
            first = first or time.perf_counter()
            left -= sum(body[:1] == b"1" for body in bodies)
            if left <= 0:
                stop.set()

        if await self._ended(
            asyncio.ensure_future(client.consume(topic, taken, stop)), stop, "consumption of a filled queue"
        ):
            rate = stored / (self.ended - first)
            self.report("consumption of a filled queue", rate, "msg/s", f"{stored:,} messages")

    async def _ended(self, consuming: asyncio.Future[None], stop: asyncio.Event, what: str) -> bool:
        try:
            await asyncio.wait_for(stop.wait(), WAIT_SECONDS)
        except TimeoutError:
            skipped(f"{self.rival.name}, {what}", f"not all messages came within {WAIT_SECONDS:.0f} s")
            stop.set()
            return False
        else:
            self.ended = time.perf_counter()
            return True
        finally:
            await consuming


async def made(client: Client, topic: str) -> None:
    await client.prepare(topic)
    await asyncio.sleep(ROUTE_SECONDS)


def rivals(names: list[str], jars: str) -> list[Rival]:
    """Return Gantry and the named systems that can run here; skip the others with a reason."""
    makes: dict[str, Callable[[], Rival]] = {
        "rocketmq": lambda: RocketMq(jars),
        "nats": Nats,
        "redis": Valkey,
        "rabbitmq": RabbitMq,
    }
    unknown = [name for name in names if name not in makes]
    if unknown:
        refuse(f"--against {','.join(unknown)}: unknown system; available: {', '.join(makes)}")
    found: list[Rival] = [Gantry()]
    for name in names:
        rival = makes[name]()
        why = rival.missing()
        if why:
            skipped(rival.name, why)
        else:
            found.append(rival)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", default=",".join(SYSTEMS), help="systems, separated by commas")
    parser.add_argument("--jars", default="", help="folders of RocketMQ's jars or classes, separated by ':'")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--java-seconds", type=float, default=20.0, help="of each of RocketMQ's programs")
    parser.add_argument("--threads", type=int, default=32, help="of RocketMQ's programs")
    parser.add_argument("--body", type=int, nargs="+", default=[128], help="bytes")
    parser.add_argument("--fill", type=int, default=50_000, help="messages of the filled queue")
    parser.add_argument("--flush", choices=("sync", "async", "both"), default="both")
    options = parser.parse_args()
    print(f"against others; {provenance('each as its word says')}", flush=True)
    end_in_order()
    chosen = rivals([name for name in options.against.split(",") if name], options.jars)
    for flush in ("async", "sync") if options.flush == "both" else (options.flush,):
        for rival in chosen:
            if flush not in rival.durability:
                skipped(f"{rival.name}, {flush}", "; ".join(rival.durability.values()))
                continue
            print(f"-- {rival.name}: {rival.durability[flush]}", flush=True)
            try:
                Trial(rival, flush, options).run()
            except NotStarted as words:
                skipped(f"{rival.name}, {flush}", str(words))
    if any(isinstance(rival, RocketMq) for rival in chosen):
        print("-- RocketMQ's own benchmark programs, against both brokers", flush=True)
        trials = [
            trial
            for trial in TRIALS
            if trial.name.startswith(JAVA_TRIALS) and options.flush in {trial.flush, "both"}
        ]
        options.seconds = options.java_seconds
        compare(options.jars, trials, options)


if __name__ == "__main__":
    main()
