"""The SDK's clients against the real nameserver and store: nothing acknowledged is lost, queues stay in order, no queue stays without a member."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from repeats import digest_elsewhere

from gantry_chassis.process import Life
from gantry_link.clients.store import StoreClient
from gantry_link.clients.store_admin import StoreAdminCalls
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.clients.producer import SendingProgram
from gantry_simulation.clients.push_consumer import ConsumingProgram, Trouble
from gantry_simulation.clients.transactions import TransactionProgram
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.ledger.transactions import COMMIT
from gantry_simulation.network.network import Network
from gantry_simulation.parts.nameserver import Nameserver
from gantry_simulation.parts.scheduler import Scheduler
from gantry_simulation.parts.store import Store
from gantry_simulation.processes.process import Process
from gantry_simulation.world.world import World
from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.headers.admin import CreateTopicHeader
from gantrymq import MessageQueue
from gantrymq.consumer.shared.locking import Locks
from gantrymq.consumer.shared.offsets import BrokerOffsets
from gantrymq.consumer.shared.process_queue import ProcessQueue

PLAIN, ORDERLY = "Plain", "Orderly"
QUEUES = 3
NAMESERVER = "10.0.0.1:9876"
LIFE_SECONDS = 12.0
OFTEN = Trouble(stall_chance=0.5)
AUDIT_SECONDS = 2.0
QUIET_SECONDS = 120.0
"""Longer than a lock that a lost machine leaves behind."""


class System:
    """A nameserver, a store, a scheduler, a producer, and two members of a concurrent and of an orderly group."""

    def __init__(self, seed: int, directory: Path, trouble: Trouble | None = None) -> None:
        self.world = world = World(seed)
        self.network = network = Network(world)
        self.ledger = Ledger(world)

        def process(name: str, address: str) -> Process:
            return Process(world, network, name, address)

        self.nameserver = Nameserver(process("nameserver", "10.0.0.1"), directory / "nameserver")
        self.store = Store(process("store", "10.0.0.2"), NAMESERVER)
        self.producer = SendingProgram(
            process("producer", "10.0.0.20"), self.ledger, NAMESERVER, PLAIN, ORDERLY
        )
        self.members = [
            ConsumingProgram(
                process(f"{group} {number}", f"10.0.0.{address + number}"), self.ledger, NAMESERVER, group, topic,
                orderly=topic == ORDERLY, trouble=trouble or Trouble(),
            )
            for group, topic, address in (("concurrent", PLAIN, 30), ("orderly", ORDERLY, 40))
            for number in range(2)
        ]  # fmt: skip
        self.scheduler = Scheduler(
            world, process("scheduler", "10.0.0.3"), directory / "scheduler", NAMESERVER
        )
        for part in (self.nameserver, self.store, self.scheduler):
            part.start()
        admin = process("admin", "10.0.0.9")
        world.run_for(1)
        admin.start(self._prepares)
        assert world.run_until(lambda: not admin.is_running, within=30)
        for client in (self.producer, *self.members):
            client.start()
        process("auditor", "10.0.0.50").start(self._audits)

    async def _prepares(self, life: Life) -> None:
        """Create the topics, and a group whose failed messages are delivered again at once."""
        store = StoreAdminCalls(ConnectionPool(rng=life.environment.rng), self.store.address)
        for topic in (PLAIN, ORDERLY):
            await store.create_topic(
                CreateTopicHeader(topic=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6)
            )
        attributes = {"+gantry.retryPolicy": "list:0ms"}
        await store.put_group(SubscriptionGroupConfig(group_name="concurrent", attributes=attributes))

    async def _audits(self, life: Life) -> None:
        """Ask the store for the offsets that the orderly group has committed."""
        store = StoreClient(ConnectionPool(rng=life.environment.rng), self.store.address, 1.0)
        queues, lives = self.ledger.groups.in_order("orderly"), 0
        while not await life.sleep(AUDIT_SECONDS):
            for queue_id in range(QUEUES):
                asked = self.store.process.lives
                with contextlib.suppress(LinkError, BrokerRefused):
                    offset = await store.consumer_offset("orderly", ORDERLY, queue_id)
                    if self.store.process.lives == asked:
                        if asked != lives:
                            queues.forget_committed("store")
                        lives = asked
                        queues.committed(("store", queue_id), offset or 0)

    def missing(self) -> list[str]:
        """Return the acknowledged messages that their group has not consumed."""
        return [
            *self.ledger.groups.missing("concurrent", PLAIN),
            *self.ledger.groups.missing("orderly", ORDERLY),
        ]

    def shares(self, group: str) -> list[int]:
        """Return the queues that the members of a group have now, each as often as a member has it."""
        return sorted(
            queue.queue_id for member in self.members if member.group == group for queue in member.queues
        )

    def is_shared(self) -> bool:
        """Whether each queue has one member."""
        return all(self.shares(group) == list(range(QUEUES)) for group in ("concurrent", "orderly"))


class Faults:
    """Draws one fault after the other, and ends each."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._rng = random.Random(f"{system.world.seed}/faults")
        self.drawn: list[str] = []

    def run(self, seconds: float) -> None:
        """Let the system live for this time under faults."""
        system, rng = self._system, self._rng
        world = system.world
        kinds: dict[str, Callable[[], None]] = {
            "kill": self._kill, "power": self._power, "stop": self._stop, "pause": self._pause, "cut": self._cut,
            "break": self._break, "step": self._step,
        }  # fmt: skip
        end_ns = world.now_ns + seconds * 1e9
        while world.now_ns < end_ns:
            world.run_for(rng.uniform(0.5, 3))
            kind = rng.choice(list(kinds))
            self.drawn.append(kind)
            kinds[kind]()
        world.run_for(1)  # what started last can be stopped

    def _wait(self) -> None:
        self._system.world.run_for(self._rng.uniform(0.01, 4))

    def _kill(self) -> None:
        system = self._system
        victim = self._rng.choice([system.store, system.store, system.nameserver, *self._clients()])
        if isinstance(victim, (Store, Nameserver)):
            victim.kill()
        else:
            victim.process.kill()
        self._wait()
        victim.start()

    def _power(self) -> None:
        victim = self._rng.choice([self._system.store, *self._clients()])
        if isinstance(victim, Store):
            victim.lose_power(self._rng.getrandbits(16))
        else:
            victim.process.lose_power()
        self._wait()
        victim.start()

    def _stop(self) -> None:
        victim = self._rng.choice([self._system.store, *self._clients()])
        victim.process.stop()
        assert self._system.world.run_until(lambda: not victim.process.is_running, within=30), (
            f"{victim.process.name} does not stop"
        )
        victim.start()

    def _pause(self) -> None:
        system = self._system
        process = self._rng.choice([system.store, system.nameserver, *self._clients()]).process
        process.pause()
        self._wait()
        process.resume()

    def _cut(self) -> None:
        system = self._system
        pair = [
            self._rng.choice([system.store, system.nameserver]).process.address,
            self._rng.choice([system.store, *self._clients()]).process.address,
        ]
        self._rng.shuffle(pair)
        system.network.cut(*pair, both=self._rng.random() < 0.5)
        self._wait()
        system.network.heal(*pair)

    def _break(self) -> None:
        other = self._rng.choice(self._clients()).process.address
        half = self._rng.random() < 0.5
        self._system.network.break_connections(self._system.store.process.address, other, half=half)

    def _step(self) -> None:
        process = self._rng.choice([self._system.store, *self._clients()]).process
        process.clocks.step_wall(self._rng.uniform(-10_000, 10_000))

    def _clients(self) -> list[SendingProgram | ConsumingProgram]:
        return [self._system.producer, *self._system.members]


