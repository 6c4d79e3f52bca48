"""The product's clients of NATS and Valkey in simulated processes: they lose the servers, and come back to them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from repeats import digest_elsewhere

from gantry_chassis.nats_hints import Hints
from gantry_chassis.process import Life
from gantry_simulation.fakes.not_faked import NotFaked
from gantry_simulation.fakes.servers import Nats, Valkey
from gantry_simulation.network.conditions import Conditions
from gantry_simulation.network.network import Network
from gantry_simulation.processes.process import Process
from gantry_simulation.world.world import World
from gateway.stores.redis_limits import RedisLimits

BACK_SECONDS = 20.0
"""Longest time until hints come again once nothing is wrong: a check, a pause and two attempts."""
TOKEN = "t0ken"
RATE = 10


class Hinting:
    """A NATS server with a token, and two processes that send hints to each other."""

    def __init__(self, world: World, token_file: Path) -> None:
        self.world, self.network = world, Network(world)
        self.nats = Nats(Process(world, self.network, "nats", "10.0.0.9"), TOKEN)
        self.token_file = token_file
        self.hints: dict[str, Hints] = {}
        self.received: dict[str, list[str]] = {}
        self.processes = [Process(world, self.network, f"p{number}", f"10.0.0.{number}") for number in (1, 2)]
        token_file.write_text(TOKEN)
        token_file.chmod(0o600)
        self.nats.start()
        for process in self.processes:
            process.start(self._main(process.name))

    def _main(self, name: str) -> Callable[[Life], object]:
        async def main(life: Life) -> None:
            hints = self.hints[name] = Hints(self.nats.url, name, life.environment.rng, str(self.token_file))
            received = self.received[name] = []
            hints.subscribe("gantry.route.*", lambda subject, _payload: received.append(subject))
            life.supervise("hints", hints.run)
            number = 0
            while not await life.sleep(0.1):
                number += 1
                hints.publish(f"gantry.route.{name}-{number}")

        return main  # pyright: ignore[reportReturnType]

    def come(self) -> bool:
        """Whether each process receives hints of the other one, soon."""
        for received in self.received.values():
            received.clear()
        return self.world.run_until(
            lambda: all(
                any(f".{other.name}-" in subject for subject in self.received[process.name])
                for process in self.processes
                for other in self.processes
                if other is not process
            ),
            within=BACK_SECONDS,
        )

    def stops(self) -> bool:
        """Whether no hint comes for a while."""
        self.world.run_for(3)
        for received in self.received.values():
            received.clear()
        self.world.run_for(3)
        return not any(self.received.values())


def hinting_life(world: World, directory: Path) -> Hinting:
    hinting = Hinting(world, directory / "token")
    world.run_for(1)
    one = hinting.processes[0].address
    assert hinting.come()
    hinting.nats.kill()
    assert hinting.stops()
    hinting.nats.start()
    assert hinting.come()
    hinting.nats.process.pause()
    assert hinting.stops()
    world.run_for(20)
    hinting.nats.process.resume()
    assert hinting.come()
    hinting.network.cut(one, hinting.nats.process.address, both=False)
    world.run_for(30)
    hinting.network.heal(one, hinting.nats.process.address)
    assert hinting.come()
    hinting.network.break_connections(one, hinting.nats.process.address, half=True)
    assert hinting.come()
    hinting.nats.lose_power()
    world.run_for(30)
    hinting.nats.start()
    assert hinting.come()
    return hinting


def test_hints_come_again_after_nats_was_killed_paused_cut_off_and_without_power(
    world: World, tmp_path: Path
) -> None:
    hinting_life(world, tmp_path)
    assert world.violations == []


def test_hints_with_another_token_wait_for_the_right_one(world: World, tmp_path: Path) -> None:
    hinting = Hinting(world, tmp_path / "token")
    hinting.token_file.write_text("other")
    assert hinting.stops()
    hinting.token_file.write_text(TOKEN)
    assert hinting.come()
    assert world.violations == []


class Limiting:
    """A Valkey server and a process that takes one message after the other. No piece is slower than a gateway waits."""

    def __init__(self, world: World) -> None:
        self.world, self.network = world, Network(world, Conditions(slow_chance=0))
        self.valkey = Valkey(Process(world, self.network, "valkey", "10.0.0.9"), "s3cret")
        self.process = Process(world, self.network, "limiting", "10.0.0.1")
        self.limits: RedisLimits | None = None
        self.valkey.start()
        self.process.start(self._main)

    async def _main(self, life: Life) -> None:
        self.limits = RedisLimits(
            self.valkey.url, life.environment.steady, client_rate=RATE, topic_rate=0, burst_seconds=1, password="s3cret",
        )  # fmt: skip
        while not await life.sleep(0.02):
            await self.limits.take("10.1.1.1", "", 1)
        await self.limits.close()

    def refused(self, seconds: float) -> int:
        """Return how many of the messages of this time were refused."""
        assert self.limits is not None
        before = self.limits.refused
        self.world.run_for(seconds)
        return self.limits.refused - before


def limiting_life(world: World) -> Limiting:
    limiting = Limiting(world)
    world.run_for(3)
    assert limiting.refused(10) > 100
    limiting.valkey.kill()
    assert limiting.refused(10) == 0
    limiting.valkey.start()
    world.run_for(5)
    assert limiting.refused(10) > 100
    limiting.valkey.process.pause()
    world.run_for(1)
    assert limiting.refused(10) == 0
    limiting.valkey.process.resume()
    world.run_for(5)
    limiting.network.cut(limiting.process.address, limiting.valkey.process.address)
    world.run_for(1)
    assert limiting.refused(10) == 0
    limiting.network.heal(limiting.process.address, limiting.valkey.process.address)
    world.run_for(5)
    assert limiting.refused(10) > 100
    limiting.process.stop()
    world.run_for(5)
    assert not limiting.process.is_running
    return limiting


def test_rates_are_limited_while_valkey_answers_and_everything_passes_while_it_does_not(world: World) -> None:
    limiting_life(world)
    assert world.violations == []


def test_what_a_fake_cannot_is_a_violation_with_its_name(world: World) -> None:
    network = Network(world)
    valkey = Valkey(Process(world, network, "valkey", "10.0.0.9"))
    client = Process(world, network, "client", "10.0.0.1")

    async def asks(life: Life) -> None:
        _, writer = await asyncio.open_connection("10.0.0.9", 6379)
        writer.write(b"FLUSHALL\r\n")
        await life.sleep(1)
        writer.close()

    valkey.start()
    client.start(asks)
    world.run_for(2)
    assert [violation.what for violation in world.violations] == [
        f"data_received() failed: {NotFaked('the fake Valkey has no FLUSHALL')!r}"
    ]


def digest(seed: int) -> str:
    with World(seed) as world, tempfile.TemporaryDirectory() as directory:
        hinting_life(world, Path(directory))
        hints = world.trace.digest()
    with World(seed) as world:
        limiting_life(world)
        return hints + world.trace.digest()


@pytest.mark.parametrize("seed", [5])
def test_a_seed_repeats_the_life_of_hints_and_limits_also_in_another_process(seed: int) -> None:
    here = digest(seed)
    assert digest_elsewhere("test_fake_servers", seed) == here
    assert digest(seed) == here
