"""The port for changes of users, policies and tokens. Adapter: link_access.py."""

from typing import Protocol

from gantry_wire.private_requests.access_change import AccessChange, AccessChanged
from gateway.ports.stores import Broker


class AccessChanges(Protocol):
    """All stores. Calls raise StoreRefused or PeerAway."""

    async def change(self, broker: Broker, change: AccessChange) -> AccessChanged:
        """Let one store take a change; the other stores read it from there. May be repeated."""
        ...
