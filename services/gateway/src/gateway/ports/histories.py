"""The port for message histories. Adapter: link_histories.py."""

from typing import Protocol

from gantry_wire.private_requests.settling import MessageEvent
from gateway.ports.stores import Broker


class Histories(Protocol):
    """All stores. Calls raise StoreRefused or PeerAway."""

    async def events(self, broker: Broker, topic: str, queue_id: int, offset: int) -> list[MessageEvent]:
        """Return what a store knows of a message besides its record: decisions, leases, acknowledgements."""
        ...
