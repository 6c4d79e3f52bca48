"""The fine timer fires once, not early; it can be replaced and stopped, and works without a descriptor."""

import asyncio
import time

import pytest

from gantry_chassis.machine import fine_timer
from gantry_chassis.machine.fine_timer import FineTimer

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["descriptor", "loop's timers"])
async def timed(request, monkeypatch):
    if request.param != "descriptor":
        monkeypatch.setattr(fine_timer, "_descriptor", lambda: -1)
    times = []
    timer = FineTimer(lambda: times.append(time.monotonic()))
    yield timer, times
    timer.close()


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


async def test_it_fires_once_and_not_early(timed):
    timer, times = timed
    began = time.monotonic()
    timer.set(0.02)
    await until(lambda: times)
    await asyncio.sleep(0.05)
    (at,) = times
    assert at - began >= 0.02
    timer.set(-1.0)
    await until(lambda: len(times) == 2)


async def test_the_last_set_wins(timed):
    timer, times = timed
    timer.set(3600)
    timer.set(0.001)
    await until(lambda: times)


async def test_a_cancelled_or_closed_timer_never_fires(timed):
    timer, times = timed
    timer.set(0.001)
    timer.cancel()
    await asyncio.sleep(0.05)
    timer.set(0.001)
    timer.close()
    await asyncio.sleep(0.05)
    assert times == []
