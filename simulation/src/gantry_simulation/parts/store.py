"""A real broker-store in a simulated process, on a simulated disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import structs

from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.process.assembly import StoreProcess
from broker_store.process.disk import Disk
from broker_store.process.group.register import OpenRegister, jetstream_register
from broker_store.settings import Settings
from gantry_chassis.process import Life
from gantry_simulation.processes.part import Part
from gantry_simulation.processes.process import Process

PORT = 10_911
DIRECTORY = Path("/store")
"""On the store's own disk."""
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
    "idempotency_keys_max": 4096,
}
"""Small files and tables: a life of seconds fills several of the files, and a start allocates little."""


class Unlocked:
    """The lock of a directory that no other process reaches."""

    def release(self) -> None:
        """Do nothing."""


class Store(Part):
    """Starts a `StoreProcess`, in one life after the other, on what its disk kept."""

    def __init__(
        self,
        process: Process,
        nameservers: str = "",
        *,
        fast_paths: bool = True,
        open_register: OpenRegister = jetstream_register,
        **settings: Any,
    ) -> None:
        """Replace settings of SMALL by those given here. The brokerName is that of the process, unless they name another one."""
        super().__init__(process)
        self.address = f"{process.address}:{PORT}"
        self.fast_address = f"{process.address}:{PORT - 2}"
        self.files = SimulatedFiles()
        named: dict[str, Any] = {"broker_name": process.name}
        self._settings = Settings(
            listen=process.address,
            port=PORT,
            store_dir=DIRECTORY,
            nameservers=nameservers,
            **{**named, **SMALL, **settings},
        )
        self._open_register = open_register
        self._fast_paths = fast_paths
        self.flush: str = self._settings.flush
        """That of its present life."""

    @property
    def settings(self) -> Settings:
        """The settings of its next start."""
        return self._settings

    def configure(self, **settings: Any) -> None:
        """Change settings from the next start on."""
        self._settings = structs.replace(self._settings, **settings)

    def start(self) -> None:
        """Start it. It recovers what the disk holds, then serves."""
        self.flush = self._settings.flush
        super().start()

    def lose_power(self, seed: int = 0) -> None:
        """Switch the machine off. Its disk keeps what was synced, and of the rest what `seed` chooses."""
        super().lose_power()
        self.files = self.files.crash_state(CRASH_STATES, seed)

    async def _main(self, life: Life) -> None:
        disk = Disk(self.files, _take)
        await StoreProcess(self._settings, life, disk, self._open_register, fast_paths=self._fast_paths).run()


def _take(_directory: Path) -> Unlocked:
    return Unlocked()
