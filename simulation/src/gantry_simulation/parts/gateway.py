"""A real gateway in a simulated process. Gateways of one machine are workers that share its port."""

from __future__ import annotations

from typing import Any

from gantry_chassis.process import Life
from gantry_simulation.processes.part import Part
from gantry_simulation.processes.process import Process
from gateway.composition import serve
from gateway.settings import GatewaySettings

PORT = 8080
HEALTH_PORT = 8180
"""Of the first worker; the others follow."""


class Gateway(Part):
    """Starts `gateway.composition.serve` in a process, in one life after the other. It has no files."""

    def __init__(
        self,
        process: Process,
        nameservers: str,
        *,
        worker: int = 0,
        workers: int = 1,
        fast_paths: bool = True,
        **settings: Any,
    ) -> None:
        """`worker` is its number among the `workers` of its machine. `settings` are further ones of the gateway."""
        super().__init__(process)
        self.address = f"{process.address}:{PORT}"
        ports = tuple(HEALTH_PORT + number for number in range(workers)) if workers > 1 else ()
        self._settings = GatewaySettings(
            listen="::", port=PORT, grpc_port=-1, reuse_port=workers > 1, worker=worker, worker_ports=ports,
            health_port=ports[worker] if ports else 0, nameservers=nameservers, **settings,
        )  # fmt: skip
        self._fast_paths = fast_paths

    async def _main(self, life: Life) -> None:
        await serve(self._settings, life, fast_paths=self._fast_paths)
