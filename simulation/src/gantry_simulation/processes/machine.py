"""A simulated machine: its clocks, its host in the network, and the processes on it, which lose their power together."""

from __future__ import annotations

from typing import Protocol

from gantry_simulation.network.network import Network
from gantry_simulation.world.clocks import Clocks
from gantry_simulation.world.world import World


class OnMachine(Protocol):
    """A process."""

    def power_lost(self) -> None:
        """End, if it runs."""
        ...


class Machine:
    """One machine. It boots when its first process starts, and with the first start after a loss of power."""

    def __init__(self, world: World, network: Network, name: str, address: str) -> None:
        """`name` is that of its first process."""
        self.name, self.address = name, address
        self.clocks = Clocks(world, world.rng(f"clocks of {name}"))
        self.host = network.add_host(address)
        self.boots: int = 1
        self.processes: list[OnMachine] = []
        self._network = network

    def power_on(self) -> None:
        """Boot, if it has no power."""
        if not self.host.has_power:
            self.boots += 1
            self.clocks.boot()
            self._network.power_on(self.host)

    def lose_power(self) -> None:
        """Switch it off, with everything that runs on it. No peer hears of it."""
        for process in self.processes:
            process.power_lost()
        self._network.lose_power(self.host)
