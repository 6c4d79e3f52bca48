"""P1, P2, P4, P7: no acknowledged message is lost, moved or duplicated when the store is killed repeatedly under load.

Each run gets a random checkpoint interval and flush mode; one of four is killed after a checkpoint of its own, one has none. So recovery
starts from a checkpoint of the killed run or from an earlier one, however slow the machine is, and never rebuilds. 20 cycles always; any number on request: `./gantry test -m soak tests/crash --kill-cycles 1000 --seed 7`.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from .history import History, Verdict
from .recoveries import NEVER, SOON, Recoveries, checkpoint_position, random_settings
from .store_process import StoreProcess
from .traffic import Traffic, read_everything

QUEUE_COUNT = 4
TOPIC = "crash"
CHECKS_PER_RUN = 20
SENDS_PER_CYCLE_MIN = 20
SETTINGS = {"segment_bytes": str(4 << 20)}
PLANS = [SOON, {}, NEVER, {}]
"""What the runs of the store change in their random settings, in turn."""
CHECKPOINT_SECONDS_MAX = 60.0


async def run_cycles(directory: Path, cycles: int, seed: int) -> tuple[Verdict, Recoveries]:
    """Kill the store `cycles` times under load, a fifth of the times during recovery; judge everything at the end."""
    dice = random.Random(seed)
    store = StoreProcess(directory / "store", settings=SETTINGS | random_settings(dice) | PLANS[0])
    history, recoveries = History(), Recoveries()
    check_every_cycles = max(10, cycles // CHECKS_PER_RUN)  # each check reads everything
    store.start()
    try:
        for cycle in range(cycles):
            traffic = Traffic(store.port, TOPIC, QUEUE_COUNT, history)
            traffic.start(f"c{cycle}")
            await traffic.acknowledges(SENDS_PER_CYCLE_MIN)
            await asyncio.sleep(dice.uniform(0.05, 0.9))
            plan, next_plan = PLANS[cycle % len(PLANS)], PLANS[(cycle + 1) % len(PLANS)]
            if plan is SOON:
                await has_checkpoint(store, beyond=recoveries.end)
            await asyncio.to_thread(store.kill)
            store.settings = SETTINGS | random_settings(dice) | next_plan
            if dice.random() < 0.2 and plan is not NEVER:  # a recovery may end with a checkpoint
                store.start(wait=False)
                await asyncio.sleep(dice.uniform(0.0, 0.5))
                await asyncio.to_thread(store.kill)
            await asyncio.to_thread(store.start)
            recoveries.note((await asyncio.to_thread(store.get, "/metrics"))[1])
            await traffic.stop()
            if (cycle + 1) % check_every_cycles == 0 or cycle + 1 == cycles:
                await read_everything(store.port, TOPIC, QUEUE_COUNT, history)
                verdict = history.verdict()
                print(f"after {cycle + 1} kills: {verdict} {recoveries}")
                assert verdict.holds, f"seed {seed}, cycle {cycle}: {verdict} {history.doubled()}"
        return history.verdict(), recoveries
    finally:
        store.kill()


async def has_checkpoint(store: StoreProcess, *, beyond: int) -> None:
    """Wait for a checkpoint beyond this position of the log, for as long as a slow machine needs."""
    async with asyncio.timeout(CHECKPOINT_SECONDS_MAX):
        while checkpoint_position(store.store_dir) <= beyond:
            await asyncio.sleep(0.01)


@pytest.mark.crash
@pytest.mark.timeout(900)
def test_twenty_kills_under_load_lose_nothing(tmp_path: Path, seed: int) -> None:
    verdict, recoveries = asyncio.run(run_cycles(tmp_path, 20, seed))
    assert verdict.acknowledged >= 20 * SENDS_PER_CYCLE_MIN
    assert 0 < recoveries.from_last_run < recoveries.starts


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_many_kills_under_load_lose_nothing(tmp_path: Path, seed: int, kill_cycles: int) -> None:
    verdict, recoveries = asyncio.run(run_cycles(tmp_path, kill_cycles, seed))
    assert verdict.acknowledged > 10 * kill_cycles
    assert 0 < recoveries.from_last_run < recoveries.starts == kill_cycles
