"""A real txn-checker in a simulated process. It has no files."""

from __future__ import annotations

from typing import Any

from gantry_chassis.process import Life
from gantry_simulation.processes.process import Process
from txn_checker.assembly import serve
from txn_checker.settings import CheckerSettings

PORT = 10_931


class TxnChecker:
    """Starts `txn_checker.assembly.serve` in a process, in one life after the other."""

    def __init__(self, process: Process, nameservers: str, **settings: Any) -> None:
        """Take further settings of the checker as `settings`."""
        self.process = process
        self.address = f"{process.address}:{PORT}"
        self._settings = CheckerSettings(
            listen=process.address, port=PORT, nameservers=nameservers, **settings
        )

    def start(self) -> None:
        """Start it. It claims each store that the nameservers list and no other checker has claimed."""
        self.process.start(self._main)

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()

    def lose_power(self) -> None:
        """Switch the machine off."""
        self.process.lose_power()

    async def _main(self, life: Life) -> None:
        await serve(self._settings, life)
