"""A part of a simulated system: one program in a process, in one life of it after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod

from gantry_chassis.process import Life
from gantry_simulation.processes.process import Process


class Part(ABC):
    """Starts its program, and ends it as a kernel or a machine does. Parts with files override what becomes of them."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def start(self) -> None:
        """Start it. It serves soon after."""
        self.process.start(self._main)

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()

    def lose_power(self) -> None:
        """Switch the machine off."""
        self.process.lose_power()

    @abstractmethod
    async def _main(self, life: Life) -> None: ...
