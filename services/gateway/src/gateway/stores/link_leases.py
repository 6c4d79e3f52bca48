"""The LeaseStores port over gantry_link."""

from collections.abc import Callable, Sequence
from itertools import count

import msgspec

from gantry_link import BrokerRefused, ConnectionPool, LinkError
from gantry_link.call_pattern import CallPattern
from gantry_link.lease_client import LeaseClient, Received
from gantry_wire.bounded_cache import BoundedCache
from gantry_wire.codes import GantryCode
from gantry_wire.lease_headers import LeaseItem, LeaseItemsHeader, ReceiveHeader, WaitHeader
from gateway.ports.leases import Leased, ReceiveAsk
from gateway.ports.stores import PeerAway, StoreRefused

PATTERNS_MAX = 4096
"""Requests of one store whose bytes are kept."""


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
        self._patterns: BoundedCache[ReceiveAsk | tuple[str, str], CallPattern] = BoundedCache(PATTERNS_MAX)

    async def receive(self, ask: ReceiveAsk) -> Leased:
        """9030."""
        try:
            answer = await self._client.receive(_receive_header(ask))
        except (BrokerRefused, LinkError) as error:
            raise self._translated(error) from error
        return Leased(answer.runs, answer.records, answer.until_ms)

    def begin_receive(self, ask: ReceiveAsk, told: Callable[[Leased | Exception], None]) -> bool:
        """9030, without a task."""
        pattern = self._patterns.get(ask)
        if pattern is None:
            pattern = self._keep(ask, CallPattern(GantryCode.RECEIVE, _receive_header(ask)))

        def tell(outcome: Received | Exception) -> None:
            if isinstance(outcome, Received):
                told(Leased(outcome.runs, outcome.records, outcome.until_ms))
            else:
                told(self._translation(outcome))

        return self._client.begin_receive(pattern, tell)

    async def settle(self, topic: str, group: str, items: bytes, reasons: dict[int, str]) -> bytes:
        """9031."""
        text = msgspec.json.encode(reasons).decode() if reasons else None
        try:
            header = LeaseItemsHeader(group=group, topic=topic, reasons=text)
            return await self._client.settle_packed(header, items)
        except (BrokerRefused, LinkError) as error:
            raise self._translated(error) from error

    def begin_settle(
        self, topic: str, group: str, items: bytes, told: Callable[[bytes | Exception], None]
    ) -> bool:
        """9031, without a task."""
        pattern = self._patterns.get((topic, group))
        if pattern is None:
            header = LeaseItemsHeader(group=group, topic=topic)
            pattern = self._keep((topic, group), CallPattern(GantryCode.ACK, header))

        def tell(outcome: bytes | Exception) -> None:
            told(outcome if isinstance(outcome, bytes) else self._translation(outcome))

        return self._client.begin_settle(pattern, items, tell)

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

    def _keep(self, key: ReceiveAsk | tuple[str, str], pattern: CallPattern) -> CallPattern:
        self._patterns.keep(key, pattern)
        return pattern

    def _translated(self, error: BrokerRefused | LinkError) -> StoreRefused | PeerAway:
        if isinstance(error, BrokerRefused):
            return StoreRefused(int(error.code), error.remark, error.fields.get("gantryCode", ""))
        return PeerAway(self._broker, error.sent, str(error))

    def _translation(self, error: Exception) -> Exception:
        return self._translated(error) if isinstance(error, BrokerRefused | LinkError) else error


def _receive_header(ask: ReceiveAsk) -> ReceiveHeader:
    return ReceiveHeader(
        group=ask.group,
        topic=ask.topic,
        max_messages=ask.count_max,
        invisible_ms=ask.invisible_ms,
        expression_type=ask.expression_type or None,
        expression=ask.expression or None,
        change_filter=True if ask.is_filter_new else None,
    )
