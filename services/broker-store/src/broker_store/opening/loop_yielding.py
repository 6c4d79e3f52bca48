"""Runs work in a thread, and measures how long a task holds the event loop between two awaits."""

import asyncio
import contextlib
from collections.abc import Callable

from gantry_chassis.machine.environment import Workers


class LoopYielding:
    """For one background task: call `begin` when it starts, then await only through this object."""

    def __init__(self, thread: Workers, steady: Callable[[], float]) -> None:
        self._thread, self._steady = thread, steady
        self._since_s = 0.0
        self.longest_turn_s = 0.0
        """Longest time this task held the loop, in seconds."""

    def begin(self) -> None:
        """Record that the task holds the loop from now on."""
        self._since_s = self._steady()

    async def in_thread(self, work: Callable[[], object]) -> None:
        """Run `work` in the thread. Raises what it raises."""
        self._note()
        try:
            await self._thread.run(work)
        finally:
            self.begin()

    async def rest(self, seconds: float, hurry: asyncio.Event) -> None:
        """Sleep for `seconds`, or until `hurry` is set."""
        self._note()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await hurry.wait()
        self.begin()

    async def pause(self) -> None:
        """Yield to the loop once."""
        self._note()
        await asyncio.sleep(0)
        self.begin()

    async def pause_after(self, seconds: float) -> None:
        """Yield once the task has held the loop for `seconds`."""
        if self._steady() - self._since_s >= seconds:
            await self.pause()

    def _note(self) -> None:
        self.longest_turn_s = max(self.longest_turn_s, self._steady() - self._since_s)
