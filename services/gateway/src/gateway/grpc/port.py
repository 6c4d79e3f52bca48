"""The gRPC port of the process."""

from typing import Final

from gantry_chassis.machine.addresses import joined
from gantry_chassis.metrics import Metrics
from gantry_chassis.process import Life
from gantry_chassis.start_refusal import StartRefused
from gantry_link.grpc.server import GrpcServer
from gantry_link.serving.budget import Budget
from gantry_link.serving.tls_door import TlsDoor
from gateway.grpc.self_signed import SelfSigned
from gateway.grpc.service import GrpcService
from gateway.settings import GatewaySettings

SWEEP_SECONDS: Final = 5.0


class GrpcPort:
    """Serves the gRPC calls of a gateway until closed."""

    def __init__(self, service: GrpcService, server: GrpcServer, number: int) -> None:
        self._service, self._server = service, server
        self.number = number
        """The port."""

    async def close(self) -> None:
        """Let running calls finish, and end the others."""
        self._service.drain()
        await self._server.close()
        self._service.close()


async def open_port(
    service: GrpcService,
    settings: GatewaySettings,
    life: Life,
    budget: Budget,
    door: TlsDoor | None,
    metrics: Metrics,
) -> GrpcPort:
    """Listen. `door` has the certificate of the process; without one the port has its own. Raises StartRefused."""
    server = GrpcServer(
        service.methods,
        budget,
        drain_seconds=settings.drain_seconds,
        listen=life.environment.listening_socket,
    )
    if door is None and settings.grpc_tls:
        door = TlsDoor(SelfSigned(life.environment.wall), budget)
    try:
        number = await server.start(
            settings.listen, settings.grpc_port, reuse_port=settings.reuse_port, door=door
        )
    except OSError as error:
        where = joined(settings.listen, settings.grpc_port)
        raise StartRefused(
            f"cannot listen on {where}: {error.strerror}; set another grpc_port, or -1 for none"
        ) from error
    service.endpoints.listen_on(number)
    metrics.gauge("gateway_grpc_connections", "Open gRPC connections.", lambda: server.connections)

    async def sweep() -> None:
        service.sweep()
        while not await life.sleep(SWEEP_SECONDS):
            service.sweep()

    life.supervise("gRPC clients", sweep)
    life.supervise("gRPC orphans", service.orphans.run)
    return GrpcPort(service, server, number)