def life(
    seed: int, directory: Path, seconds: float, trouble: Trouble | None = None
) -> tuple[System, list[str], list[str], str]:
    """One life under faults, then in quiet. Returns the system, what was drawn, what is wrong at the end, and the hash."""
    system = System(seed, directory, trouble)
    with system.world as world:
        faults = Faults(system)
        faults.run(seconds)
        system.producer.pause_seconds = 1.0
        wrong: list[str] = []
        if not world.run_until(system.is_shared, within=QUIET_SECONDS):
            wrong.append(f"queues {system.shares('concurrent')} and {system.shares('orderly')} have members")
        system.producer.process.stop()
        world.run_until(
            lambda: not system.producer.process.is_running and not system.missing(), within=QUIET_SECONDS
        )
        wrong += [f"{message} is not consumed" for message in system.missing()]
        repeats = system.ledger.groups.in_order("orderly").repeats
        leaving = system.members[-1]
        leaving.process.stop()
        world.run_for(5)
        if system.shares("orderly") != list(range(QUEUES)):
            wrong.append(f"queues {system.shares('orderly')} have the last member")
        if system.ledger.groups.in_order("orderly").repeats > repeats:
            wrong.append("a member that leaves in order has messages delivered again")
    return system, faults.drawn, wrong, world.trace.digest()


