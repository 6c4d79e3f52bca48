"""Two real schedulers and a store: each acknowledged delayed message is delivered once and never early, whatever fails."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from repeats import digest_elsewhere
from simulated_workers import FASTER, KINDS, REQUEST_SECONDS, WORKER, Faults, Read, System, send_header

from broker_store.clocks import steady_wall
from broker_store.settling.states import ANSWERS, Ask, ItemState
from gantry_chassis.process import Life
from gantry_link.clients.scheduler import SchedulerClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.system_queues.claims import claim_holder
from gantry_simulation.lives.planted.items import believe_the_index
from gantry_simulation.parts.scheduler import Scheduler
from gantry_simulation.world.world import SECOND_NS, World
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.scheduling import MoveSchedule, ScheduleOrder
from gantry_wire.private_requests.settling import SettleStatus
from scheduler.filling import catching_up
from scheduler.index import due_queues, known_offsets
from scheduler.index.due_index import DueIndex
from scheduler.index.store_clock import StoreClock

LEVELS = {"1": 1.0, "2": 3.0, "3": 7.0}
LEVELS_SETTING = "1s 3s 7s"
INSTANT_SECONDS = (-1.0, 12.0)
MOVE_SECONDS = (0.0, 8.0)
NEAR = partial(DueIndex, horizon_ms=3_000, near_max=20, load_max=5)
"""Little memory: in a short life most messages go through the index file."""
SENDS_PER_SECOND, ORDERS_PER_SECOND = 5, 1
ORDERED = 30
"""Orders name one of this many latest messages."""
LATE_SECONDS = 60.0
NOT_DONE = ("alreadyDelivered", "unknown")
"""Answers to an order that changed nothing."""


class Due(NamedTuple):
    """When a message may be delivered: these seconds after this virtual time, and not before an instant of the broker's clock."""

    from_ns: int
    wait_seconds: float = 0.0
    instant_ms: int = 0

    def allows(self, read: Read) -> bool:
        """Whether a delivery was not early."""
        waited = (read.seen_ns - self.from_ns) / SECOND_NS
        least = self.wait_seconds * (1 - FASTER) - 0.001
        return waited >= least and read.record.store_timestamp >= self.instant_ms


LIVES = 500
SEARCHED_LIVES = 24


class Sent:
    """A message, and all that may have happened to it."""

    def __init__(self, due: Due, *, is_at_once: bool = False) -> None:
        """With `is_at_once`, its instant may have passed before it reached the store."""
        self.due, self.is_at_once = due, is_at_once
        self.perhaps_due: list[Due] = []
        """Moves without an answer. They may happen late, even after a later move."""
        self.is_acknowledged = self.is_cancelled = self.is_perhaps_cancelled = False
        self.was_unknown = False
        """An order did not find it although it was stored."""

    def faults(self, reads: list[Read]) -> Iterator[str]:
        """Yield the promises that its deliveries break."""
        if not reads and self.is_acknowledged and not self.is_perhaps_cancelled:
            yield "is lost"
        if reads and self.is_cancelled:
            yield "is cancelled and delivered"
        if self.was_unknown:
            yield "is unknown to an order"
        if len(reads) > 1:
            yield f"is delivered {len(reads)} times"
        if not all(any(due.allows(read) for due in (self.due, *self.perhaps_due)) for read in reads):
            yield f"is early: {reads} before {self.due}"


