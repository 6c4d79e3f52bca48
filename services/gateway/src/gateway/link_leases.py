"""The LeaseStores port over gantry_link."""

from collections.abc import Sequence
from itertools import count

import msgspec

from gantry_link import BrokerRefused, ConnectionPool, LinkError
from gantry_link.lease_client import LeaseClient
from gantry_wire.lease_headers import LeaseItem, LeaseItemsHeader, ReceiveHeader, WaitHeader
from gateway.lease_ports import Leased, ReceiveAsk
from gateway.ports import PeerAway, StoreRefused


class LinkLeaseStores:
    """Clients by broker and address over one pool of connections."""

    def __init__(self, pool: ConnectionPool, timeout_seconds: float) -> None:
        self._pool, self._timeout_seconds = pool, timeout_seconds
        self._stores: dict[tuple[str, str], LinkLeaseStore] = {}

    def at(self, broker: str, address: str) -> "LinkLeaseStore":
        """Return the client of a broker at an address; making one costs nothing."""
        store = self._stores.get((broker, address))
        if store is None:
            client = LeaseClient(self._pool, address, self._timeout_seconds)
            store = self._stores[broker, address] = LinkLeaseStore(broker, client)
        return store


class LinkLeaseStore:
    """One broker-store."""

    _wait_ids = count(1)

    def __init__(self, broker: str, client: LeaseClient) -> None:
        self._broker, self._client = broker, client

    async def receive(self, ask: ReceiveAsk) -> Leased:
        """9030."""
        header = ReceiveHeader(
            group=ask.group,
            topic=ask.topic,
            max_messages=ask.count_max,
            invisible_ms=ask.invisible_ms,
            expression_type=ask.expression_type or None,
            expression=ask.expression or None,
            change_filter=True if ask.is_filter_new else None,
        )
        try:
            answer = await self._client.receive(header)
        except (BrokerRefused, LinkError) as error:
            raise self._translated(error) from error
        return Leased(answer.runs, answer.records, answer.until_ms)

    async def settle(
        self, topic: str, group: str, items: Sequence[LeaseItem], reasons: dict[int, str]
    ) -> bytes:
        """9031."""
        text = msgspec.json.encode(reasons).decode() if reasons else None
        try:
            return await self._client.settle(LeaseItemsHeader(group=group, topic=topic, reasons=text), items)
        except (BrokerRefused, LinkError) as error:
            raise self._translated(error) from error

    async def release(self, topic: str, group: str, items: Sequence[LeaseItem]) -> None:
        """9031, one-way."""
        try:
            await self._client.release(LeaseItemsHeader(group=group, topic=topic), items)
        except LinkError:
            return  # then the leases end by time

    async def extend(
        self, topic: str, group: str, items: Sequence[LeaseItem], invisible_ms: int
    ) -> tuple[bytes, int]:
        """9032."""
        header = LeaseItemsHeader(group=group, topic=topic, invisible_ms=invisible_ms)
        try:
            return await self._client.extend(header, items)
        except (BrokerRefused, LinkError) as error:
            raise self._translated(error) from error

    async def wait(self, topic: str, group: str, wait_ms: int) -> bool:
        """9034."""
        header = WaitHeader(group=group, topic=topic, wait_id=next(self._wait_ids), wait_ms=wait_ms)
        is_over = False
        try:
            is_ready = await self._client.wait(header)
            is_over = True
        except (BrokerRefused, LinkError) as error:
            is_over = True
            raise self._translated(error) from error
        finally:
            if not is_over:  # cancelled
                header.wait_ms = 0
                self._client.end_wait(header)
        return is_ready

    def _translated(self, error: BrokerRefused | LinkError) -> StoreRefused | PeerAway:
        if isinstance(error, BrokerRefused):
            return StoreRefused(int(error.code), error.remark, error.fields.get("gantryCode", ""))
        return PeerAway(self._broker, error.sent, str(error))
