"""Memory of large blocks returns to the system; small ones cost nothing."""

import asyncio
from pathlib import Path

import pytest

from gantry_chassis.machine import memory
from gantry_chassis.machine.memory import LARGE_BYTES, LargeThings, give_back


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_memory_the_c_library_keeps_is_returned() -> None:
    blocks = [bytes(20_000) for _ in range(5_000)]  # too small to be mapped on their own
    kept = blocks[::50]  # scattered, so that the heap cannot shrink
    full = resident_bytes()
    del blocks
    give_back()
    assert full - resident_bytes() > 60_000_000
    assert len(kept) == 100


def test_many_large_blocks_cause_one_return_and_small_ones_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "AFTER_SECONDS", 0.01)
    returns: list[int] = []
    large = LargeThings(lambda: returns.append(1))

    async def scenario() -> None:
        for _ in range(100):
            large.had(LARGE_BYTES - 1)
        await asyncio.sleep(0.05)
        assert returns == []
        for times in (1, 2):
            for _ in range(100):
                large.had(LARGE_BYTES)
            while len(returns) < times:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        assert returns == [1, 1]

    asyncio.run(scenario())
