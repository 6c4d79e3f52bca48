"""A nameserver, a store, two workers that share it, a reader of its topic, and the faults that strike them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from gantry_chassis.process import Life
from gantry_link.clients.store import StoreClient
from gantry_link.connections.connection import PushHandler
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.network.conditions import Conditions
from gantry_simulation.network.network import Network
from gantry_simulation.parts.nameserver import Nameserver
from gantry_simulation.parts.store import Store
from gantry_simulation.processes.process import Process
from gantry_simulation.world.world import SECOND_NS, World
from gantry_wire.headers.messages import PullHeader, SendHeaderV2
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import Record, scan_records

TOPIC = "Orders"
NAMESERVER = "10.0.0.1:9876"
CLAIM_SECONDS = 1.0
"""Time of a claim: shorter than the product's 3 s, so that short lives see many takeovers."""
WORKER = {"nameservers": NAMESERVER, "claim_ttl_ms": int(CLAIM_SECONDS * 1000), "poll_seconds": 1.0}
REQUEST_SECONDS = 1.0
FASTER = 1 / 2000 + 2e-4
"""Store time follows the wall clock by at most 1 part in 2,000 (docs/operations.md, Clocks), and clocks drift."""


class Part(Protocol):
    """A worker that can be started again."""

    process: Process

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def lose_power(self) -> None: ...


class Read(NamedTuple):
    """A message at its first sight."""

    record: Record
    seen_ns: int


class System:
    """Everything but the workers and those that send. `reads` holds each message of the topic by its offset."""

    def __init__(self, world: World, directory: Path, **store: object) -> None:
        self.world = world
        self.network = Network(world, Conditions(slow_chance=0.02, loss_chance=0.001))
        self.nameserver = Nameserver(
            Process(world, self.network, "nameserver", "10.0.0.1"), directory / "nameserver"
        )
        self.store = Store(Process(world, self.network, "store", "10.0.0.2"), NAMESERVER, **store)
        self.reader = Process(world, self.network, "reader", "10.0.0.30")
        self.workers: list[Part] = []
        self.reads: dict[int, Read] = {}
        self.nameserver.start()
        self.store.start()
        self.reader.start(self._reads)

    def process(self, name: str, number: int) -> Process:
        """Return a process on a machine of its own."""
        return Process(self.world, self.network, name, f"10.0.0.{number}")

    def store_client(self, life: Life, on_push: PushHandler | None = None) -> StoreClient:
        """Return a client of the store."""
        pool = ConnectionPool(on_push=on_push, rng=life.environment.rng)
        return StoreClient(pool, self.store.address, REQUEST_SECONDS)

    async def _reads(self, life: Life) -> None:
        client, offset = self.store_client(life), 0
        while not life.stopping.is_set():
            header = PullHeader(
                consumer_group="G", topic=TOPIC, queue_id=0, queue_offset=offset, max_msg_nums=32, sys_flag=6,
                suspend_timeout_millis=1000, subscription="*",
            )  # fmt: skip
            try:
                pulled = await client.pull(header, timeout_seconds=2.0)
            except (LinkError, BrokerRefused):
                await life.sleep(0.05)
                continue
            for record in scan_records(pulled.records):
                self._read(record)
            if pulled.next_offset < offset:
                self.world.violate("reader", f"offset {offset} is beyond the end {pulled.next_offset}")
            offset = pulled.next_offset

    def _read(self, record: Record) -> None:
        read = self.reads.setdefault(record.queue_offset, Read(record, self.world.now_ns))
        if bytes(read.record.body) != bytes(record.body):
            self.world.violate("reader", f"offset {record.queue_offset} names two messages")

    def read_again(self) -> None:
        """Read the whole topic with another reader: every offset must still name the same message."""
        end = self.world.now_ns + 3 * SECOND_NS
        again = self.process("reader again", 31)
        again.start(self._reads)
        self.world.run_for((end - self.world.now_ns) / SECOND_NS)


def send_header(life: Life, group: str = "G", sys_flag: int = 0, **properties: str) -> SendHeaderV2:
    """Return the header of a message with these properties."""
    return SendHeaderV2(
        producer_group=group, topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=1, queue_id=0,
        sys_flag=sys_flag, born_timestamp=life.environment.wall_ms(), flag=0,
        properties=format_properties(properties).decode(),
    )  # fmt: skip


KINDS = (
    "kill", "kill store", "lose power", "lose power of store", "pause", "pause store", "cut", "cut one way", "break",
    "step",
)  # fmt: skip
"""The faults. Those that name no other process strike a worker."""


class Faults:
    """Strikes with one fault after the other, and ends each of them."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._rng = random.Random(f"{system.world.seed}/faults")

    def run(self, kinds: Sequence[str]) -> None:
        """Strike with these faults in a drawn order, with pauses."""
        for kind in self._rng.sample(kinds, len(kinds)):
            self._system.world.run_for(self._rng.uniform(0.1, 2))
            self.strike(kind)

    def strike(self, kind: str) -> None:
        """Let one fault begin and end."""
        system, rng, world = self._system, self._rng, self._system.world
        worker = rng.choice(system.workers)
        process = system.store.process if "store" in kind else worker.process
        wait = rng.choice([rng.uniform(0.01, 0.8), rng.uniform(1, 3 * CLAIM_SECONDS)])
        if kind in ("kill store", "lose power of store"):
            if kind == "kill store":
                system.store.kill()
            else:
                system.store.lose_power(rng.getrandbits(16))
            world.run_for(wait)
            system.store.start()
        elif kind in ("kill", "lose power"):
            (worker.kill if kind == "kill" else worker.lose_power)()
            world.run_for(wait)
            worker.start()
        elif kind.startswith("pause"):
            process.pause()
            world.run_for(wait)
            process.resume()
        elif kind == "lasting step":
            system.store.process.clocks.step_wall(3600)
            world.run_for(wait)
        elif kind == "step":
            self._step(rng.choice([system.store.process, process]), wait)
        elif kind == "break":
            system.network.break_connections(
                system.store.process.address, process.address, half=rng.random() < 0.5
            )
        else:
            pair = [system.store.process.address, process.address]
            rng.shuffle(pair)
            system.network.cut(*pair, both=kind == "cut")
            world.run_for(wait)
            system.network.heal(*pair)

    def _step(self, process: Process, wait: float) -> None:
        """Set a wall clock wrong for a while. The store trusts a step only after minutes."""
        seconds = self._rng.choice([self._rng.uniform(-10_000, 10_000), self._rng.uniform(-3, 3)])
        process.clocks.step_wall(seconds)
        self._system.world.run_for(wait)
        process.clocks.step_wall(-seconds)
