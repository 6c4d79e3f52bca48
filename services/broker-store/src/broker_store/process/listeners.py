"""The ports of a store: remoting, fast port, HTTP, and the HA port where the settings open it.

Opened first, so that a taken port fails at once; admission follows later.
"""

import itertools
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.process.parts.slaves import HaPort
from broker_store.requests.command_table import NOT_ON_FAST_PORT
from broker_store.settings import Settings
from gantry_chassis.http.authorizing import Authorizer
from gantry_chassis.http.server import HttpServer, Routes
from gantry_chassis.machine.addresses import ListeningSocket
from gantry_chassis.peers.budget import Budget
from gantry_chassis.start_refusal import StartRefused
from gantry_link.limits import LinkLimits
from gantry_link.serving.peer import Peer
from gantry_link.serving.server import RemotingServer
from gantry_link.serving.tls_door import TlsDoor
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.frame_stream import RawFrame

CLOSE_SECONDS = 1.0


class Table(Protocol):
    """What a port serves."""

    def receive(self, peer: Peer, raw: RawFrame) -> None:
        """Handle one frame. Raises WireError to refuse."""
        ...

    def without(self, codes: Iterable[int]) -> "Table":
        """Return the same table without some codes."""
        ...


class Listeners:
    """All listeners of one store."""

    def __init__(
        self,
        settings: Settings,
        routes: Routes,
        budget: Budget,
        on_close: Callable[[Peer], None],
        listen: ListeningSocket,
        authorizer: Authorizer | None,
        ha_port: HaPort | None,
    ) -> None:
        """`listen` opens the HTTP port; `authorizer` decides about its calls, None: access control is off."""
        self._settings, self._ha_port = settings, ha_port
        self.slaves = None if ha_port is None else ha_port.copies
        self._main: Table | None = None
        self._fast: Table | None = None
        self.reason = "starting"
        """Why requests are refused, empty once the store serves."""
        self.port = self.fast_port = 0
        """Actual ports, once they are open."""
        limits = LinkLimits(
            output_bytes_max=settings.output_bytes_max,
            output_pause_bytes=min(LinkLimits().output_pause_bytes, settings.output_bytes_max),
            idle_seconds=settings.idle_seconds,
        )
        numbers = itertools.count(1)
        self.server = RemotingServer(
            self._receive, on_close=on_close, limits=limits, budget=budget, numbers=numbers
        )
        self._fast_server = RemotingServer(
            self._receive_fast, on_close=on_close, limits=limits, budget=budget, numbers=numbers
        )
        self.http = HttpServer(
            settings.listen, settings.http_port_used, routes, budget, settings.http_hosts,
            listen=listen, authorizer=authorizer,
        )  # fmt: skip

    async def listen(self, door: TlsDoor | None) -> None:
        """Open all ports; with a `door`, for TLS too. Raises StartRefused when one cannot be opened."""
        settings = self._settings
        try:
            await self.http.start(door)
            self.port = await self.server.listen(settings.listen, settings.port, door)
            self.fast_port = await self._fast_server.listen(settings.listen, settings.fast_port_used, door)
        except OSError as error:
            raise StartRefused(f"a port of {settings.listen} cannot be opened: {error}") from error
        if self._ha_port is not None:
            await self._ha_port.listen(self.port)

    def admit(self, table: Table) -> None:
        """Serve the commands of this table."""
        self._main, self._fast = table, table.without(NOT_ON_FAST_PORT)

    def wait_for(self, reason: str) -> None:
        """Set why the store is not ready yet, and why requests are refused while no table is admitted."""
        self.reason = reason

    def serve_slaves(self, log: CommitLog) -> None:
        """Send the log of a store that leads to RocketMQ's slaves, if they may have it."""
        if self._ha_port is not None:
            self._ha_port.serve(log)

    async def leave_slaves(self) -> None:
        """Let slaves copy the end of the log for a moment, then close their port. Call it before the log is closed."""
        if self._ha_port is not None:
            await self._ha_port.close(CLOSE_SECONDS)

    def ready(self) -> None:
        """Everything is served."""
        self.reason = ""

    def shut(self, reason: str) -> None:
        """Refuse requests from now on, with this reason. Connections stay open."""
        self._main = self._fast = None
        self.reason = reason
        self.server.stop_accepting()
        self._fast_server.stop_accepting()

    async def close(self) -> None:
        """Send the remaining answers, then close all connections and ports."""
        await self.server.close(CLOSE_SECONDS)
        await self._fast_server.close(CLOSE_SECONDS)
        with suppress(OSError):
            await self.http.close()

    def _receive(self, peer: Peer, raw: RawFrame) -> None:
        if self._main is None:
            raise not_serving(self.reason)
        self._main.receive(peer, raw)

    def _receive_fast(self, peer: Peer, raw: RawFrame) -> None:
        if self._fast is None:
            raise not_serving(self.reason)
        self._fast.receive(peer, raw)


def not_serving(reason: str) -> RefusedRequest:
    """Return the refusal of a store that serves nothing now."""
    remark = f"the store does not serve now: {reason}; try again in a moment"
    return RefusedRequest(ResponseCode.SERVICE_NOT_AVAILABLE, remark, {"gantryCode": "NOT_SERVING"})
