"""A client of a cluster in an event loop: connections, routes, heartbeats, and requests from brokers. Shared by its producers and consumers.

Owns every connection and background task of the SDK. Does not know messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gantry_link.calling.store_calls import SMALL
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.clients.store import StoreClient
from gantry_link.connections.connection import Connection, split_address
from gantry_link.connections.per_loop import PerLoop
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import LinkError
from gantry_wire.bodies.cluster import TopicRouteData
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command
from gantrymq.connection.acl import Signer
from gantrymq.connection.heartbeats import Heartbeats
from gantrymq.connection.masters import Masters
from gantrymq.connection.members import ConsumerMember, GroupMember, Members
from gantrymq.connection.pushes import PushAnswer, Pushes, PushHandler, PushReply
from gantrymq.connection.replies import Replies
from gantrymq.connection.routing import Routing
from gantrymq.connection.transaction_checks import producer_group_of
from gantrymq.errors import ConnectionFailed, NoRoute
from gantrymq.message import MessageQueue
from gantrymq.settings import DEFAULT_INSTANCE, ClientSettings
from gantrymq.tls import check_tls

log: logging.Logger = logging.getLogger("gantrymq")
VIP_OFFSET = 2
_GROUP_FIELDS = ("group", "consumerGroup")
ConnectionEvent = Callable[[str], None]
"""Called with the address of a broker whose connection was made or lost."""


class ClientInstance:
    """Created by `acquire`, shared by all users of equal settings in a loop, closed by the last `release`."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.client_id: str = ""
        self._loop = asyncio.get_running_loop()
        self._process = settings.machine.process_id
        signer = Signer(settings.access_key, settings.secret_key, settings.security_token)
        self.signer: Signer | None = signer if settings.access_key else None
        self.pushes: Pushes = Pushes()
        self.pool: ConnectionPool = ConnectionPool(
            on_push=self.pushes.receive, connect_seconds=settings.connect_timeout, rng=settings.machine.rng,
            sign=self.signer, on_connected=self._connected, on_lost=self._lost,
            tls=check_tls(settings.tls_files) if settings.tls else None,
        )  # fmt: skip
        self.nameservers: NameserverClient = NameserverClient(
            self.pool, settings.nameservers, settings.request_timeout
        )
        self.routing: Routing = Routing(self.nameservers)
        self.members: Members = Members()
        self.connected: list[ConnectionEvent] = []
        self.lost: list[ConnectionEvent] = []
        self._heartbeats = Heartbeats(self.pool, self.routing, self.members, settings)
        self._users = 0
        self._starting = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self.routing.changed.append(self._route_changed)
        self.routing.moved.append(self._master_moved)
        self._masters = Masters(self.pool, self.routing)
        self.replies: Replies = Replies(settings.namespace, settings.machine.secret_bytes)
        self.pushes.on(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self.replies.receive)
        for code in (39, 40, 220, 221, 307, 309):
            self.pushes.on(code, self._group_push)

    @classmethod
    async def acquire(cls, settings: ClientSettings) -> ClientInstance:
        """Return the started client of these settings in this loop. Every call needs its `release`."""
        shared = _instances.current()
        instance = shared.get(settings)
        if instance is None:
            instance = shared[settings] = cls(settings)
        instance._users += 1
        try:
            async with instance._starting:
                if not instance._tasks:
                    await instance._start()
        except BaseException:
            await instance.release()
            raise
        return instance

    def is_here(self, whose: str) -> bool:
        """Whether this is the loop of the client; False if that loop is closed, or a fork has left it behind.

        Raises ConnectionFailed if it runs elsewhere: `whose` cannot be closed from here.
        """
        if self._loop is asyncio.get_running_loop():
            return True
        if self._process == self.settings.machine.process_id and not self._loop.is_closed():
            raise ConnectionFailed(f"{whose} belongs to another event loop: close it there", sent=False)
        return False

    async def release(self) -> None:
        """Release the client; the last release closes its connections."""
        self._users -= 1
        if self._users > 0:
            return
        shared = _instances.current()
        if shared.get(self.settings) is self:
            del shared[self.settings]
        for task in self._tasks:
            task.cancel()
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.pushes.close()
            await self.routing.close()
        finally:
            await self.pool.close()

    # Routes and addresses

    async def route(self, topic: str, *, fresh: bool = False) -> TopicRouteData:
        """Return a topic's route, queried if it is unknown or `fresh`; NoRoute, ConnectionFailed."""
        return await self.routing.route(topic, fresh=fresh)

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages of a topic go to; NoRoute, ConnectionFailed."""
        return await self.routing.publish_queues(topic)

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that a topic is read from; NoRoute, ConnectionFailed."""
        return await self.routing.subscribe_queues(topic)

    def brokers(self) -> list[str]:
        """Return the names of all known brokers."""
        return self.routing.brokers()

    def broker_address(self, broker: str, *, slave_ok: bool = False) -> str:
        """Return a broker's master address, with `slave_ok` any of its addresses; NoRoute if there is none."""
        found = self.routing.addresses(broker, slaves=slave_ok)
        if not found:
            raise NoRoute(f"broker {broker} is unknown, or has no master now")
        return found[0]

    def send_address(self, broker: str) -> str:
        """Return the send address of a broker: its master, or the VIP listener next to it."""
        address = self.broker_address(broker)
        if not self.settings.vip_channel:
            return address
        host, port = split_address(address)
        return f"{host if ':' not in host else f'[{host}]'}:{port - VIP_OFFSET}"

    def store(self, broker: str) -> StoreClient:
        """Return typed calls to a broker's master, signed if there is an access key; NoRoute."""
        return self.store_at(self.broker_address(broker))

    def store_at(self, address: str) -> StoreClient:
        """Return typed calls to a broker at an address."""
        return StoreClient(self.pool, address, self.settings.request_timeout)

    # Members

    def register_producer(self, group: str, member: GroupMember) -> None:
        """Add a producer; ConfigurationError if its group already has one in this client."""
        self.members.add_producer(group, member)
        self.heartbeat_soon()

    def register_consumer(self, group: str, member: ConsumerMember) -> None:
        """Add a consumer; ConfigurationError if its group already has one in this client."""
        self.members.add_consumer(group, member)
        self.heartbeat_soon()

    async def unregister(self, group: str, member: object) -> None:
        """Remove a member and unregister it from every broker. Never raises if a broker is down."""
        as_producer, as_consumer = self.members.remove(group, member)
        if as_producer or as_consumer:
            await self._heartbeats.unregister(self.client_id, as_producer, as_consumer)

    async def leave(self, group: str, member: object) -> None:
        """As `unregister`, then `release`: also where who leaves has no time for goodbyes."""
        try:
            await self.unregister(group, member)
        finally:
            await self.release()

    def heartbeat_soon(self) -> None:
        """Send a heartbeat to all brokers soon, because the members changed."""
        self._heartbeats.soon()

    async def make_known(self) -> None:
        """Wait until every reachable broker knows this client: its replies would not reach the client before."""
        if not self._heartbeats.all_informed():
            await self._heartbeats.beat()

    def on_push(self, code: int, handler: PushHandler) -> None:
        """Register a handler for a request of brokers. 39, 40, 220, 221, 307 and 309 go to the member of the group."""
        self.pushes.on(code, handler)

    # Internals

    async def _start(self) -> None:
        ip = await self._own_ip()
        name = self.settings.instance_name
        if name == DEFAULT_INSTANCE:
            machine = self.settings.machine
            name = f"{machine.process_id}#{round(machine.steady() * 1e9)}"
        self.client_id = "@".join(filter(None, (ip, name, self.settings.unit)))
        self._heartbeats.client_id = self.client_id
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._poll_routes(), name="gantry-routes"),
            loop.create_task(self._heartbeats.run(), name="gantry-heartbeats"),
            loop.create_task(self._masters.run(), name="gantry-masters"),
        ]

    async def _own_ip(self) -> str:
        """Return the local address of packets to the nameserver."""
        try:
            host, port = split_address((await self.nameservers.addresses.current())[0])
            probe, _ = await self._loop.create_datagram_endpoint(
                asyncio.DatagramProtocol, remote_addr=(host, port)
            )  # sends nothing
        except (LinkError, OSError):
            return "127.0.0.1"
        try:
            return str(probe.get_extra_info("sockname")[0])
        finally:
            probe.close()

    async def _poll_routes(self) -> None:
        while True:
            await asyncio.sleep(self.settings.route_poll_interval)
            try:
                await self.routing.poll()
            except Exception:
                log.exception("the query of routes failed")

    def _route_changed(self, _topic: str) -> None:
        self._heartbeats.brokers_changed()
        for member in self.members.consumers.values():
            member.rebalance_soon()

    def _master_moved(self, broker: str, _address: str) -> None:
        """Let the members repeat at the new master what the old one may have kept in memory only."""
        self.heartbeat_soon()
        for member in self.members.consumers.values():
            member.connection_lost(broker)

    def _connected(self, connection: Connection, connection_class: str) -> None:
        if connection_class != SMALL or self.routing.broker_of(connection.address) is None:
            return
        self._heartbeats.greet(connection)
        for callback in self.connected:
            callback(connection.address)

    def _lost(self, connection: Connection, connection_class: str) -> None:
        broker = self.routing.broker_of(connection.address)
        if connection_class != SMALL or broker is None:
            return
        self.heartbeat_soon()
        for callback in self.lost:
            callback(connection.address)
        for member in self.members.consumers.values():
            member.connection_lost(broker)

    def _group_push(self, command: Command, address: str) -> PushAnswer:
        """Pass a request about a group to its member."""
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            return self._transaction_check(command, address)
        fields = command.ext
        group = next((fields[name] for name in _GROUP_FIELDS if name in fields), "")
        member = self.members.consumers.get(group)
        if member is None:
            words = f"The Consumer Group <{group}> not exist in this consumer"
            return PushReply(ResponseCode.SYSTEM_ERROR, remark=words)
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            member.rebalance_soon()
            return None
        return member.handle_push(command, address)

    def _transaction_check(self, command: Command, address: str) -> PushAnswer:
        try:
            group = producer_group_of(command)
        except WireError as error:
            log.warning("%s sent an unreadable question about a transaction: %s", address, error)
            return None
        member = self.members.producers.get(group)
        if member is None:
            log.warning("%s asks about a transaction of group %s, which has no producer here", address, group)
            return None
        return member.handle_push(command, address)


_instances: PerLoop[dict[ClientSettings, ClientInstance]] = PerLoop(lambda _loop: {})
