"""A real broker-store in a simulated process, on a simulated disk. Its lock file is a real one in a directory of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.process.assembly import StoreProcess
from broker_store.settings import Settings
from gantry_chassis.process import Life
from gantry_simulation.processes.process import Process

PORT = 10_911
CRASH_STATES = 8
"""Disks to choose from after a power cut."""
SMALL: dict[str, Any] = {
    "segment_bytes": 1 << 20,
    "zero_ahead_bytes": 128 << 10,
    "index_slots": 512,
    "index_entries": 2048,
    "queue_file_units": 512,
    "ballast_bytes": 0,
    "free_bytes_min": 0,
}
"""Small files: a life of seconds fills several of them."""


class Store:
    """Starts a `StoreProcess`, in one life after the other, on what its disk kept."""

    def __init__(self, process: Process, directory: Path, nameservers: str = "") -> None:
        """`directory` names the store on its disk, and holds the lock."""
        self.process = process
        self.address = f"{process.address}:{PORT}"
        self.files = SimulatedFiles()
        self._settings = Settings(
            listen=process.address,
            port=PORT,
            store_dir=directory,
            nameservers=nameservers,
            broker_name=process.name,
            **SMALL,
        )

    def start(self) -> None:
        """Start it. It recovers what the disk holds, then serves."""
        self.process.start(self._main)

    def kill(self) -> None:
        """Kill the process. Its disk keeps what was written, as the page cache of a living machine does."""
        self.process.kill()
        self.files = self.files.killed()
        self._release_lock()

    def lose_power(self, seed: int) -> None:
        """Switch the machine off. Its disk keeps what was synced, and of the rest what `seed` chooses."""
        self.process.lose_power()
        states = list(self.files.crash_states(CRASH_STATES, seed))
        self.files = states[seed % len(states)]
        self._release_lock()

    def _release_lock(self) -> None:
        """Release the lock, as a kernel does. The dead life still has the file open, so the next one makes another."""
        (self._settings.store_dir / "lock").unlink(missing_ok=True)

    async def _main(self, life: Life) -> None:
        await StoreProcess(self._settings, life, self.files, fast_paths=True).run()
