"""The AccessChanges port over gantry_link."""

from collections.abc import Callable

from gantry_link.calling.store_calls import refusal
from gantry_link.connections.connection import Connection
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import NotConnected
from gantry_wire.codes import GantryCode
from gantry_wire.errors import MalformedBody
from gantry_wire.frames.command import Command
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

    def __init__(
        self, pool: ConnectionPool, timeout_seconds: float, is_introduced: Callable[[Connection], bool]
    ) -> None:
        """`is_introduced` returns whether the pool introduced a connection: no other store gets a change, or is believed about one."""
        self._pool, self._timeout_seconds, self._is_introduced = pool, timeout_seconds, is_introduced

    async def change(self, broker: Broker, change: AccessChange) -> AccessChanged:
        """9056."""
        answer = await translated(broker.name, self._ask(broker.address, encode_change(change)))
        try:
            return decode_changed(answer.body)
        except MalformedBody as error:
            raise PeerAway(broker.name, True, str(error)) from error

    async def _ask(self, address: str, body: bytes) -> Command:
        connection = await self._pool.get(address)
        if not self._is_introduced(connection):
            raise NotConnected("access control is off there")
        answer = await connection.request(GantryCode.ACCESS_CHANGE, None, body, self._timeout_seconds)
        if answer.code:
            raise refusal(answer)
        return answer
