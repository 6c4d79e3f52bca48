"""P6 to P9: delays, transactions, leases and dead letters while stores, schedulers and checkers are killed at random.

Six kills always; any number on request: `./gantry test -m soak tests/crash/mixed --kill-cycles 200 --seed 7`.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from gantry_loadtest.mixed.calling import Http
from gantry_loadtest.mixed.journeys import (
    ATTEMPTS_MAX,
    POISONED,
    TOPICS,
    WORKERS,
    Answers,
    Delays,
    Journey,
    Poison,
    Poisoned,
    Transactions,
    Work,
    Workers,
)
from gantry_loadtest.mixed.ledger import Count, Ledger
from gantry_loadtest.mixed.reading import wait_until_settled

from .system import MixedSystem

ACKNOWLEDGED_PER_KILL = 21
"""Fewer acknowledgements prove little: on a machine too busy to restart a process between two kills, the next kill waits for them."""
PATIENCE_SECONDS = 120
KILLS_PER_ROUND = 10
"""After this many kills the load pauses, the test judges everything, and the stores restart with another checkpoint interval and flush mode."""


class SoonDue(Delays):
    longest_ms = 2000


class ShortLeases(Workers):
    lease_seconds = 2


class ShortPoisonedLeases(Poisoned):
    lease_seconds = 2


JOURNEYS = (SoonDue, Transactions, Answers, Work, ShortLeases, Poison, ShortPoisonedLeases)
"""Each lasts about as long as the pauses between kills, so that a kill finds all of them under way."""


def run_mixed(directory: Path, kills: int, seed: int, *, brokers: int = 1) -> tuple[Count, MixedSystem]:
    """Kill `kills` times under mixed load and judge every guarantee."""
    dice = random.Random(seed)
    system = MixedSystem(directory, brokers=brokers)
    ledger = Ledger()
    system.start(dice)
    http = Http(system.http)
    journeys: list[Journey] = []
    try:
        _prepare(http)
        done = 0
        while done < kills:
            if done:  # to change the settings: the launcher restarts a killed process with the same ones
                http.close()
                system.stop()
                system.start(dice)
                http = Http(system.http)
            journeys = [kind(system.http, ledger, dice.randrange(1 << 30), f"{done}") for kind in JOURNEYS]
            for journey in journeys:
                journey.start()
            for _ in range(min(KILLS_PER_ROUND, kills - done)):
                time.sleep(dice.uniform(0.1, 1.0))
                _until_acknowledged(ledger, ACKNOWLEDGED_PER_KILL * (done + 1))
                system.kill_one(dice)
                done += 1
            _rest(system, http, ledger, journeys)
            count = ledger.count()
            print(f"after {done} kills {system.kills}: {count}; {system.counts}")
            assert count.holds, f"seed {seed}: {count} {_some(ledger)}"
        return ledger.count(), system
    finally:
        for journey in journeys:
            journey.stopping = True
        http.close()
        system.stop()


def _until_acknowledged(ledger: Ledger, count: int) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if sum(item.is_acknowledged for item in list(ledger.items.values())) >= count:
            return
        time.sleep(0.1)


def _prepare(http: Http) -> None:
    for topic in TOPICS:
        status, answer = http.insist(
            "PUT", f"/v1/topics/{topic}", {"readQueues": 4, "writeQueues": 4, "perm": "rw"}
        )
        assert status == 200, answer
    for group, policy in ((WORKERS, {"retryMaxTimes": 16}), (POISONED, {"retryMaxTimes": ATTEMPTS_MAX})):
        status, answer = http.insist("PUT", f"/v1/groups/{group}", policy)
        assert status == 200, answer


def _rest(system: MixedSystem, http: Http, ledger: Ledger, journeys: list[Journey]) -> None:
    """Stop the senders, wait for the messages in flight, then stop the consumers."""
    senders = [journey for journey in journeys if journey.is_sender]
    for journey in senders:
        journey.finish()
    system.wait_whole()
    wait_until_settled(http, ledger)
    for journey in journeys:
        if journey not in senders:
            journey.finish()


def _some(ledger: Ledger) -> dict[str, list[str]]:
    return {guarantee: names[:5] for guarantee, names in ledger.broken().items() if names}


@pytest.mark.crash
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_few_kills_under_mixed_load_break_no_guarantee(tmp_path: Path, seed: int) -> None:
    count, _ = run_mixed(tmp_path, 6, seed)
    assert count.acknowledged > 50


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_many_kills_under_mixed_load_break_no_guarantee(tmp_path: Path, seed: int, kill_cycles: int) -> None:
    count, system = run_mixed(tmp_path, kill_cycles, seed)
    assert count.acknowledged >= 20 * kill_cycles
    assert set(system.kills) == {"store", "scheduler", "txn-checker"}


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_many_kills_of_several_stores_break_no_guarantee(tmp_path: Path, seed: int, kill_cycles: int) -> None:
    count, _ = run_mixed(tmp_path, kill_cycles, seed, brokers=2)
    assert count.acknowledged >= 20 * kill_cycles
