"""A real scheduler in a simulated process. Its due index is a real SQLite file in a directory of the run."""

from __future__ import annotations

import os
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

from gantry_chassis.process import Life
from gantry_simulation.processes.part import Part
from gantry_simulation.processes.process import Process
from gantry_simulation.world.world import SECOND_NS, World
from scheduler.assembly import LOCK_FILE, serve
from scheduler.settings import SchedulerSettings

PORT = 10_921
COPY_NS = 2 * SECOND_NS
COPIES_KEPT = 8
PASSING = ("-shm", LOCK_FILE)
"""Ends of the names of files that mean nothing without the process that wrote them."""
OLD_CHANCE = 0.3
"""Chance that a killed scheduler finds an earlier copy of its index."""

Index = dict[str, bytes]
"""The files of an index by name, between two of its transactions."""


class Scheduler(Part):
    """Starts `scheduler.assembly.serve` in a process, in one life after the other, on what became of its index.

    Each life has a directory of its own: the connections of a dead one still lock its files and delete them when they are
    collected.
    """

    def __init__(
        self, world: World, process: Process, directory: Path, nameservers: str, **settings: Any
    ) -> None:
        """`directory` belongs to this scheduler. `settings` are further ones of the scheduler."""
        super().__init__(process)
        self.address = f"{process.address}:{PORT}"
        self._world, self._directory = world, directory
        self._settings: dict[str, Any] = {"nameservers": nameservers, **settings}
        self._rng = world.rng(f"index of {process.name}")
        self._copies: deque[Index] = deque([{}], maxlen=COPIES_KEPT)

    def start(self) -> None:
        """Start it. It takes over what its directory holds where the store confirms that."""
        if not self._next_directory.exists():  # it is the first life, or the last one stopped
            self._put(self._index())
        super().start()
        self._copy_later()

    def kill(self) -> None:
        """Kill the process. Its index stays, or an earlier copy replaces it, as one that was restored would."""
        index = self._index()
        super().kill()
        self._put(self._rng.choice(self._copies) if self._rng.random() < OLD_CHANCE else index)

    def lose_power(self) -> None:
        """Switch the machine off. Its index was never synced: it is lost, an earlier copy, or whole."""
        index = self._index()
        super().lose_power()
        self._put(self._rng.choice([{}, self._rng.choice(self._copies), index]))

    @property
    def _life_directory(self) -> Path:
        return self._directory / str(self.process.lives)

    @property
    def _next_directory(self) -> Path:
        return self._directory / str(self.process.lives + 1)

    def _index(self) -> Index:
        """Read the index. Calls in threads are whole, so no transaction is open."""
        directory = self._life_directory
        try:
            names = sorted(os.listdir(directory))  # noqa: PTH208 - a third of the time of iterdir, every 2 s
        except FileNotFoundError:
            return {}
        return {name: (directory / name).read_bytes() for name in names if not name.endswith(PASSING)}

    def _put(self, index: Index) -> None:
        """Lay the files into the directory of the next life."""
        self._next_directory.mkdir(mode=0o700, parents=True)
        for name, data in index.items():
            (self._next_directory / name).write_bytes(data)

    def _copy_later(self) -> None:
        self._world.after(COPY_NS, partial(self._copy, self.process.lives))

    def _copy(self, life: int) -> None:
        if life != self.process.lives:
            return
        self._copies.append(self._index())
        if self.process.is_running:
            self._copy_later()

    async def _main(self, life: Life) -> None:
        settings = SchedulerSettings(
            listen=self.process.address, port=PORT, data_dir=self._life_directory, **self._settings
        )
        await serve(settings, life)
