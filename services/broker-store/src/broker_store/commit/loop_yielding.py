"""Runs work beside the event loop, and watches how long the loop was held between two such steps."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Executor


class LoopYielding:
    """For one task that takes turns with everything else: `begin` when it starts, then every await through here."""

    def __init__(self, thread: Executor) -> None:
        self._thread = thread
        self._since_s = 0.0
        self.longest_turn_s = 0.0
        """The longest the loop was held by this task, in seconds."""

    def begin(self) -> None:
        """Note that a stretch in the loop begins."""
        self._since_s = time.perf_counter()

    async def in_thread(self, work: Callable[[], object]) -> None:
        """Run `work` in the thread; raises what it raises."""
        self._note()
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self.begin()

    async def rest(self, seconds: float, hurry: asyncio.Event) -> None:
        """Do nothing for a while, or until somebody is in a hurry."""
        self._note()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await hurry.wait()
        self.begin()

    async def pause(self) -> None:
        """Let everything else have its turn."""
        self._note()
        await asyncio.sleep(0)
        self.begin()

    async def pause_after(self, seconds: float) -> None:
        """As `pause`, where the loop was held for so long."""
        if time.perf_counter() - self._since_s >= seconds:
            await self.pause()

    def _note(self) -> None:
        self.longest_turn_s = max(self.longest_turn_s, time.perf_counter() - self._since_s)
