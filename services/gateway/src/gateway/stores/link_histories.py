"""The Histories port over gantry_link."""

from gantry_link.clients.settling import SettleClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.private_requests.settling import MessageEvent
from gateway.ports.stores import Broker, PeerAway, StoreRefused


class LinkHistories:
    """Clients over one pool of connections."""

    def __init__(self, pool: ConnectionPool, timeout_seconds: float) -> None:
        self._pool, self._timeout_seconds = pool, timeout_seconds

    async def events(self, broker: Broker, topic: str, queue_id: int, offset: int) -> list[MessageEvent]:
        """9040."""
        client = SettleClient(self._pool, broker.address, self._timeout_seconds)
        try:
            return await client.message_events(topic, queue_id, offset)
        except BrokerRefused as error:
            raise StoreRefused(int(error.code), error.remark, error.fields.get("gantryCode", "")) from error
        except LinkError as error:
            raise PeerAway(broker.name, error.sent, str(error)) from error