class Delays(System):
    """Two schedulers, a client that sends numbered messages by level and by instant, and one that cancels and moves some."""

    def __init__(self, world: World, directory: Path) -> None:
        super().__init__(world, directory, delay_levels=LEVELS_SETTING)
        self.sent: list[Sent] = []
        self.orders = Counter[str]()
        """Answers to orders by status."""
        self._random = world.rng("delays")
        self.workers = [
            Scheduler(world, self.process(name, number), directory / name, **WORKER)
            for name, number in (("first", 11), ("second", 12))
        ]
        self.clients = [self.process("client", 20), self.process("operator", 21)]
        for worker in self.workers:
            worker.start()
        self.clients[0].start(self._sends)
        self.clients[1].start(self._orders)

    async def _sends(self, life: Life) -> None:
        client = self.store_client(life)
        while not await life.sleep(1 / SENDS_PER_SECOND):
            number, rng = len(self.sent), self._random
            if rng.random() < 0.5:
                level = rng.choice(list(LEVELS))
                sent = Sent(Due(self.world.now_ns, wait_seconds=LEVELS[level]))
                header = send_header(life, UNIQ_KEY=f"U{number}", DELAY=level)
            else:
                wait = rng.uniform(*INSTANT_SECONDS)
                at_ms = life.environment.wall_ms() + int(wait * 1000)
                sent = Sent(Due(self.world.now_ns, instant_ms=at_ms), is_at_once=wait < 2 * REQUEST_SECONDS)
                header = send_header(life, UNIQ_KEY=f"U{number}", TIMER_DELIVER_MS=str(at_ms))
            self.sent.append(sent)
            with suppress(LinkError, BrokerRefused):
                await client.send(header, b"%d" % number)
                sent.is_acknowledged = True

    async def _orders(self, life: Life) -> None:
        store = self.store_client(life)
        while not await life.sleep(1 / ORDERS_PER_SECOND):
            try:
                holder = await claim_holder(store, SCHEDULE_TOPIC, 0)
            except (LinkError, BrokerRefused):
                continue
            if holder is not None and self.sent:
                client = SchedulerClient(store.pool, holder.address, REQUEST_SECONDS)
                order = self._cancel if self._random.random() < 0.5 else self._move
                self.orders[await order(client, life)] += 1

    async def _cancel(self, client: SchedulerClient, _life: Life) -> str:
        number = self._ordered()
        sent = self.sent[number]
        before, sent.is_perhaps_cancelled = sent.is_perhaps_cancelled, True
        is_stored = sent.is_acknowledged and not sent.is_at_once
        try:
            status = (await client.cancel(ScheduleOrder(id=f"U{number}"))).status
        except (LinkError, BrokerRefused):
            return "no cancel"
        if status in NOT_DONE:
            sent.is_perhaps_cancelled = before
        sent.is_cancelled |= status == "cancelled"
        sent.was_unknown |= is_stored and status == "unknown"
        return status

    async def _move(self, client: SchedulerClient, life: Life) -> str:
        number = self._ordered()
        sent = self.sent[number]
        at_ms = life.environment.wall_ms() + int(self._random.uniform(*MOVE_SECONDS) * 1000)
        due = Due(self.world.now_ns, instant_ms=at_ms)
        sent.perhaps_due.append(due)
        try:
            status = (await client.move(MoveSchedule(id=f"U{number}", deliver_at_ms=at_ms))).status
        except (LinkError, BrokerRefused):
            return "no move"
        if status == "moved":
            sent.due = due
        if status == "moved" or status in NOT_DONE:
            sent.perhaps_due.remove(due)
        return status

    def _ordered(self) -> int:
        return self._random.randrange(max(len(self.sent) - ORDERED, 0), len(self.sent))

    def delivered(self) -> dict[int, list[Read]]:
        """Return the deliveries of each message."""
        delivered: dict[int, list[Read]] = {}
        for read in self.reads.values():
            delivered.setdefault(int(bytes(read.record.body)), []).append(read)
        return delivered

    def faults(self) -> list[str]:
        """Return how the promises were broken."""
        delivered = self.delivered()
        found = [f"{number} {fault}" for number, sent in enumerate(self.sent) for fault in sent.faults(delivered.get(number, []))]  # fmt: skip
        return [violation.what for violation in self.world.violations] + found

    def settle(self) -> None:
        """Send no more, and wait until everything acknowledged is delivered."""
        for client in self.clients:
            client.stop()
        assert self.world.run_until(lambda: not any(client.is_running for client in self.clients), within=10)
        wanted = {number for number, sent in enumerate(self.sent) if sent.is_acknowledged and not sent.is_perhaps_cancelled}  # fmt: skip
        self.world.run_until(lambda: wanted <= set(self.delivered()), within=LATE_SECONDS)
        self.read_again()


def life(seed: int, directory: Path, kinds: Sequence[str] = KINDS) -> tuple[Delays, str]:
    """One life under faults, and in quiet until all is delivered. Returns it and its hash."""
    with (
        World(seed) as world,
        patch.object(due_queues, "DueIndex", NEAR),
        patch.object(known_offsets, "SKIP_MIN", 4),  # as after many messages: known ones are not read again
    ):
        system = Delays(world, directory)
        world.run_for(3)
        Faults(system).run(kinds)
        system.settle()
    return system, world.trace.digest()


def test_delayed_messages_are_delivered_once_and_never_early_whatever_fails(tmp_path: Path) -> None:
    lives = [life(seed, tmp_path / str(seed)) for seed in range(3)]
    assert [system.faults() for system, _ in lives] == [[]] * 3
    assert sum(len(system.reads) for system, _ in lives) > 150
    orders = sum((system.orders for system, _ in lives), Counter[str]())
    assert orders["cancelled"] > 5
    assert orders["moved"] > 5


def test_a_step_ahead_that_the_store_trusts_ends_no_delay_of_a_level_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_wall, "STEP_LASTS_SECONDS", 2.0)  # not 15 minutes
    system, _ = life(1, tmp_path, ("lasting step", "kill", "kill store", "break"))
    assert system.faults() == []
    first, *_, last = (read for _, read in sorted(system.reads.items()))
    assert last.record.store_timestamp - first.record.store_timestamp > 3_600_000


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_lives_of_schedulers(seed: int, tmp_path: Path) -> None:
    for number in range(seed, seed + LIVES):
        assert (number, life(number, tmp_path / str(number))[0].faults()) == (number, [])


def is_found(directory: Path, fault: str, *kinds: str) -> bool:
    """Whether one of the first lives, under these faults, finds a planted one. Some faults show in one life of ten."""
    for seed in range(SEARCHED_LIVES):
        system, _ = life(seed, directory / str(seed), kinds)
        if any(fault in found for found in system.faults()):
            return True
    return False


def test_an_index_that_is_believed_without_the_log_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catching_up, "resume", believe_the_index)
    assert is_found(tmp_path, "is lost", "kill store", "kill store")


def test_a_store_that_forgets_its_decisions_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSWERS, ItemState.DECIDED, dict.fromkeys(Ask, SettleStatus.SETTLED))
    assert is_found(tmp_path, "is delivered 2 times", "kill", "break", "pause")


def test_a_scheduler_that_is_ahead_is_found_unless_the_store_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = StoreClock.now_ms
    monkeypatch.setattr(StoreClock, "now_ms", lambda clock, steady: honest(clock, steady) + 300)
    assert life(0, tmp_path / "refused", ())[0].faults() == []
    monkeypatch.setitem(ANSWERS, ItemState.WAITING, dict.fromkeys(Ask, SettleStatus.SETTLED))
    assert is_found(tmp_path, "is early")


def digest(seed: int) -> str:
    with tempfile.TemporaryDirectory() as directory:
        return life(seed, Path(directory), ("kill", "lose power of store", "step"))[1]


def test_a_seed_repeats_the_life_of_schedulers_also_in_another_process() -> None:
    here = digest(3)
    assert digest_elsewhere("test_scheduler", 3) == here
    assert digest(3) == here
