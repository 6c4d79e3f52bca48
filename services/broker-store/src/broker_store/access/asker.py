"""Who sends an administrative request about users."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker_store.ports import Peer
from gantry_access.model.users import UserType
from gantry_wire.frames.command import Command


class Asker(NamedTuple):
    """The user of a request in progress, as the door has verified it."""

    name: str
    """Empty for one of Gantry's own services."""
    type: UserType
    address: str

    @property
    def may_change_super(self) -> bool:
        """Whether it makes and changes Super users: a Super user, or one of Gantry's own services, which checks that itself."""
        return self.type is not UserType.NORMAL


AskerOf = Callable[[Peer, Command], Asker]
"""Returns the asker of a request that the door admitted."""
