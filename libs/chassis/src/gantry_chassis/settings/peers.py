"""Settings of processes that accept connections: the most they hold for their peers."""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from gantry_chassis.machine.descriptors import for_connections
from gantry_chassis.machine.memory import LargeThings
from gantry_chassis.peers.budget import MIB, Budget, BudgetLimits
from gantry_chassis.peers.peer_log import PeerLog
from gantry_chassis.settings.tls import TlsSettings


class PeerSettings(TlsSettings, frozen=True, kw_only=True):
    """A service's own settings extend these."""

    peer_bytes_max: Annotated[
        int,
        Meta(
            ge=MIB,
            le=1 << 40,
            description="Most bytes held for all clients: incomplete requests and unread answers. Beyond it, the connections that have held theirs longest are closed.",
        ),
    ] = 512 * MIB
    address_bytes_max: Annotated[
        int,
        Meta(
            ge=MIB,
            le=1 << 40,
            description="Most bytes held for the clients of one address; at most as many incomplete requests of 16 MiB as fit.",
        ),
    ] = 320 * MIB

    def make_budget(self, steady: Callable[[], float]) -> Budget:
        """Return the budget of this process. It logs refusals and returns the memory of abandoned bytes."""
        limits = BudgetLimits(self.peer_bytes_max, self.address_bytes_max, for_connections())
        return Budget(limits, PeerLog(steady), LargeThings().had)
