"""Two real txn-checkers, a store and two producers: commits are readable once, rollbacks never, undecided halves are checked."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from repeats import digest_elsewhere
from simulated_workers import (
    FASTER,
    KINDS,
    REQUEST_SECONDS,
    TOPIC,
    WORKER,
    Faults,
    Read,
    System,
    send_header,
)

from broker_store.settling.states import ANSWERS, Ask, ItemState
from gantry_chassis.process import Life
from gantry_link.clients.transactions import CheckerClient, TransactionStoreClient
from gantry_link.connections.connection import Connection
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.system_queues.claims import claim_holder
from gantry_simulation.parts.txn_checker import TxnChecker
from gantry_simulation.world.world import SECOND_NS, World
from gantry_wire.bodies.clients import HeartbeatData, ProducerData
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import Command
from gantry_wire.headers.messages import CheckTransactionHeader, EndTransactionHeader
from gantry_wire.names import HALF_TOPIC
from gantry_wire.private_requests.settling import SettleStatus
from gantry_wire.private_requests.transactions import DecideTransaction, ListTransactions
from txn_checker import undecided
from txn_checker.store_watch import StoreWatch

GROUP = "pg"
SEARCHED_LIVES = 24
TIMEOUT_SECONDS, INTERVAL_SECONDS = 1.0, 1.5
CHECKER = WORKER | {
    "transaction_timeout_ms": int(TIMEOUT_SECONDS * 1000),
    "check_interval_ms": int(INTERVAL_SECONDS * 1000),
    "poll_ms": 200,
    "check_max": 10_000,  # none is parked
}
HALVES_PER_SECOND, MANUAL_PER_SECOND, HEARTBEATS_PER_SECOND = 3, 1, 2
PREPARED_FLAG = 4
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
NAMES = {COMMIT: "commit", ROLLBACK: "rollback"}
STATES = {"committed": COMMIT, "rolledBack": ROLLBACK}
DECIDED_SECONDS = 60.0
"""Longest time until the last half is decided, without further faults."""


LIVES = 500


class Half:
    """A half message, what its producers decide, and what others may have decided."""

    def __init__(self, sent_ns: int, decision: int) -> None:
        self.sent_ns, self.decision = sent_ns, decision
        self.possible = {decision}
        self.known: set[int] = set()
        """Decisions that the store confirmed. There must be one."""
        self.is_acknowledged = False
        self.checks = 0

    @property
    def must_be_read(self) -> bool:
        """Whether it was committed for certain."""
        return (self.known or self.possible) == {COMMIT} and (self.is_acknowledged or bool(self.known))

    def faults(self, reads: list[Read]) -> Iterator[str]:
        """Yield the promises that were broken."""
        if len(self.known) > 1:
            yield "is decided both ways"
        if not reads and self.must_be_read:
            yield "is committed and lost"
        if reads and (self.known or self.possible) == {ROLLBACK}:
            yield "is rolled back and delivered"
        if len(reads) > 1:
            yield f"is delivered {len(reads)} times"


class Transactions(System):
    """Two checkers, two producers of one group that send halves and answer checks, and an operator that decides some."""

    def __init__(self, world: World, directory: Path) -> None:
        super().__init__(world, directory)
        self.halves: dict[str, Half] = {}
        self.answers = Counter[str]()
        """Checks by answer, and manual decisions by result."""
        self.is_sending = True
        self._random = world.rng("transactions")
        self.workers = [
            TxnChecker(self.process(name, number), **CHECKER)
            for name, number in (("first", 11), ("second", 12))
        ]
        for worker in self.workers:
            worker.start()
        for number in (20, 21):
            self.process(f"producer {number}", number).start(self._produces)
        self.operator = self.process("operator", 22)
        self.operator.start(self._decides)

    # The producers

    async def _produces(self, life: Life) -> None:
        client = self.store_client(life, self._answers_check)
        data = HeartbeatData(client_id=str(life.environment.process_id), producer_data_set=[ProducerData(group_name=GROUP)])  # fmt: skip
        beat_at = 0.0
        while not await life.sleep(1 / HALVES_PER_SECOND):
            with suppress(LinkError, BrokerRefused):
                if life.environment.steady() >= beat_at:
                    await client.ask(RequestCode.HEART_BEAT, None, encode_body(data))
                    beat_at = life.environment.steady() + 1 / HEARTBEATS_PER_SECOND
                if self.is_sending:
                    await self._begins(client, life)

    async def _begins(self, client: TransactionStoreClient, life: Life) -> None:
        """Send a half, and decide it, or leave that to a check."""
        key = f"T{len(self.halves)}"
        half = self.halves[key] = Half(self.world.now_ns, self._random.choice([COMMIT, ROLLBACK]))
        header = send_header(life, GROUP, PREPARED_FLAG, TRAN_MSG="true", PGROUP=GROUP, UNIQ_KEY=key)
        reply = (await client.send(header, key.encode())).reply
        half.is_acknowledged = True
        if self._random.random() < 0.5:
            position = int(reply.msg_id[-16:], 16)
            await client.tell(
                RequestCode.END_TRANSACTION, _end(key, half.decision, reply.queue_offset, position)
            )

    def _answers_check(self, connection: Connection, command: Command) -> None:
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return
        asked = command.read(CheckTransactionHeader)
        key = asked.transaction_id or ""
        half = self.halves[key]
        half.checks += 1
        waited = (self.world.now_ns - half.sent_ns) / SECOND_NS
        if waited < TIMEOUT_SECONDS * (1 - FASTER) - 0.001:
            self.world.violate("producer", f"{key} is checked {waited} s after it was sent")
        decision = UNKNOWN if self._random.random() < 0.2 else half.decision
        self.answers[NAMES.get(decision, "unknown")] += 1
        header = _end(key, decision, asked.tran_state_table_offset, asked.commit_log_offset, from_check=True)
        with suppress(LinkError):
            connection.oneway(RequestCode.END_TRANSACTION, header)

    # The operator

    async def _decides(self, life: Life) -> None:
        client = TransactionStoreClient(self.store_client(life).pool, self.store.address, REQUEST_SECONDS)
        while not await life.sleep(1 / MANUAL_PER_SECOND):
            if self.halves:
                key = self._random.choice(list(self.halves)[-10:])
                self.answers[await self._decide(client, key, self._random.choice([COMMIT, ROLLBACK]))] += 1

    async def _decide(self, client: TransactionStoreClient, key: str, decision: int) -> str:
        half = self.halves[key]
        half.possible.add(decision)
        try:
            view = await client.decide(DecideTransaction(key=key, decision=NAMES[decision]))
        except BrokerRefused as refused:
            if refused.fields.get("gantryCode") != "TRANSACTION_DECIDED":
                return "refused"
            half.known.add(COMMIT + ROLLBACK - decision)
            return "decided before"
        except LinkError:
            return "no answer"
        half.known.add(STATES[view.state])
        return "decided now" if view.changed else "decided before"

    # The end

    def settle(self) -> None:
        """Send no more, and wait until no half is open and everything committed is read."""
        self.is_sending = False
        self.operator.stop()
        self.world.run_for(2 * REQUEST_SECONDS)  # until the last half is acknowledged, or never will be
        auditor = self.process("auditor", 23)
        auditor.start(self._waits_for_decisions)
        if not self.world.run_until(lambda: not auditor.is_running, within=DECIDED_SECONDS):
            self.world.violate("auditor", "a half stays open")
        self.read_again()

    async def _waits_for_decisions(self, life: Life) -> None:
        store = self.store_client(life)
        while not await life.sleep(0.5):
            with suppress(LinkError, BrokerRefused):
                holder = await claim_holder(store, HALF_TOPIC, 0)
                if holder is not None:
                    client = CheckerClient(store.pool, holder.address, REQUEST_SECONDS)
                    page = await client.transactions(ListTransactions())
                    if page.brokers and not page.incomplete and not page.transactions:
                        return

    def faults(self) -> list[str]:
        """Return how the promises were broken."""
        reads: dict[str, list[Read]] = {}
        for read in self.reads.values():
            reads.setdefault(bytes(read.record.body).decode(), []).append(read)
        found = [
            f"{key} {fault}" for key, half in self.halves.items() for fault in half.faults(reads.get(key, []))
        ]
        return [violation.what for violation in self.world.violations] + found


def _end(
    key: str, decision: int, offset: int, position: int, *, from_check: bool = False
) -> EndTransactionHeader:
    return EndTransactionHeader(
        topic=TOPIC, producer_group=GROUP, tran_state_table_offset=offset, commit_log_offset=position,
        commit_or_rollback=decision, from_transaction_check=from_check, msg_id=key, transaction_id=key,
    )  # fmt: skip


def life(seed: int, directory: Path, kinds: Sequence[str] = KINDS) -> tuple[Transactions, str]:
    """One life under faults, and in quiet until all halves are decided. Returns it and its hash."""
    with World(seed) as world:
        system = Transactions(world, directory)
        world.run_for(3)
        Faults(system).run(kinds)
        system.settle()
    return system, world.trace.digest()


def test_commits_are_read_once_rollbacks_never_and_every_half_is_decided_whatever_fails(
    tmp_path: Path,
) -> None:
    systems = [life(seed, tmp_path / str(seed))[0] for seed in range(2)]
    assert [system.faults() for system in systems] == [[], []]
    assert sum(len(system.reads) for system in systems) > 80
    answers = sum((system.answers for system in systems), Counter[str]())
    assert (
        min(answers[name] for name in ("commit", "rollback", "unknown", "decided before", "decided now")) > 5
    )
    assert max(half.checks for system in systems for half in system.halves.values()) > 1


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_lives_of_checkers(seed: int, tmp_path: Path) -> None:
    for number in range(seed, seed + LIVES):
        assert (number, life(number, tmp_path / str(number))[0].faults()) == (number, [])


def is_found(directory: Path, fault: str, *kinds: str) -> bool:
    """Whether one of the first lives, under these faults, finds a planted one. Some faults show in one life of ten."""
    for seed in range(SEARCHED_LIVES):
        system, _ = life(seed, directory / str(seed), kinds)
        if any(fault in found for found in system.faults()):
            return True
    return False


def test_a_checker_that_asks_nobody_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asks_nobody(_watch: StoreWatch, _half: object) -> None:
        pass

    monkeypatch.setattr(StoreWatch, "_ask", asks_nobody)
    assert is_found(tmp_path, "a half stays open")


def test_a_checker_that_asks_too_early_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undecided, "due_ms", lambda _policy, half: half.stored_ms)
    assert is_found(tmp_path, "is checked")


def test_a_store_in_which_the_last_decision_wins_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ANSWERS, ItemState.DECIDED, dict.fromkeys(Ask, SettleStatus.SETTLED))
    assert is_found(tmp_path, "is delivered 2 times", *KINDS)


def digest(seed: int) -> str:
    with tempfile.TemporaryDirectory() as directory:
        return life(seed, Path(directory), ("kill", "lose power of store", "step"))[1]


def test_a_seed_repeats_the_life_of_checkers_also_in_another_process() -> None:
    here = digest(3)
    assert digest_elsewhere("test_txn_checker", 3) == here
    assert digest(3) == here
