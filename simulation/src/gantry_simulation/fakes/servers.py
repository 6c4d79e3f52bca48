"""The fakes as simulated processes. Each life begins empty, as a real one that keeps nothing on disk."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from gantry_chassis.process import Life
from gantry_simulation.fakes.nats import NatsServer
from gantry_simulation.fakes.valkey import ValkeyServer
from gantry_simulation.processes.process import Process

NATS_PORT = 4222
VALKEY_PORT = 6379


class FakeServer(ABC):
    """A fake in a process, in one life after the other."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def start(self) -> None:
        """Start it."""
        self.process.start(self._main)

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()

    def lose_power(self) -> None:
        """Switch the machine off."""
        self.process.lose_power()

    @abstractmethod
    async def _main(self, life: Life) -> None: ...


class Nats(FakeServer):
    """A fake NATS server."""

    def __init__(self, process: Process, token: str = "") -> None:
        """Clients must show `token` if there is one."""
        super().__init__(process)
        self.url = f"nats://{process.address}:{NATS_PORT}"
        self._token = token

    async def _main(self, life: Life) -> None:
        server = NatsServer(life.environment.rng, self._token)
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(server.connection, self.process.address, NATS_PORT)
        await life.stopping.wait()
        listener.close()


class Valkey(FakeServer):
    """A fake Valkey server."""

    def __init__(self, process: Process, password: str = "") -> None:
        """Clients must show `password` if there is one."""
        super().__init__(process)
        self.url = f"redis://{process.address}:{VALKEY_PORT}/0"
        self._password = password

    async def _main(self, life: Life) -> None:
        server = ValkeyServer(life.environment.wall_ms, self._password)
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(server.connection, self.process.address, VALKEY_PORT)
        await life.stopping.wait()
        listener.close()
