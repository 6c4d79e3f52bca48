"""Services with access control under faults of the network: those with the keys find each other again, others never get in."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from gantry_chassis.process import Life
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.introduction import Introducer
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import LinkError
from gantry_simulation.network.conditions import Conditions
from gantry_simulation.network.network import Network
from gantry_simulation.parts.nameserver import Nameserver
from gantry_simulation.parts.txn_checker import TxnChecker
from gantry_simulation.processes.process import Process
from gantry_simulation.world.world import World
from gantry_wire.codes import GantryCode, RequestCode

KEY = b"k" * 32
KEYS = ClusterKeys({"k1": KEY})


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(f"k1 {base64.b64encode(KEY).decode()}\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("seed", range(5))
def test_services_with_the_keys_find_each_other_under_faults_and_strangers_get_nothing(
    tmp_path: Path, key_file: Path, seed: int
) -> None:
    refused: set[int] = set()
    served: list[tuple[int, str, int]] = []

    async def ask(life: Life, pool: ConnectionPool, told: Callable[[str, int], None]) -> None:
        asked = (
            (nameserver.address, RequestCode.GET_BROKER_CLUSTER_INFO),
            (checker.address, GantryCode.LIST_TRANSACTIONS),
        )
        while not life.stopping.is_set():
            for address, code in asked:
                try:
                    connection = await pool.get(address)
                    told(address, (await connection.request(code, {}, b"{}")).code)
                except LinkError:
                    await life.sleep(0.1)
            await life.sleep(0.05)

    async def stranger(life: Life) -> None:
        await ask(life, ConnectionPool(rng=life.environment.rng), lambda _at, code: refused.add(code))

    async def service(life: Life) -> None:
        introduce = Introducer(KEYS.inner, "gateway", life.environment.secret_bytes)
        pool = ConnectionPool(rng=life.environment.rng, introduce=introduce)
        await ask(life, pool, lambda at, code: served.append((world.now_ns, at, code)))

    with World(seed) as world:
        network = Network(world, Conditions(slow_chance=0.05, loss_chance=0.02))
        nameserver = Nameserver(
            Process(world, network, "nameserver", "10.0.0.1"),
            tmp_path / "names",
            access_key_file=str(key_file),
        )
        checker = TxnChecker(
            Process(world, network, "checker", "10.0.0.2"), nameserver.address, access_key_file=str(key_file)
        )
        nameserver.start()
        checker.start()
        Process(world, network, "stranger", "10.0.0.3").start(stranger)
        Process(world, network, "service", "10.0.0.4").start(service)
        for _ in range(3):
            world.run_for(5)
            nameserver.kill()
            world.run_for(1)
            nameserver.start()
        restarted_ns = world.now_ns
        world.run_for(10)
        assert world.violations == []
    assert refused == {16}
    assert {code for _, _, code in served} == {0}
    assert {at for now, at, _ in served if now > restarted_ns} == {nameserver.address, checker.address}
