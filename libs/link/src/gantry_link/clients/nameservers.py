"""The typed client of all nameservers: sends changes to every one and queries to one, with failover.

Nameservers never talk to each other, so one that has just started knows less than the others. If one does not know the answer,
the client asks the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from gantry_link.calling.store_calls import Fields, StoreCalls
from gantry_link.clients.nameserver_addresses import Addresses
from gantry_link.connections.connection import REQUEST_SECONDS
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError, NotConnected, RequestTimedOut, UnreadableAnswer
from gantry_wire.bodies.cluster import (
    ClusterInfo,
    DataVersion,
    KVTable,
    RegisterBrokerBody,
    TopicList,
    TopicRouteData,
)
from gantry_wire.bodies.config_text import format_config_text, parse_config_text
from gantry_wire.bodies.json_body import BodyT, decode_body, encode_body
from gantry_wire.bodies.register_broker import body_crc, encode_register_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command
from gantry_wire.headers.nameserver import (
    BrokerHeartbeatHeader,
    BrokerIdentityHeader,
    BrokerNameHeader,
    ClusterHeader,
    DeleteTopicInNamesrvHeader,
    KvKeyHeader,
    KvValueReplyHeader,
    NamespaceHeader,
    PutKvConfigHeader,
    QueryDataVersionReplyHeader,
    RegisterBrokerHeader,
    RegisterBrokerReplyHeader,
    RouteHeader,
)

T = TypeVar("T")

UNKNOWN = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.QUERY_NOT_FOUND})
"""Codes after which another nameserver may know the answer."""


FAILOVER_SECONDS = 1.0
"""Time until the client asks the next of several nameservers, so that a hanging one does not cost a whole time-out."""


class Registered(NamedTuple):
    """A nameserver's answer to a registration: the master's addresses for a slave, and the order configuration."""

    reply: RegisterBrokerReplyHeader
    order_config: dict[str, str]


Answers = dict[str, Command | BrokerRefused | LinkError]
"""Answer or error by nameserver address."""


class NameserverClient:
    """All nameservers of a cluster. Several tasks may use it at once."""

    def __init__(
        self,
        pool: ConnectionPool,
        addresses: str | Sequence[str] | Addresses,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._pool = pool
        self.addresses: Addresses = addresses if isinstance(addresses, Addresses) else Addresses(addresses)
        self._timeout_seconds = timeout_seconds
        self._first = pool.rng.randrange(1 << 16)  # spreads clients over nameservers

    # Queries to one nameserver, with failover

    async def route(self, topic: str) -> TopicRouteData:
        """105: return the route of a topic. Raises BrokerRefused with code 17 if no nameserver knows the topic."""
        header = RouteHeader(topic=topic, accept_standard_json_only=True)
        return await self._ask_any(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, _body_of(TopicRouteData))

    async def cluster_info(self) -> ClusterInfo:
        """106: brokers by name, broker names by cluster."""
        return await self._ask_any(RequestCode.GET_BROKER_CLUSTER_INFO, None, _body_of(ClusterInfo))

    async def topics(self) -> list[str]:
        """206: every topic."""
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        return (await self._ask_any(code, None, _body_of(TopicList))).topic_list

    async def topics_of_cluster(self, cluster: str) -> list[str]:
        """224: the topics of one cluster."""
        header = ClusterHeader(cluster=cluster)
        return (
            await self._ask_any(RequestCode.GET_TOPICS_BY_CLUSTER, header, _body_of(TopicList))
        ).topic_list

    async def kv_get(self, namespace: str, key: str) -> str | None:
        """101: return a value of the KV configuration, or None."""
        header = KvKeyHeader(namespace=namespace, key=key)
        try:
            return await self._ask_any(RequestCode.GET_KV_CONFIG, header, _value_of)
        except BrokerRefused as refused:
            if refused.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """219: return all keys and values of a namespace."""
        header = NamespaceHeader(namespace=namespace)
        try:
            return (await self._ask_any(RequestCode.GET_KVLIST_BY_NAMESPACE, header, _body_of(KVTable))).table
        except BrokerRefused as refused:
            if refused.code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise

    # Changes to every nameserver

    async def register_broker(
        self, header: RegisterBrokerHeader, body: RegisterBrokerBody
    ) -> dict[str, Registered | BrokerRefused | LinkError]:
        """103: register a broker and its topics with every nameserver. Sets the CRC and compresses the body if the header says so."""
        data = encode_register_body(body, compressed=header.compressed)
        header.body_crc32 = body_crc(data)
        answers = await self.ask_each(RequestCode.REGISTER_BROKER, header, data)
        return {
            address: _registered(address, answer) if isinstance(answer, Command) else answer
            for address, answer in answers.items()
        }

    async def unregister_broker(self, header: BrokerIdentityHeader) -> Answers:
        """104: unregister a broker."""
        return await self.ask_each(RequestCode.UNREGISTER_BROKER, header)

    async def heartbeat(self, header: BrokerHeartbeatHeader) -> Answers:
        """904: send a heartbeat of a broker whose topics are unchanged."""
        return await self.ask_each(RequestCode.BROKER_HEARTBEAT, header)

    async def data_version_changed(
        self, header: BrokerIdentityHeader, version: DataVersion
    ) -> dict[str, bool]:
        """322: return by address whether the nameserver has another version of the broker's topics; True if unknown."""
        answers = await self.ask_each(RequestCode.QUERY_DATA_VERSION, header, encode_body(version))
        return {
            address: answer.read(QueryDataVersionReplyHeader).changed if isinstance(answer, Command) else True
            for address, answer in answers.items()
        }

    async def delete_topic(self, topic: str, cluster: str | None = None) -> Answers:
        """216: delete a topic, or its queues in one cluster."""
        header = DeleteTopicInNamesrvHeader(topic=topic, cluster_name=cluster)
        return await self.ask_each(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)

    async def wipe_write_perm(self, broker_name: str) -> Answers:
        """205: remove the write permission of all topics of a broker."""
        return await self.ask_each(
            RequestCode.WIPE_WRITE_PERM_OF_BROKER, BrokerNameHeader(broker_name=broker_name)
        )

    async def add_write_perm(self, broker_name: str) -> Answers:
        """327: restore the write permission of all topics of a broker."""
        return await self.ask_each(
            RequestCode.ADD_WRITE_PERM_OF_BROKER, BrokerNameHeader(broker_name=broker_name)
        )

    async def kv_put(self, namespace: str, key: str, value: str) -> Answers:
        """100: set a value of the KV configuration."""
        header = PutKvConfigHeader(namespace=namespace, key=key, value=value)
        return await self.ask_each(RequestCode.PUT_KV_CONFIG, header)

    async def kv_delete(self, namespace: str, key: str) -> Answers:
        """102: delete a value of the KV configuration."""
        return await self.ask_each(RequestCode.DELETE_KV_CONFIG, KvKeyHeader(namespace=namespace, key=key))

    async def configs(self) -> dict[str, dict[str, str]]:
        """319: return the settings of each nameserver that answers, by address."""
        answers = await self.ask_each(RequestCode.GET_NAMESRV_CONFIG)
        return {
            address: parse_config_text(answer.body)
            for address, answer in answers.items()
            if isinstance(answer, Command)
        }

    async def update_config(self, settings: dict[str, str]) -> Answers:
        """318: change settings of every nameserver."""
        return await self.ask_each(RequestCode.UPDATE_NAMESRV_CONFIG, None, format_config_text(settings))

    async def ask_each(self, code: int, header: Fields = None, body: bytes = b"") -> Answers:
        """Ask every nameserver concurrently. Never raises for one of them: returns its error instead."""
        addresses = await self.addresses.current()
        answers = await asyncio.gather(*(self._ask_one(address, code, header, body) for address in addresses))
        return dict(zip(addresses, answers, strict=True))

    async def _ask_one(
        self, address: str, code: int, header: Fields, body: bytes, seconds: float | None = None
    ) -> Command | BrokerRefused | LinkError:
        try:
            return await StoreCalls(self._pool, address, seconds or self._timeout_seconds).ask(
                code, header, body
            )
        except (BrokerRefused, LinkError) as error:
            return error

    async def _ask_soon(
        self, address: str, code: int, header: Fields, seconds: float
    ) -> Command | BrokerRefused | LinkError:
        """Ask one nameserver, over a connection that is made within this time too: a machine that is gone refuses none."""
        try:
            async with asyncio.timeout(seconds):
                await self._pool.get(address)
        except TimeoutError:
            return RequestTimedOut(f"no connection to {address} within {seconds:g} s", sent=False)
        except LinkError as error:
            return error
        return await self._ask_one(address, code, header, b"", seconds)

    async def _ask_any(self, code: int, header: Fields, read: Callable[[Command], T]) -> T:
        """Ask one nameserver. Ask the next if it is unreachable, slow, unreadable or does not know.

        Ask the slow ones once more with the full time-out before the query fails.
        """
        addresses = await self.addresses.current()
        seconds = (
            min(FAILOVER_SECONDS, self._timeout_seconds) if len(addresses) > 1 else self._timeout_seconds
        )
        failure, silent = await self._ask_in_turn(addresses, code, header, seconds, read)
        if isinstance(failure, LinkError) and silent and seconds < self._timeout_seconds:
            failure, _ = await self._ask_in_turn(silent, code, header, self._timeout_seconds, read)
        if isinstance(failure, BrokerRefused | LinkError):
            raise failure
        return failure[0]

    async def _ask_in_turn(
        self,
        addresses: Sequence[str],
        code: int,
        header: Fields,
        seconds: float,
        read: Callable[[Command], T],
    ) -> tuple[tuple[T] | BrokerRefused | LinkError, list[str]]:
        """Return the content of the first answer or the failure, and the addresses that timed out."""
        failure: BrokerRefused | LinkError = NotConnected("no nameserver is known")
        silent: list[str] = []
        first = self._first
        for n in range(len(addresses)):
            index = (first + n) % len(addresses)
            address = addresses[index]
            answer = await self._ask_soon(address, code, header, seconds)
            if isinstance(answer, Command):
                try:
                    content = (read(answer),)
                except WireError as error:
                    answer = _unreadable(address, error)
                else:
                    if not isinstance(failure, BrokerRefused):
                        self._first = index  # stay with the one that answers
                    return content, silent
            if isinstance(answer, BrokerRefused):
                if answer.code not in UNKNOWN:
                    return answer, silent
                failure = answer
                continue
            if isinstance(answer, RequestTimedOut):
                silent.append(addresses[index])
            if not isinstance(failure, BrokerRefused | UnreadableAnswer):
                failure = answer  # a nameserver that answered says more than an unreachable one
        return failure, silent


def _body_of(kind: type[BodyT]) -> Callable[[Command], BodyT]:
    """Return a function that decodes the body of an answer to this type. It raises MalformedBody."""
    return lambda answer: decode_body(answer.body, kind)


def _value_of(answer: Command) -> str | None:
    return answer.read(KvValueReplyHeader).value


def _registered(address: str, answer: Command) -> Registered | LinkError:
    try:
        table = decode_body(answer.body, KVTable).table if answer.body else {}
        return Registered(answer.read(RegisterBrokerReplyHeader), table)
    except WireError as error:
        return _unreadable(address, error)


def _unreadable(address: str, error: WireError) -> UnreadableAnswer:
    return UnreadableAnswer(f"the nameserver {address} sent an unreadable answer: {error}")
