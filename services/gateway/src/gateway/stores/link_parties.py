"""Shared by the adapters of schedulers and checkers: claim holders, and errors of the ports."""

from collections.abc import Awaitable
from typing import TypeVar

from gantry_link.calling.store_calls import StoreCalls
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.system_queues.claims import claim_holder
from gateway.ports.stores import Broker, PeerAway, StoreRefused

T = TypeVar("T")


async def translated(name: str, asked: Awaitable[T]) -> T:
    """Return the response of `name`; raise its refusal, or that it is away."""
    try:
        return await asked
    except BrokerRefused as error:
        raise StoreRefused(int(error.code), error.remark, error.fields.get("gantryCode", "")) from error
    except LinkError as error:
        raise PeerAway(name, error.sent, str(error)) from error


class LinkHolders:
    """Asks brokers for their claim holders."""

    def __init__(self, pool: ConnectionPool, timeout_seconds: float) -> None:
        self._pool, self._timeout_seconds = pool, timeout_seconds

    async def holder(self, broker: Broker, topic: str) -> str | None:
        """9005."""
        store = StoreCalls(self._pool, broker.address, self._timeout_seconds)
        held = await translated(broker.name, claim_holder(store, topic, 0))
        return held.address or None if held is not None else None
