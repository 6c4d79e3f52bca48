"""The fakes as simulated processes. Each life begins empty, as a real one that keeps nothing on disk."""

from __future__ import annotations

import asyncio

from gantry_chassis.process import Life
from gantry_simulation.fakes.nats import NatsServer
from gantry_simulation.fakes.valkey import ValkeyServer
from gantry_simulation.processes.part import Part
from gantry_simulation.processes.process import Process

NATS_PORT = 4222
VALKEY_PORT = 6379


class Nats(Part):
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


class Valkey(Part):
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
