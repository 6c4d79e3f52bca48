"""The real broker-store on a simulated disk: what it acknowledged is readable at its place, after kills and power cuts."""

from __future__ import annotations

import contextlib
import errno
import random
from pathlib import Path

import pytest

from broker_store.log.files.simulated_files import Fault, SimulatedFile
from gantry_chassis.process import Life
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.network.network import Network
from gantry_simulation.parts.nameserver import Nameserver
from gantry_simulation.parts.store import Store
from gantry_simulation.processes.process import Process
from gantry_simulation.world.world import World
from gantry_wire.headers.messages import PullHeader, SendHeaderV2
from gantry_wire.records.message_record import scan_records

TOPIC = "Orders"
READ_AT_ONCE = 32


def send_header(born_ms: int) -> SendHeaderV2:
    return SendHeaderV2(
        producer_group="G", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=1, queue_id=0,
        sys_flag=0, born_timestamp=born_ms, flag=0,
    )  # fmt: skip


def pull_header(offset: int) -> PullHeader:
    return PullHeader(
        consumer_group="G", topic=TOPIC, queue_id=0, queue_offset=offset, max_msg_nums=READ_AT_ONCE, sys_flag=4,
        subscription="*",
    )  # fmt: skip


class System:
    """One store, and a client that sends numbered messages."""

    def __init__(self, world: World, nameservers: str = "") -> None:
        self.world = world
        self.network = Network(world)
        self.store = Store(Process(world, self.network, "store", "10.0.0.2"), nameservers)
        self.client = Process(world, self.network, "client", "10.0.0.20")
        self.sent = 0
        self.acknowledged: dict[int, bytes] = {}
        self.read: dict[int, bytes] = {}
        self.store.start()
        self.client.start(self._sends)

    async def _sends(self, life: Life) -> None:
        client = StoreClient(ConnectionPool(rng=life.environment.rng), self.store.address, 1.0)
        while not await life.sleep(0.02):
            self.sent += 1
            body = b"%d" % self.sent
            try:
                stored = await client.send(send_header(life.environment.wall_ms()), body)
            except (LinkError, BrokerRefused):
                continue
            if self.acknowledged.setdefault(stored.reply.queue_offset, body) != body:
                self.world.violate("client", f"offset {stored.reply.queue_offset} names two messages")

    async def _reads(self, life: Life) -> None:
        client = StoreClient(ConnectionPool(rng=life.environment.rng), self.store.address, 1.0)
        end = await client.max_offset(TOPIC, 0)
        offset = 0
        while offset < end:
            pulled = await client.pull(pull_header(offset))
            for record in scan_records(pulled.records):
                self.read[record.queue_offset] = bytes(record.body)
            offset = pulled.next_offset

    def read_all(self) -> None:
        """Stop sending and read the queue from its start."""
        self.client.stop()
        assert self.world.run_until(lambda: not self.client.is_running, within=10)
        reader = Process(self.world, self.network, "reader", "10.0.0.30")
        reader.start(self._reads)
        assert self.world.run_until(lambda: not reader.is_running, within=30)


def lost(system: System) -> dict[int, bytes]:
    """The acknowledged messages that are not read at their place."""
    return {offset: body for offset, body in system.acknowledged.items() if system.read.get(offset) != body}


def life(seed: int, kills: int) -> tuple[System, str]:
    with World(seed) as world:
        system = System(world)
        faults = random.Random(f"{seed}/faults")
        for _ in range(kills):
            world.run_for(faults.uniform(1, 4))
            if faults.random() < 0.5:
                system.store.kill()
            else:
                system.store.lose_power(faults.getrandbits(16))
            world.run_for(faults.uniform(0.01, 1))
            system.store.start()
        world.run_for(5)
        system.read_all()
    return system, world.trace.digest()


@pytest.mark.parametrize("seed", range(2))
def test_what_is_acknowledged_is_readable_at_its_place_after_kills_and_power_cuts(
    seed: int,
) -> None:
    system, _ = life(seed, kills=3)
    assert system.world.violations == []
    assert len(system.acknowledged) > 50
    assert lost(system) == {}


def test_a_store_registers_with_a_nameserver_and_again_after_the_nameserver_was_killed(
    world: World, tmp_path: Path
) -> None:
    system = System(world, "10.0.0.1:9876")
    nameserver = Nameserver(Process(world, system.network, "nameserver", "10.0.0.1"), tmp_path / "nameserver")
    routes: list[str] = []

    async def asks(life: Life) -> None:
        client = NameserverClient(ConnectionPool(rng=life.environment.rng), nameserver.address)
        while not await life.sleep(0.1):
            with contextlib.suppress(LinkError, BrokerRefused):
                routes.append((await client.route(TOPIC)).broker_datas[0].broker_addrs[0])

    Process(world, system.network, "asking", "10.0.0.21").start(asks)
    nameserver.start()
    for _ in range(2):
        assert world.run_until(lambda: len(routes) > 3, within=10)
        assert set(routes) == {system.store.address}
        nameserver.kill()
        world.run_for(1)
        routes.clear()
        nameserver.start()
    assert world.violations == []


@pytest.mark.parametrize("operation", ["open", "pwrite", "sync", "sync_dir", "rename"])
def test_a_start_on_a_failing_disk_is_refused_with_the_file_and_a_later_one_succeeds(operation: str) -> None:
    with World(4) as world:
        system = System(world)
        world.run_for(2)
        refusals: list[str] = []
        for skip in range(4):
            system.store.kill()
            system.store.files.faults.append(Fault(operation, errno.EIO, skip=skip))
            system.store.start()
            world.run_for(2)
            if not system.store.process.is_running:  # some files are not necessary
                refusals.append(system.store.process.refusal)
                system.store.start()
                world.run_for(2)
        assert refusals
        assert all("check the disk" in refusal and "/store" in refusal for refusal in refusals)
        system.read_all()
    assert world.violations == []
    assert lost(system) == {}


def test_a_disk_that_does_not_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedFile, "sync", lambda _file: None)
    systems = [life(seed, kills=3)[0] for seed in range(2)]
    assert any(lost(system) or system.world.violations for system in systems)


def test_a_seed_repeats_the_life_of_a_store() -> None:
    first, again = (life(5, kills=1)[1] for _ in range(2))
    assert first == again
