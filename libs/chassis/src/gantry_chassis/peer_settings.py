"""The settings of every process that others connect to: what it holds for them at most."""

from typing import Annotated

import msgspec
from msgspec import Meta

from gantry_chassis.budget import MIB, Budget, BudgetLimits
from gantry_chassis.descriptors import for_connections
from gantry_chassis.memory import LargeThings
from gantry_chassis.peer_log import PeerLog


class PeerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A service's own settings extend these."""

    peer_bytes_max: Annotated[
        int,
        Meta(
            ge=MIB,
            le=1 << 40,
            description="Most bytes held for all clients: half requests and answers that are not read. Beyond, those that have held theirs longest are closed.",
        ),
    ] = 512 * MIB
    address_bytes_max: Annotated[
        int,
        Meta(
            ge=MIB,
            le=1 << 40,
            description="The same for the clients of one address: as many requests of 16 MiB may be half there at once as fit.",
        ),
    ] = 320 * MIB

    def make_budget(self) -> Budget:
        """Return the budget of this process. It says in the log whom it refuses, and gives back the memory of much that came to nothing."""
        limits = BudgetLimits(self.peer_bytes_max, self.address_bytes_max, for_connections())
        return Budget(limits, PeerLog(), LargeThings().had)
