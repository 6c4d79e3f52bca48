"""Sends at a fixed rate: waits for each one's time without taking a core from those that are measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from gantry_chassis.fine_timer import FineTimer


async def moments(rate: float, seconds: float) -> AsyncGenerator[tuple[int, float]]:
    """Yield a number and its intended time (of time.perf_counter), each when that has come; late ones follow each other at once.

    The loop's own timers know whole milliseconds, and asking again and again instead took the system under test a core of two.
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
                await asyncio.sleep(0)  # one who is behind lets answers be taken, too
    finally:
        timer.close()
