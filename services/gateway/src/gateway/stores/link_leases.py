"""The LeaseStores port over gantry_link."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import msgspec

from gantry_link.calling.call_pattern import CallPattern
from gantry_link.calling.waiting import Waiting
from gantry_link.clients.leases import LeaseClient, received_of, statuses_of
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.bounded_cache import BoundedCache
from gantry_wire.codes import GantryCode
from gantry_wire.frames.command import Command
from gantry_wire.private_requests.leases import LeaseItem, LeaseItemsHeader, ReceiveHeader, WaitHeader
from gateway.ports.leases import Leased, ReceiveAsk
from gateway.ports.stores import PeerAway, StoreRefused
from gateway.stores.link_store import STORES_MAX

PATTERNS_MAX = 4096
"""Requests of one store whose bytes are cached."""


class LinkLeaseStores:
    """Clients by broker and address over one pool of connections."""

    def __init__(self, pool: ConnectionPool, timeout_seconds: float) -> None:
        self._pool, self._timeout_seconds = pool, timeout_seconds
        self._stores: BoundedCache[tuple[str, str], LinkLeaseStore] = BoundedCache(STORES_MAX)
        self._wait_ids = count(1)

    def at(self, broker: str, address: str) -> "LinkLeaseStore":
        """Return the client of a broker at an address; creating one costs nothing."""
        store = self._stores.get((broker, address))
        if store is None:
            client = LeaseClient(self._pool, address, self._timeout_seconds)
            store = LinkLeaseStore(broker, client, self._wait_ids)
            self._stores.keep((broker, address), store)
        return store


class LinkLeaseStore:
    """One broker-store."""

    def __init__(self, broker: str, client: LeaseClient, wait_ids: Iterator[int]) -> None:
        """`wait_ids` are those of all stores: two brokers may have one address, and so one connection."""
        self._wait_ids = wait_ids
        self._broker, self._client = broker, client
        self._patterns: BoundedCache[ReceiveAsk | tuple[str, str], CallPattern] = BoundedCache(PATTERNS_MAX)

    def receive(self, ask: ReceiveAsk, on_result: Callable[[Leased | Exception], None]) -> None:
        """9030."""
        pattern = self._patterns.get(ask)
        if pattern is None:
            pattern = CallPattern(GantryCode.RECEIVE, _receive_header(ask))
            if not ask.attempt_id:  # it names one call
                self._keep(ask, pattern)
        self._client.start_receive(pattern, Waiting(_leased, self._failure, on_result))

    def settle(
        self,
        topic: str,
        group: str,
        items: bytes,
        reasons: dict[int, str],
        on_result: Callable[[bytes | Exception], None],
    ) -> None:
        """9031."""
        if reasons:
            pattern = CallPattern(GantryCode.ACK, _ack_header(topic, group, reasons))
        else:
            pattern = self._patterns.get((topic, group)) or self._keep(
                (topic, group), CallPattern(GantryCode.ACK, _ack_header(topic, group, {}))
            )
        self._client.start_settle(pattern, items, Waiting(statuses_of, self._failure, on_result))

    async def release(self, topic: str, group: str, items: Sequence[LeaseItem]) -> None:
        """9031, one-way."""
        try:
            await self._client.release(LeaseItemsHeader(group=group, topic=topic), items)
        except LinkError:
            return  # then the leases expire

    async def extend(
        self, topic: str, group: str, items: Sequence[LeaseItem], invisible_ms: int
    ) -> tuple[bytes, int]:
        """9032."""
        header = LeaseItemsHeader(group=group, topic=topic, invisible_ms=invisible_ms)
        try:
            return await self._client.extend(header, items)
        except (BrokerRefused, LinkError) as error:
            raise self._failure(error) from error

    async def wait(self, topic: str, group: str, wait_ms: int) -> bool:
        """9034."""
        header = WaitHeader(group=group, topic=topic, wait_id=next(self._wait_ids), wait_ms=wait_ms)
        is_over = False
        try:
            is_ready = await self._client.wait(header)
            is_over = True
        except (BrokerRefused, LinkError) as error:
            is_over = True
            raise self._failure(error) from error
        finally:
            if not is_over:  # cancelled
                header.wait_ms = 0
                self._client.end_wait(header)
        return is_ready

    def _keep(self, key: ReceiveAsk | tuple[str, str], pattern: CallPattern) -> CallPattern:
        self._patterns.keep(key, pattern)
        return pattern

    def _failure(self, error: BrokerRefused | LinkError) -> StoreRefused | PeerAway:
        if isinstance(error, BrokerRefused):
            return StoreRefused(int(error.code), error.remark, error.fields.get("gantryCode", ""))
        return PeerAway(self._broker, error.sent, str(error))


def _leased(answer: Command) -> Leased:
    received = received_of(answer)
    return Leased(received.runs, received.records, received.until_ms)


def _ack_header(topic: str, group: str, reasons: dict[int, str]) -> LeaseItemsHeader:
    text = msgspec.json.encode(reasons).decode() if reasons else None
    return LeaseItemsHeader(group=group, topic=topic, reasons=text)


def _receive_header(ask: ReceiveAsk) -> ReceiveHeader:
    return ReceiveHeader(
        group=ask.group,
        topic=ask.topic,
        max_messages=ask.count_max,
        invisible_ms=ask.invisible_ms,
        expression_type=ask.expression_type or None,
        expression=ask.expression or None,
        change_filter=True if ask.is_filter_new else None,
        start=ask.start or None,
        attempt_id=ask.attempt_id or None,
    )
