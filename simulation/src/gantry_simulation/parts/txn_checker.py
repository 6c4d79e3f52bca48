"""A real txn-checker in a simulated process. It has no files."""

from __future__ import annotations

from typing import Any

from gantry_chassis.process import Life
from gantry_simulation.processes.part import Part
from gantry_simulation.processes.process import Process
from txn_checker.assembly import serve
from txn_checker.settings import CheckerSettings

PORT = 10_931


class TxnChecker(Part):
    """Starts `txn_checker.assembly.serve` in a process, in one life after the other."""

    def __init__(self, process: Process, nameservers: str, **settings: Any) -> None:
        """Take further settings of the checker as `settings`."""
        super().__init__(process)
        self.address = f"{process.address}:{PORT}"
        self._settings = CheckerSettings(
            listen=process.address, port=PORT, nameservers=nameservers, **settings
        )

    async def _main(self, life: Life) -> None:
        await serve(self._settings, life)
