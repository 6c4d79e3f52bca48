"""A real nameserver in a simulated process. Its files are real ones in a directory of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gantry_chassis.process import Life
from gantry_simulation.processes.part import Part
from gantry_simulation.processes.process import Process
from nameserver.assembly import LOCK_FILE, serve
from nameserver.settings import NameserverSettings

PORT = 9876


class Nameserver(Part):
    """Starts `nameserver.assembly.serve` in a process, in one life after the other, on the same directory."""

    def __init__(self, process: Process, data_dir: Path, **settings: Any) -> None:
        """`data_dir` must be on no other nameserver's path. Its name does not enter the trace. `settings` are further ones."""
        super().__init__(process)
        self.address = f"{process.address}:{PORT}"
        self._settings = NameserverSettings(listen=process.address, port=PORT, data_dir=data_dir, **settings)

    def kill(self) -> None:
        """Kill the process and release its lock, as a kernel does. The dead life still has the lock file open, so a new one is made."""
        self.process.kill()
        (self._settings.data_dir / LOCK_FILE).unlink(missing_ok=True)

    async def _main(self, life: Life) -> None:
        await serve(self._settings, life)
