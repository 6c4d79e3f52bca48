"""The real nameserver and real clients of the link over the simulated network. Drawn lives (test_lives.py) add faults."""

from __future__ import annotations

from pathlib import Path

from gantry_chassis.process import Life
from gantry_link.clients.nameservers import NameserverClient, Registered
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.network.network import Network
from gantry_simulation.parts.nameserver import Nameserver
from gantry_simulation.processes.process import Process
from gantry_simulation.world.world import World
from gantry_wire.bodies.cluster import RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from gantry_wire.frames.command import Command
from gantry_wire.headers.nameserver import RegisterBrokerHeader

TOPIC = "Orders"
BROKER = "10.0.0.9:10911"


class System:
    """One nameserver, a broker that registers with it, and a client that asks for routes and keeps a value there."""

    def __init__(self, world: World, data_dir: Path) -> None:
        self.world = world
        self.network = Network(world)
        self.nameserver = Nameserver(Process(world, self.network, "nameserver", "10.0.0.1"), data_dir)
        self.broker = Process(world, self.network, "broker", "10.0.0.9")
        self.client = Process(world, self.network, "client", "10.0.0.20")
        self.registered = self.routes = self.failures = 0
        self.acknowledged = self.asked = 0
        """Highest value of the key that the nameserver acknowledged, and the highest one sent."""
        self.nameserver.start()
        self.broker.start(self._registers)
        self.client.start(self._asks)

    def _client(self, life: Life) -> NameserverClient:
        pool = ConnectionPool(rng=life.environment.rng)
        return NameserverClient(pool, self.nameserver.address, timeout_seconds=1)

    async def _registers(self, life: Life) -> None:
        client = self._client(life)
        topics = {
            name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4)
            for name in (TOPIC, "Other")
        }
        while not await life.sleep(1.0):
            header = RegisterBrokerHeader(
                broker_name="broker-a", broker_addr=BROKER, cluster_name="C", ha_server_addr="", broker_id=0
            )
            wrapper = TopicConfigSerializeWrapper(topic_config_table=topics)
            body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
            answers = await client.register_broker(header, body)
            self.registered += sum(isinstance(answer, Registered) for answer in answers.values())

    async def _asks(self, life: Life) -> None:
        client = self._client(life)
        while not await life.sleep(0.2):
            try:
                route = await client.route(TOPIC)
                assert route.broker_datas[0].broker_addrs == {0: BROKER}
                self.routes += 1
                await self._keeps_a_value(client)
            except (LinkError, BrokerRefused):
                self.failures += 1

    async def _keeps_a_value(self, client: NameserverClient) -> None:
        acknowledged = self.acknowledged
        value = int(await client.kv_get("simulation", "key") or 0)
        if not acknowledged <= value <= self.asked:
            self.world.violate("client", f"{value} is not in {acknowledged}..{self.asked}")
        self.asked += 1
        number = self.asked
        answers = await client.kv_put("simulation", "key", str(number))
        if all(isinstance(answer, Command) for answer in answers.values()):
            self.acknowledged = number


def test_a_nameserver_answers_over_the_simulated_network(world: World, tmp_path: Path) -> None:
    system = System(world, tmp_path)
    world.run_for(20)
    assert world.violations == []
    assert system.registered > 15
    assert system.routes > 50
    assert system.acknowledged > 50
    assert system.failures < 10  # before the first registration


def test_a_lost_value_is_found(world: World, tmp_path: Path) -> None:
    system = System(world, tmp_path)
    world.run_for(5)
    system.nameserver.kill()
    for file in tmp_path.iterdir():
        file.unlink()
    system.nameserver.start()
    world.run_for(5)
    assert any("is not in" in violation.what for violation in world.violations)


def test_a_second_nameserver_is_refused_the_directory_of_the_first(world: World, tmp_path: Path) -> None:
    system = System(world, tmp_path)
    world.run_for(1)
    other = Nameserver(Process(world, system.network, "other", "10.0.0.2"), tmp_path)
    other.start()
    world.run_for(1)
    assert "is in use by another nameserver" in other.process.refusal
    assert system.nameserver.process.is_running
