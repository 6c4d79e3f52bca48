"""Registers this broker and its topics with every nameserver.

Does so regularly, at once when a topic changes, and as soon as a lost connection returns.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from broker_store.commit.topics import TopicTable
from gantry_chassis.logs.structured import get_logger
from gantry_link.clients.nameservers import NameserverClient, Registered
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import LinkError
from gantry_wire.bodies.cluster import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicRouteData,
)
from gantry_wire.headers.nameserver import BrokerIdentityHeader, RegisterBrokerHeader

WATCH_SECONDS = 0.5
"""Interval of checks for lost and returned nameservers."""
KNOWN_SECONDS_MAX = 1.0
"""Longest wait of an answer about a topic for nameservers. RocketMQ's own waits up to 24 s."""
ROUTE_SUBJECT = "gantry.route."
PERM_RW = 6

_log = get_logger()


class Identity(NamedTuple):
    """Identity of this broker."""

    cluster_name: str
    broker_name: str
    address: str
    ha_address: str
    broker_id: int = 0
    epoch: int = 0
    """Of the leader, which nameservers compare; 0 for a store without replicas."""


class Registration:
    """Keeps this broker registered."""

    def __init__(
        self,
        pool: ConnectionPool,
        nameservers: str,
        identity: Identity,
        topics: TopicTable,
        *,
        broker_permission: int,
        every_seconds: float,
        publish: Callable[[str], None],
    ) -> None:
        self._pool = pool
        self._client = NameserverClient(pool, nameservers)
        self._identity = identity
        self._topics = topics
        self._every_seconds = every_seconds
        self._publish = publish
        self._wake = asyncio.Event()
        self._changed: set[str] = set()
        self._waiting: list[asyncio.Future[None]] = []
        """Waiters for the next registration."""
        self._under_way: list[asyncio.Future[None]] | None = None
        """Waiters for the running registration, None when none runs."""
        self._one_at_a_time = asyncio.Lock()
        """The start registers, and so does the loop: the registration that includes the topic completes its waiters."""
        self._has_left = False
        """Registers nothing any more, though the loop runs until the stop is complete."""
        self._failing: set[str] = set()
        self._broker_permission = broker_permission
        self.registrations = 0
        self.failures = 0

    def topic_changed(self, topic: str) -> None:
        """Register at the end of this turn, and publish a hint that the topic's route changed."""
        self._changed.add(topic)
        self._wake.set()

    def set_broker_permission(self, permission: int) -> None:
        """Register the topics with what the broker's permission leaves of theirs."""
        self._broker_permission = permission
        self.topic_changed("")

    def when_known(self, answer: Callable[[], None]) -> None:
        """Call `answer` once nameservers have the current topics, or after KNOWN_SECONDS_MAX.

        A client that creates a topic requests its route within a millisecond. A RocketMQ consumer that
        finds none retries only after 30 s.
        """
        waiting = self._waiting if self._changed else self._under_way
        if waiting is None:
            answer()
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        latest = loop.call_later(KNOWN_SECONDS_MAX, _complete, waiter)
        waiter.add_done_callback(lambda _: (latest.cancel(), answer()))
        waiting.append(waiter)

    async def route(self, topic: str) -> TopicRouteData:
        """Return a topic's queues at all brokers. Raises LinkError, and BrokerRefused if no nameserver knows the topic."""
        return await self._client.route(topic)

    async def run(self) -> None:
        """Register until cancelled."""
        last_s = -self._every_seconds
        loop = asyncio.get_running_loop()
        while True:
            if (
                self._wake.is_set()
                or loop.time() - last_s >= self._every_seconds
                or await self._has_lost_one()
            ):
                self._wake.clear()
                last_s = loop.time()
                await self.register()
            try:
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def register(self) -> bool:
        """Register with all nameservers once, after a running registration. True when every one accepted."""
        async with self._one_at_a_time:
            changed, self._changed = self._changed, set()
            under_way = self._under_way = self._waiting
            self._waiting = []
            try:
                return not self._has_left and await self._register(changed)
            finally:
                self._under_way = None
                for waiter in under_way:
                    _complete(waiter)

    async def _register(self, changed: set[str]) -> bool:
        identity = self._identity
        header = RegisterBrokerHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster_name,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
        )
        try:
            answers = await self._client.register_broker(header, self._body())
        except LinkError as error:
            answers = {"": error}
        for address, answer in answers.items():
            self._note(address, answer)
        for topic in sorted(changed):
            self._publish(ROUTE_SUBJECT + topic)
        return all(isinstance(answer, Registered) for answer in answers.values())

    async def unregister(self) -> None:
        """Unregister this broker. A nameserver that cannot be reached finds out by itself."""
        self._has_left = True
        identity = self._identity
        header = BrokerIdentityHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster_name,
            broker_id=identity.broker_id,
        )
        try:
            async with asyncio.timeout(WATCH_SECONDS):
                await self._client.unregister_broker(header)
        except (LinkError, TimeoutError):
            return

    def _body(self) -> RegisterBrokerBody:
        topics = {
            name: self._masked(topic)
            for name, topic in self._topics.all().items()
            if not self._topics.is_internal(name)
        }
        version = self._topics.version.value
        if self._identity.epoch:
            version = DataVersion(
                counter=version.counter, state_version=self._identity.epoch, timestamp=version.timestamp
            )
        wrapper = TopicConfigSerializeWrapper(data_version=version, topic_config_table=topics)
        return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)

    def _masked(self, topic: TopicConfig) -> TopicConfig:
        if self._broker_permission == PERM_RW:
            return topic
        return TopicConfig(
            topic_name=topic.topic_name,
            perm=topic.perm & self._broker_permission,
            read_queue_nums=topic.read_queue_nums,
            write_queue_nums=topic.write_queue_nums,
            topic_filter_type=topic.topic_filter_type,
            topic_sys_flag=topic.topic_sys_flag,
            order=topic.order,
            attributes=topic.attributes,
        )

    async def _has_lost_one(self) -> bool:
        try:
            addresses = await self._client.addresses.current()
        except LinkError:
            return False
        return any(self._pool.get_nowait(address) is None for address in addresses)

    def _note(self, address: str, answer: object) -> None:
        """Log a nameserver's first failure and its recovery, but not every try."""
        if isinstance(answer, Registered):
            self.registrations += 1
            if address in self._failing:
                self._failing.discard(address)
                _log.info("nameserver is back", nameserver=address)
            return
        self.failures += 1
        if address not in self._failing:
            self._failing.add(address)
            _log.warning("cannot register with nameserver", nameserver=address, reason=str(answer))


def _complete(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
