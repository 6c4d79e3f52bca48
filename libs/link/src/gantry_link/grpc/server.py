"""A gRPC server on one port."""

from __future__ import annotations

from gantry_link.grpc.calls import Methods
from gantry_link.grpc.connection import GrpcConnection
from gantry_link.grpc.deadlines import Deadlines
from gantry_link.grpc.limits import GrpcLimits
from gantry_link.http2.connection import Http2Connection
from gantry_link.http2.server import Http2Server, ListeningSocket
from gantry_link.serving.budget import Budget
from gantry_link.serving.tls_door import TlsDoor


class GrpcServer:
    """Serves methods until closed."""

    def __init__(
        self,
        methods: Methods,
        budget: Budget,
        *,
        drain_seconds: float,
        listen: ListeningSocket,
        limits: GrpcLimits | None = None,
    ) -> None:
        """`budget`, the process's, counts what clients make it hold. `listen` opens the port. A shutdown waits for calls at most `drain_seconds`."""
        self.methods, self.limits = methods, limits or GrpcLimits()
        self.deadlines = Deadlines()
        self._port = Http2Server(
            self._serve, budget, drain_seconds=drain_seconds, listen=listen, limits=self.limits.http2
        )

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._port.connections)

    async def start(self, host: str, port: int, *, reuse_port: bool, door: TlsDoor | None = None) -> int:
        """Listen and return the port; with a `door`, for TLS too. Raises OSError if the port is taken."""
        return await self._port.start(host, port, reuse_port=reuse_port, door=door)

    def drain(self) -> None:
        """Accept no more connections, and let clients begin no more calls. Those that they have begun continue."""
        self._port.drain()

    async def close(self) -> None:
        """Drain, wait for running calls at most `drain_seconds`, end the others with UNAVAILABLE, and close all connections.

        A stream that may last for ever, as its client has not ended its side, or set no deadline, is no running call: it ends when the running ones are over.
        """
        await self._port.close()
        self.deadlines.close()

    def _serve(self, connection: Http2Connection) -> GrpcConnection:
        return GrpcConnection(self, connection)
