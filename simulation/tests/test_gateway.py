"""Two gateway workers on one port, with nameserver, store, scheduler, NATS and Valkey: every call of a message's life over HTTP."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from repeats import digest_elsewhere

from gantry_chassis.process import Life
from gantry_simulation.clients.http_client import Answer, HttpClient, NoAnswer
from gantry_simulation.fakes.servers import Nats, Valkey
from gantry_simulation.network.network import Network
from gantry_simulation.parts.gateway import Gateway
from gantry_simulation.parts.nameserver import Nameserver
from gantry_simulation.parts.scheduler import Scheduler
from gantry_simulation.parts.store import Store
from gantry_simulation.parts.txn_checker import TxnChecker
from gantry_simulation.processes.process import Process
from gantry_simulation.world.world import World

NAMESERVER = "10.0.0.1:9876"
TOPIC = "/v1/topics/Orders"
GROUP = f"{TOPIC}/groups/G"
READY_SECONDS = 40.0
CALL_SECONDS = 10.0
LIMITED_AT = 7
"""A seed with which Valkey answers in 0.1 s. After a later answer the gateway limits nothing for a second."""


class Edge:
    """A whole system of one of each, with two gateway workers."""

    def __init__(self, world: World, directory: Path, *, rate: int = 0) -> None:
        self.world, self.network = world, Network(world)
        self.nats, self.valkey = Nats(self._process("nats", 2)), Valkey(self._process("valkey", 3))
        hints = {"nats_url": self.nats.url}
        nameserver = Nameserver(self._process("nameserver", 1), directory / "nameserver")
        self.store = Store(self._process("store", 4), NAMESERVER, **hints)
        workers = [
            Scheduler(world, self._process("scheduler", 5), directory / "scheduler", NAMESERVER, **hints),
            TxnChecker(self._process("txn-checker", 6), NAMESERVER, **hints),
        ]
        first = self._process("gateway-0", 7)
        processes = [first, Process(world, self.network, "gateway-1", first.address, beside=first)]
        self.gateways = [
            Gateway(
                process, NAMESERVER, worker=number, workers=2, redis_url=self.valkey.url, auto_create_topic=True,
                client_messages_per_second=rate, fast_paths=number == 0, **hints,
            )
            for number, process in enumerate(processes)
        ]  # fmt: skip
        self.client = self._process("client", 8)
        for part in (self.nats, self.valkey, nameserver, self.store, *workers, *self.gateways):
            part.start()

    def _process(self, name: str, number: int) -> Process:
        return Process(self.world, self.network, name, f"10.0.0.{number}")

    def run(self, scenario, within: float = 300) -> None:
        """Run a scenario with a client of the gateways, in a process of its own."""

        async def main(life: Life) -> None:
            http = HttpClient(self.gateways[0].address)
            while not await is_ready(http):
                assert not await life.sleep(0.5)
            await scenario(Calls(http, life))
            http.close()

        self.client.start(main)
        assert self.world.run_until(lambda: not self.client.is_running, within=within)
        assert self.world.violations == []


async def is_ready(http: HttpClient) -> bool:
    try:
        return (await http.call("GET", "/health/ready", seconds=CALL_SECONDS)).is_success
    except NoAnswer:
        return False


class Calls:
    """The calls of a scenario. Every answer is expected to be 200, if no other is named."""

    def __init__(self, http: HttpClient, life: Life) -> None:
        self.http, self.life = http, life

    async def __call__(self, method: str, path: str, body: object = None, *, status: int = 200) -> Any:
        answer: Answer = await self.http.call(method, path, body, seconds=40)
        assert answer.status == status, answer
        return answer.json()

    async def send(self, *messages: dict[str, Any]) -> list[dict[str, Any]]:
        return (await self("POST", f"{TOPIC}/messages", {"messages": messages}))["results"]

    async def receive(self, *, wait: int = 5, invisible: int = 5) -> list[dict[str, Any]]:
        body = {"maxMessages": 32, "waitSeconds": wait, "invisibleSeconds": invisible}
        return (await self("POST", f"{GROUP}/messages:receive", body))["messages"]

    async def settle(self, verb: str, **handles: object) -> list[str]:
        return [one["status"] for one in (await self("POST", f"{GROUP}/messages:{verb}", handles))["results"]]

    async def received_until(self, bodies: set[str]) -> list[dict[str, Any]]:
        """Receive and acknowledge until these came."""
        got: list[dict[str, Any]] = []
        while not bodies <= {one["body"] for one in got}:
            messages = await self.receive()
            if messages:
                assert set(await self.settle("ack", acks=handles(messages))) == {"acked"}
            got += messages
        return got


def handles(messages: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{"receiptHandle": one["receiptHandle"]} for one in messages]


async def whole_life(calls: Calls) -> None:
    """Sends of all kinds, leases that are acknowledged, given back, extended and run out, a delay and two transactions."""
    (plain,) = await calls.send({"body": "plain"})
    first, again = [(await calls.send({"body": "keyed", "idempotencyKey": "k"}))[0] for _ in range(2)]
    assert (first["queueOffset"], first["queueId"], again["duplicate"]) == (
        again["queueOffset"],
        again["queueId"],
        True,
    )
    batch = await calls.send(*({"body": f"batch {number}"} for number in range(3)))
    assert [one["status"] for one in batch] == ["SEND_OK"] * 3
    assert plain["durability"] == "fsync"
    got = await calls.received_until({"plain", "keyed", "batch 0", "batch 1", "batch 2"})
    assert len(got) == 5

    await calls.send({"body": "often"})
    (message,) = await calls.receive()
    assert await calls.settle("ack", nacks=[*handles([message])]) == ["nacked"]
    (message,) = await calls.receive(invisible=2)
    assert message["deliveryAttempt"] == 2
    assert await calls.settle("extend", extends=handles([message]), invisibleSeconds=6) == ["extended"]
    assert await calls.receive(wait=3) == []
    (later,) = await calls.receive(wait=10)
    assert later["deliveryAttempt"] == 3
    assert await calls.settle("ack", acks=handles([message])) == ["leaseExpired"]
    assert await calls.settle("ack", acks=handles([later])) == ["acked"]

    began = calls.life.environment.steady()
    await calls.send({"body": "late", "delayMs": 3000})
    await calls.received_until({"late"})
    assert calls.life.environment.steady() - began > 2.9

    for decision in ("commit", "rollback"):
        body = {"producerGroup": "shop", "message": {"body": decision}}
        half = await calls("POST", f"{TOPIC}/transactions", body)
        await calls("POST", f"/v1/transactions/{half['transactionId']}:{decision}")
    assert [one["body"] for one in await calls.received_until({"commit"})] == ["commit"]
    assert await calls.receive(wait=2) == []


def test_messages_are_sent_received_and_settled_over_http(world: World, tmp_path: Path) -> None:
    edge = Edge(world, tmp_path)
    edge.run(whole_life)
    served = [gateway.process for gateway in edge.gateways]
    assert all(process.is_running for process in served)


def test_a_held_receive_gets_a_message_at_once(world: World, tmp_path: Path) -> None:
    async def scenario(calls: Calls) -> None:
        await calls.send({"body": "first"})
        await calls.received_until({"first"})
        began = calls.life.environment.steady()
        edge.world.after(2_000_000_000, lambda: sender.start(sends))
        assert [one["body"] for one in await calls.receive(wait=20)] == ["second"]
        assert calls.life.environment.steady() - began < 4

    async def sends(life: Life) -> None:
        http = HttpClient(edge.gateways[0].address)
        await Calls(http, life).send({"body": "second"})
        http.close()

    edge = Edge(world, tmp_path)
    sender = Process(world, edge.network, "sender", "10.0.0.9")
    edge.run(scenario)


def test_a_killed_worker_leaves_its_port_to_the_other_one_and_metrics_show_both(
    world: World, tmp_path: Path
) -> None:
    async def scenario(calls: Calls) -> None:
        metrics = (await calls.http.call("GET", "/metrics", seconds=CALL_SECONDS)).body
        assert b'gateway_worker_up{worker="0"} 1' in metrics
        assert b'gateway_worker_up{worker="1"} 1' in metrics
        edge.gateways[1].kill()
        calls.http.close()
        for number in range(5):
            await calls.send({"body": f"{number}"})
        metrics = (await calls.http.call("GET", "/metrics", seconds=CALL_SECONDS)).body
        assert b'gateway_worker_up{worker="1"} 0' in metrics

    edge = Edge(world, tmp_path)
    edge.run(scenario)


def test_rates_are_limited_by_the_address_of_the_client_until_valkey_dies(tmp_path: Path) -> None:
    statuses: list[int] = []

    async def scenario(calls: Calls) -> None:
        for number in range(2):
            for _ in range(10):
                body = {"messages": [{"body": "x"}]}
                statuses.append(
                    (await calls.http.call("POST", f"{TOPIC}/messages", body, seconds=CALL_SECONDS)).status
                )
            if not number:
                edge.valkey.kill()

    with World(LIMITED_AT) as world:
        edge = Edge(world, tmp_path, rate=2)
        edge.run(scenario)
    assert 429 in statuses[:10]
    assert statuses[10:] == [200] * 10


def digest(seed: int) -> str:
    with World(seed) as world, tempfile.TemporaryDirectory() as directory:
        Edge(world, Path(directory)).run(whole_life)
        return world.trace.digest()


@pytest.mark.parametrize("seed", [3])
def test_a_seed_repeats_the_life_of_gateways_also_in_another_process(seed: int) -> None:
    here = digest(seed)
    assert digest_elsewhere("test_gateway", seed) == here
    assert digest(seed) == here
