"""The AccessChanges port over gantry_link."""

from gantry_link.calling.store_calls import StoreCalls
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.codes import GantryCode
from gantry_wire.errors import MalformedBody
from gantry_wire.private_requests.access_change import (
    AccessChange,
    AccessChanged,
    decode_changed,
    encode_change,
)
from gateway.ports.stores import Broker, PeerAway
from gateway.stores.link_parties import translated


class LinkAccessChanges:
    """Clients over one pool of connections, which introduces them."""

    def __init__(self, pool: ConnectionPool, timeout_seconds: float) -> None:
        self._pool, self._timeout_seconds = pool, timeout_seconds

    async def change(self, broker: Broker, change: AccessChange) -> AccessChanged:
        """9056."""
        calls = StoreCalls(self._pool, broker.address, self._timeout_seconds)
        answer = await translated(
            broker.name, calls.ask(GantryCode.ACCESS_CHANGE, None, encode_change(change))
        )
        try:
            return decode_changed(answer.body)
        except MalformedBody as error:
            raise PeerAway(broker.name, True, str(error)) from error
