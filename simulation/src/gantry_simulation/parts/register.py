"""The register of a broker group in the simulated world: its records, and the way of each replica to them.

It is the product's register in memory. Each answer takes drawn time, in which the replica may die: a write may have taken effect then.
"""

from __future__ import annotations

import asyncio
import random

from broker_store.process.group.register import GroupRegister, OpenRegister, RegisterOpening
from broker_store.replication.register.memory_register import Faults, MemoryRegister, Records
from broker_store.replication.register.port import Outcome
from broker_store.replication.register.record import Registered, decode

QUICK_SECONDS = (0.001, 0.03)
SLOW_CHANCE, SLOW_SECONDS = 0.02, (0.2, 4.0)
"""Some answers take longer than a replica waits for them."""


class SlowRegister(MemoryRegister):
    """A register whose answers take time, as those of another machine."""

    def __init__(self, records: Records, faults: Faults, remembered: int, rng: random.Random) -> None:
        super().__init__(records, faults, remembered)
        self._rng = rng

    async def read(self) -> Registered:
        """See `Register.read`."""
        await self._travel()
        read = await super().read()
        await self._travel()
        return read

    async def write(self, expected_version: int, new: Registered) -> Outcome:
        """See `Register.write`."""
        await self._travel()
        outcome = await super().write(expected_version, new)
        await self._travel()
        return outcome

    async def bootstrap(self, first: Registered) -> Outcome:
        """See `Register.bootstrap`."""
        await self._travel()
        outcome = await super().bootstrap(first)
        await self._travel()
        return outcome

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    async def _travel(self) -> None:
        is_slow = self._rng.random() < SLOW_CHANCE
        await asyncio.sleep(self._rng.uniform(*(SLOW_SECONDS if is_slow else QUICK_SECONDS)))


class SimulatedRegister:
    """The register of one group."""

    def __init__(self, group: str) -> None:
        self.records = Records(group)
        self.faults: dict[str, Faults] = {}
        """On the way of each replica, by its name."""

    def opener(self, replica: str) -> OpenRegister:
        """Return what opens it for a replica, in each of its lives."""
        faults = self.faults.setdefault(replica, Faults())

        def open_register(opening: RegisterOpening) -> GroupRegister:
            register = SlowRegister(
                self.records, faults, opening.remembered, random.Random(opening.environment.rng.random())
            )
            return GroupRegister(register, register, None)

        return open_register

    @property
    def newest(self) -> Registered | None:
        """The newest record."""
        return decode(self.records.stored[-1]) if self.records.stored else None

    def end_faults(self) -> None:
        """End all faults. Writes that are under way arrive."""
        for faults in self.faults.values():
            faults.is_away, faults.stale_by, faults.replies_lost, faults.writes_late = False, 0, 0, 0
        self.records.arrive()
