"""P1 under flush=sync in a power cut: dirty pages are lost, acknowledged messages are not.

On request and as root: `./gantry test -m soak tests/crash --power-cuts 20`.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from .history import History, Verdict
from .power import PoweredDisk
from .store_process import StoreProcess
from .traffic import Traffic, read_everything

QUEUE_COUNT = 4
TOPIC = "crash"
SETTINGS = {"segment_bytes": str(16 << 20), "flush": "sync"}


async def run_cuts(directory: Path, cuts: int, seed: int) -> Verdict:
    """Cut the power `cuts` times under load and judge after each cut."""
    dice = random.Random(seed)
    disk = PoweredDisk(directory / "disk.img", directory / "disk")
    disk.create()
    store = StoreProcess(disk.mount / "store", settings=SETTINGS, log=directory / "store.log")
    history = History()
    try:
        for cut in range(cuts):
            store.start()
            traffic = Traffic(store.port, TOPIC, QUEUE_COUNT, history)
            traffic.start(f"p{cut}")
            await asyncio.sleep(dice.uniform(0.2, 2.0))
            disk.cut()
            await asyncio.to_thread(store.kill)
            disk.unmount()
            disk.power_on()
            store.start()
            await traffic.stop()
            await read_everything(store.port, TOPIC, QUEUE_COUNT, history)
            verdict = history.verdict()
            print(f"after {cut + 1} power cuts: {verdict}")
            assert verdict.holds, f"seed {seed}, cut {cut}: {verdict} {history.doubled()}"
            await asyncio.to_thread(store.stop)
        return history.verdict()
    finally:
        store.kill()
        disk.unmount()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_power_cuts_under_load_lose_nothing(tmp_path: Path, seed: int, power_cuts: int) -> None:
    verdict = asyncio.run(run_cuts(tmp_path, power_cuts, seed))
    assert verdict.acknowledged > 100 * power_cuts
