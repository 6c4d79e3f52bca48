"""The Names port over gantry_link: reads ask one nameserver, writes go to all."""

import asyncio
import ipaddress
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from gantry_link.clients.nameservers import Answers, NameserverClient
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError, UnreadableAnswer
from gantry_wire.bodies.cluster import TopicRouteData
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.bounded_cache import BoundedCache
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import MalformedBody
from gantry_wire.headers.nameserver import RouteHeader
from gateway.ports.stores import Broker, PeerAway, QueueData, RouteData, StoreRefused, Unusable
from gateway.routing.queue_lists import QUEUES_MAX

MASTER_ID = 0
RESOLVE_SECONDS = 60.0
HOSTS_MAX = 1024
"""Resolved addresses of brokers that are kept."""
_ALL = "nameservers"


class LinkNames:
    """All nameservers."""

    def __init__(self, pool: ConnectionPool, client: NameserverClient, timeout_seconds: float) -> None:
        self._pool, self._client, self._timeout_seconds = pool, client, timeout_seconds
        self._addresses: Sequence[str] = ()
        self._hosts: BoundedCache[str, tuple[float, tuple[str, ...]]] = BoundedCache(HOSTS_MAX)

    @property
    def addresses(self) -> Sequence[str]:
        """The last known nameserver addresses."""
        return self._addresses

    async def read_addresses(self) -> None:
        """Update `addresses`; raise PeerAway if none was ever known."""
        with self._translated():
            self._addresses = await self._client.addresses.current()

    async def route(self, topic: str) -> RouteData | None:
        """105; None if no nameserver knows the topic."""
        try:
            return _route(await self._client.route(topic))
        except BrokerRefused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise StoreRefused(int(error.code), error.remark) from error
        except LinkError as error:
            raise _away(_ALL, error) from error

    async def route_at(self, address: str, topic: str) -> RouteData | None:
        """105 of one nameserver."""
        client = StoreClient(self._pool, address, self._timeout_seconds)
        header = RouteHeader(topic=topic, accept_standard_json_only=True)
        try:
            answer = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        except BrokerRefused:
            return None
        except LinkError as error:
            raise _away(address, error) from error
        try:
            return _route(decode_body(answer.body, TopicRouteData))
        except MalformedBody as error:
            message = f"the nameserver {address} sent an unreadable answer: {error}"
            raise Unusable(address, message) from error

    async def brokers(self) -> list[Broker]:
        """106: masters only."""
        await self.read_addresses()
        with self._translated():
            info = await self._client.cluster_info()
        found = [
            (data.broker_name, data.cluster, data.broker_addrs[MASTER_ID])
            for data in info.broker_addr_table.values()
            if MASTER_ID in data.broker_addrs
        ]
        hosts = await asyncio.gather(*(self._resolve(address) for _name, _cluster, address in found))
        return sorted(Broker(*one, numeric) for one, numeric in zip(found, hosts, strict=True))

    async def replicas(self) -> dict[str, dict[int, str]]:
        """106."""
        with self._translated():
            info = await self._client.cluster_info()
        return {name: dict(data.broker_addrs) for name, data in info.broker_addr_table.items()}

    async def topics(self) -> list[str]:
        """206."""
        with self._translated():
            return await self._client.topics()

    async def value(self, namespace: str, key: str) -> str | None:
        """101."""
        with self._translated():
            return await self._client.kv_get(namespace, key)

    async def values(self, namespace: str) -> dict[str, str]:
        """219."""
        with self._translated():
            return await self._client.kv_list(namespace)

    async def delete_topic(self, topic: str) -> list[str]:
        """216."""
        return _failed(await self._client.delete_topic(topic))

    async def put_value(self, namespace: str, key: str, value: str) -> list[str]:
        """100."""
        return _failed(await self._client.kv_put(namespace, key, value))

    async def delete_value(self, namespace: str, key: str) -> list[str]:
        """102."""
        return _failed(await self._client.kv_delete(namespace, key))

    async def _resolve(self, address: str) -> tuple[str, ...]:
        """Return the numeric hosts of a broker's address; a host name is resolved once a minute."""
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        try:
            return (str(ipaddress.ip_address(host)),)
        except ValueError:
            pass
        loop = asyncio.get_running_loop()
        known = self._hosts.get(address)
        if known is not None and loop.time() < known[0]:
            return known[1]
        try:
            infos = await loop.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        except (OSError, ValueError):
            return known[1] if known else ()
        hosts = tuple(sorted({str(info[4][0]) for info in infos}))
        self._hosts.keep(address, (loop.time() + RESOLVE_SECONDS, hosts))
        return hosts

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except BrokerRefused as error:
            raise StoreRefused(int(error.code), error.remark) from error
        except LinkError as error:
            raise _away(_ALL, error) from error


def _away(peer: str, error: LinkError) -> PeerAway:
    if isinstance(error, UnreadableAnswer):
        return Unusable(peer, str(error))
    return PeerAway(peer, error.sent, str(error))


def _route(data: TopicRouteData) -> RouteData:
    """Convert a route. Raises Unusable for a route with too many queues to keep in memory."""
    for counts in (
        [one.write_queue_nums for one in data.queue_datas],
        [one.read_queue_nums for one in data.queue_datas],
    ):
        if (total := sum(max(count, 0) for count in counts)) > QUEUES_MAX:
            detail = f"the nameservers tell of {total} queues of one topic, at most {QUEUES_MAX} are taken"
            raise Unusable(_ALL, detail)
    queues = tuple(
        QueueData(one.broker_name, one.read_queue_nums, one.write_queue_nums, one.perm)
        for one in data.queue_datas
    )
    addresses = {
        one.broker_name: one.broker_addrs[MASTER_ID]
        for one in data.broker_datas
        if MASTER_ID in one.broker_addrs
    }
    slaves = {
        one.broker_name: {number: address for number, address in sorted(one.broker_addrs.items()) if number}
        for one in data.broker_datas
        if len(one.broker_addrs) > (MASTER_ID in one.broker_addrs)
    }
    return RouteData(queues, addresses, slaves)


def _failed(answers: Answers) -> list[str]:
    """Return the nameservers that did not accept a write. One that had nothing to delete accepted it."""
    return [
        address
        for address, answer in answers.items()
        if isinstance(answer, LinkError)
        or (isinstance(answer, BrokerRefused) and answer.code != ResponseCode.QUERY_NOT_FOUND)
    ]