@pytest.mark.parametrize("seed", [101, 139])
def test_nothing_acknowledged_is_lost_queues_stay_in_order_and_none_is_without_a_member(
    seed: int, tmp_path: Path
) -> None:
    system, drawn, wrong, _ = life(seed, tmp_path, LIFE_SECONDS)
    assert system.world.violations == []
    assert wrong == []
    assert len(set(drawn)) > 2
    assert system.ledger.messages.acknowledged > 50
    assert system.ledger.groups.redelivered > 0


def test_commits_are_seen_and_rollbacks_never(tmp_path: Path) -> None:
    system = System(2, tmp_path)
    with system.world as world:
        payer = TransactionProgram(
            Process(world, system.network, "payer", "10.0.0.60"), system.ledger, NAMESERVER, PLAIN
        )
        payer.start()
        world.run_for(4)
        system.producer.process.kill()
        payer.process.kill()
        world.run_for(1)
        payer.start()
        world.run_for(4)
        payer.process.stop()
        consumed = system.ledger.groups.consumed["concurrent"]
        halves = system.ledger.transactions.halves
        commits = [text for text, half in halves.items() if COMMIT in half.possible]
        sent = commits[: len(commits) - 1]  # the last decision may have died with the process
        assert world.run_until(lambda: all(consumed[text] for text in sent), within=20)
    assert world.violations == []
    assert len(sent) > 10
    assert set(halves) - set(commits)


def finds(tmp_path: Path, seeds: range) -> str:
    """Return what lives of these seeds find, the first findings only."""
    for seed in seeds:
        system, _, wrong, _ = life(seed, tmp_path / str(seed), LIFE_SECONDS / 2, OFTEN)
        found = [*(violation.what for violation in system.world.violations), *wrong]
        if found:
            return found[0]
    return ""


def test_messages_that_are_committed_before_they_are_consumed_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProcessQueue, "commit_offset", property(lambda queue: queue.next_offset))
    system = System(1, tmp_path, Trouble(stall_chance=1.0, stall_seconds=(3.0, 4.0)))
    with system.world as world:
        world.run_for(6)
        for member in system.members:
            member.process.kill()
            member.start()
        system.producer.process.stop()
        assert not world.run_until(lambda: not system.missing(), within=40)


def test_a_queue_that_is_consumed_without_its_lock_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def locks_all(
        _locks: Locks, queues: Collection[MessageQueue]
    ) -> tuple[set[MessageQueue], set[MessageQueue]]:
        return set(queues), set()

    monkeypatch.setattr(Locks, "lock", locks_all)
    assert "is called with" in finds(tmp_path, range(4))


def test_a_member_that_begins_at_the_start_of_its_queues_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(_offsets: BrokerOffsets, _queue: MessageQueue) -> None:
        return None

    monkeypatch.setattr(BrokerOffsets, "read", none)
    assert "delivered again" in finds(tmp_path, range(4))


def digest(seed: int) -> str:
    with tempfile.TemporaryDirectory() as directory:
        system = System(seed, Path(directory))
        with system.world:
            Faults(system).run(6)
        return system.world.trace.digest()


def test_a_seed_repeats_the_life_of_the_sdk_also_in_another_process() -> None:
    here = digest(3)
    assert digest_elsewhere("test_sdk", 3) == here
    assert digest(3) == here
