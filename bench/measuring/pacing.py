"""Sends at a fixed rate: waits for each time without taking a core from the measured processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from gantry_chassis.machine.fine_timer import FineTimer


async def moments(rate: float, seconds: float) -> AsyncGenerator[tuple[int, float]]:
    """Yield a number and its intended time (of time.perf_counter), each at that time; late ones follow at once.

    The loop's own timers have a resolution of milliseconds, and polling instead took one of two cores from the system under test.
    """
    come = asyncio.Event()
    timer = FineTimer(come.set)
    try:
        began = time.perf_counter() + 0.05
        for number in range(int(rate * seconds)):
            intended = began + number / rate
            while (wait := intended - time.perf_counter()) > 0:
                come.clear()
                timer.set(wait)
                await come.wait()
            yield number, intended
            if number % 64 == 63:
                await asyncio.sleep(0)  # lets answers be handled even when late
    finally:
        timer.close()
