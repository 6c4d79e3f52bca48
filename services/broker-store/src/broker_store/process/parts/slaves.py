"""RocketMQ's slaves of this store: the HA port, where the settings open it. Loads none of its code where they do not."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker_store.admin.replication_handler import Copy
from broker_store.settings import Settings
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Environment
from gantry_chassis.metrics import Metrics
from gantry_chassis.peers.budget import Budget
from gantry_chassis.start_refusal import StartRefused

if TYPE_CHECKING:
    from broker_store.ha.server import HaServer
    from broker_store.log.commit_log.commit_log import CommitLog

IN_SYNC_BYTES = 256 * 1024 * 1024
"""A slave that lacks less counts as in sync, for tools only (RocketMQ's haMaxGapNotInSync)."""

_log = get_logger()


class HaPort:
    """The HA port of one store."""

    def __init__(
        self, server: "HaServer", settings: Settings, environment: Environment, metrics: Metrics
    ) -> None:
        self._server, self._settings, self._listening = server, settings, environment.listening_socket
        self._end: Callable[[], int] = lambda: 0
        metrics.gauge(
            "gantry_store_slaves", "RocketMQ's slaves that copy the log.", lambda: len(server.progress())
        )
        metrics.counted("gantry_store_slaves_sent", "Log bytes sent to slaves.", lambda: server.sent_bytes)

    async def listen(self, remoting_port: int) -> int:
        """Open the port, `ha_port` or the one after the remoting port, and return it. Raises StartRefused when it is taken."""
        settings = self._settings
        port = settings.ha_port or remoting_port + 1
        try:
            port = await self._server.listen(self._listening, settings.listen, port)
        except OSError as error:
            raise StartRefused(
                f"the HA port {port} of {settings.listen} cannot be opened: {error}"
            ) from error
        if settings.ha_protocol == "unprotected":
            _log.warning(
                "the HA port has no TLS and checks no user: every message is given to everybody that reaches it",
                port=port,
            )
        return port

    def serve(self, log: "CommitLog") -> None:
        """Send the log of a store that leads."""
        from broker_store.ha.log_bytes import LogBytes

        self._end = lambda: log.written_end
        self._server.serve(LogBytes(log))

    def copies(self) -> Sequence[Copy]:
        """Return the slaves, as RocketMQ's tools see them."""
        end = self._end()
        return [
            Copy(
                slave.address,
                slave.reported,
                slave.sent,
                slave.bytes_per_second,
                end - slave.reported < IN_SYNC_BYTES,
            )
            for slave in self._server.progress()
        ]

    async def close(self, seconds: float) -> None:
        """Let slaves copy the end of the log for at most this time, then close the port and all connections."""
        await self._server.drain(seconds)
        self._server.close()


def open_ha_port(
    settings: Settings, environment: Environment, metrics: Metrics, budget: Budget
) -> HaPort | None:
    """Return the HA port, None where it is off. Raises StartRefused where it would bypass access control or TLS without that being asked for."""
    if settings.ha_protocol == "off":
        return None
    has_protection = settings.is_guarded or settings.tls_mode_used != "disabled"
    if has_protection and settings.ha_protocol != "unprotected":
        raise StartRefused(
            "ha_protocol=on opens a port without TLS and without users, which gives every message to everybody that reaches it, and this store has "
            "access control or TLS: leave it off, or set ha_protocol=unprotected and let only the slaves reach that port"
        )
    from broker_store.ha.server import HaServer
    from broker_store.ha.slave import HaSettings

    bounds = HaSettings(bytes_per_second=settings.copy_bytes_per_second)
    server = HaServer(bounds, budget, environment.workers(1, "slaves"), environment.steady)
    return HaPort(server, settings, environment, metrics)
