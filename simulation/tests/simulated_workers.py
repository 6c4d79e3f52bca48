"""A nameserver, a store, two workers that share it, a reader of its topic, and the faults that strike them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
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
    """Strikes with one fault after the other. They overlap: each ends after a time of its own."""

    def __init__(self, system: System) -> None:
        self._system, self._world = system, system.world
        self._rng = random.Random(f"{system.world.seed}/faults")
        self._struck: set[str] = set()
        """Processes that are down or paused."""
        self._lasting = 0

    def run(self, kinds: Sequence[str]) -> None:
        """Strike with these faults in a drawn order, and let all of them end."""
        for kind in self._rng.sample(kinds, len(kinds)):
            self._world.run_for(self._rng.uniform(0.1, 3))
            part = self._system.store if "store" in kind else self._rng.choice(self._system.workers)
            assert self._world.run_until(lambda part=part: part.process.name not in self._struck, within=10)
            self._strike(kind, part)
        assert self._world.run_until(lambda: self._lasting == 0, within=10)

    def _strike(self, kind: str, part: Part | Store) -> None:
        process, store = part.process, self._system.store
        if kind in ("kill", "lose power", "kill store", "lose power of store"):
            self._end_process(part, has_power="kill" in kind)
            self._later(part.start, process)
        elif kind in ("pause", "pause store"):
            process.pause()
            self._later(process.resume, process)
        elif kind == "break":
            half = self._rng.random() < 0.5
            self._system.network.break_connections(store.process.address, process.address, half=half)
        elif kind in ("cut", "cut one way"):
            pair = self._rng.sample([store.process.address, process.address], 2)
            self._system.network.cut(*pair, both=kind == "cut")
            self._later(partial(self._system.network.heal, *pair))
        elif kind == "lasting step":
            store.process.clocks.step_wall(3600)
        else:
            self._step(self._rng.choice([store.process, process]))

    def _end_process(self, part: Part | Store, *, has_power: bool) -> None:
        if has_power:
            part.kill()
        elif isinstance(part, Store):
            part.lose_power(self._rng.getrandbits(16))
        else:
            part.lose_power()

    def _step(self, process: Process) -> None:
        """Set a wall clock wrong for a while. The store trusts a step only after minutes."""
        seconds = self._rng.choice([self._rng.uniform(-10_000, 10_000), self._rng.uniform(-3, 3)])
        process.clocks.step_wall(seconds)
        self._later(partial(process.clocks.step_wall, -seconds))

    def _later(self, end: Callable[[], None], struck: Process | None = None) -> None:
        """End a fault after a drawn time; some outlast a claim."""
        wait = self._rng.choice([self._rng.uniform(0.01, 0.8), self._rng.uniform(1, 3 * CLAIM_SECONDS)])
        names = {struck.name} if struck is not None else set[str]()
        self._struck |= names
        self._lasting += 1

        def ends() -> None:
            self._struck -= names
            self._lasting -= 1
            end()

        self._world.after(round(wait * SECOND_NS), ends)
