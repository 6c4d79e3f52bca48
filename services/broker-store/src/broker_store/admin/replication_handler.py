"""Request 907: replication state. This broker is a master without slaves, and says so."""

from collections.abc import Callable
from dataclasses import dataclass

from broker_store.ports import Commands, Peer
from gantry_wire.bodies.admin import HARuntimeInfo
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response


@dataclass(frozen=True, slots=True)
class ReplicationHandlers:
    """Handles queries about replication."""

    log_end: Callable[[], int]
    """End of the log, in bytes."""

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {RequestCode.GET_BROKER_HA_STATUS: ("adminBroker", self.status)}

    def status(self, _peer: Peer, command: Command) -> bytes:
        """Handle 907: the log's end and no slave."""
        body = HARuntimeInfo(master_commit_log_max_offset=self.log_end())
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))
