"""Many lives of store, owners and checker under a simulated clock and disk.

A failing seed is printed with the command that repeats it.
"""

import asyncio
import os

import pytest
from simulated_life import Life

pytestmark = [pytest.mark.anyio, pytest.mark.crash]
NORMAL = 40
LIVES = int(os.environ.get("GANTRY_LIVES", "3000"))
FIRST = int(os.environ.get("GANTRY_LIFE", "0"))
"""GANTRY_LIFE=17 GANTRY_LIVES=1 runs seed 17 again."""


async def live(seed: int) -> None:
    try:
        await Life(seed).live()
    except BaseException:
        again = f"GANTRY_LIFE={seed} GANTRY_LIVES=1 pytest -m soak -k lives_of_many_seeds {__file__}"
        print("to live it again:", again)  # noqa: T201
        raise


@pytest.mark.parametrize("first", range(0, NORMAL, 10))
@pytest.mark.timeout(300)
async def test_lives_lose_and_double_nothing(first):
    for seed in range(first, first + 10):
        await live(seed)
        await asyncio.sleep(0)


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_lives_of_many_seeds_lose_and_double_nothing():
    for seed in range(FIRST, FIRST + LIVES):
        await live(seed)
        await asyncio.sleep(0)
    print(f"lives {LIVES}, from seed {FIRST}: lost 0, doubled 0, early 0")  # noqa: T201
