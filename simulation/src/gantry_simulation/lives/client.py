"""A client of the simulated system: it performs the operations of the plan that name it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from gantry_chassis.process import Life
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.lives.history import History
from gantry_simulation.lives.operations.table import OPERATIONS
from gantry_simulation.lives.plan import Act
from gantry_simulation.processes.process import Process

TIMEOUT_SECONDS = 3.0


class Client:
    """One process with a connection to each store. Operations run beside each other."""

    def __init__(
        self,
        process: Process,
        ledger: Ledger,
        history: History,
        addresses: Mapping[str, str],
        is_sync: Callable[[str], bool],
    ) -> None:
        """`addresses` are those of the stores by name; `is_sync`: whether one delivers only what is durable."""
        self.process, self.ledger, self.history = process, ledger, history
        self.name = process.name
        self.is_sync = is_sync
        self._addresses = addresses
        self._stores: dict[str, StoreClient] = {}
        self._life: Life | None = None

    def start(self) -> None:
        """Start the process."""
        self.process.start(self._main)

    def perform(self, act: Act) -> None:
        """Begin an operation. It does not happen when the process does not run."""
        self.process.deliver(self._begin, act)

    def store(self, name: str) -> StoreClient:
        """Return the client of a store."""
        return self._stores[name]

    def wall_ms(self) -> int:
        """Return the wall clock of the machine, ms since 1970."""
        assert self._life is not None
        return self._life.environment.wall_ms()

    async def _main(self, life: Life) -> None:
        self._life = life
        pool = ConnectionPool(rng=life.environment.rng)
        self._stores = {
            name: StoreClient(pool, address, TIMEOUT_SECONDS) for name, address in self._addresses.items()
        }
        await life.stopping.wait()
        await pool.close()

    def _begin(self, act: Act) -> None:
        if self._stores:
            asyncio.get_running_loop().create_task(self._run(act), name=act.kind)

    async def _run(self, act: Act) -> None:
        try:
            await OPERATIONS[act.kind](self, act)
        except (BrokerRefused, LinkError) as error:
            self.history.add(self.name, f"{act.kind} {act.number} on {act.on}: {error}")
