"""LitePullConsumer: returns messages on request; its queues are shared with the group, or assigned explicitly.

It prefetches in the background. A message counts as consumed when `poll` returned it and its offset was committed:
by `commit`, or every few seconds with `auto_commit`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, Self, Unpack, cast

from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.bodies.clients import ConsumerData, ConsumeType, MessageModel
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command
from gantrymq.connection.instance import ClientInstance
from gantrymq.connection.members import check_group_name
from gantrymq.connection.pushes import PushAnswer
from gantrymq.consumer.lite.answers import answer
from gantrymq.consumer.lite.reading import LiteReading
from gantrymq.consumer.lite.settings import LiteOptions, LiteSettings
from gantrymq.consumer.shared.settings import check_whole
from gantrymq.consumer.subscriptions.making import check_sql, find_routes, make_subscription
from gantrymq.consumer.subscriptions.naming import shown_queues, time_ms, wire_queue
from gantrymq.consumer.subscriptions.subscription import Subscription
from gantrymq.errors import ConfigurationError, NotRunning, sdk_error
from gantrymq.formats.namespaces import wrap
from gantrymq.machine import wall_ms
from gantrymq.message import MessageQueue, ReceivedMessage
from gantrymq.settings import check_number, client_settings, make_settings, split_options


class LitePullConsumer:
    """Polls messages. Either `subscribe` to topics, whose queues the group shares, or `assign` queues; not both."""

    def __init__(self, group: str, **options: Unpack[LiteOptions]) -> None:
        check_group_name(group)
        of_client, own = split_options(cast("dict[str, Any]", options))
        self.group = group
        self.settings: LiteSettings = make_settings(LiteSettings, own)
        self._client_settings = client_settings(of_client)
        self._wire_group = wrap(self._client_settings.namespace, group)
        self._subscriptions: dict[str, Subscription] = {}
        self._assigned: dict[str, Subscription] = {}
        self._assigned_queues: list[MessageQueue] = []
        self._instance: ClientInstance | None = None
        self._reading: LiteReading | None = None
        self._started_ms = 0
        self._is_starting = self._is_wanted = False
        """Whether `start` is in progress, and whether it was called after `close`."""

    # Subscriptions

    def subscribe(self, topic: str, expression: str = "*", *, sql: str | None = None) -> None:
        """Read this member's share of a topic's queues: all messages, or those of some tags or of an SQL92 condition."""
        if self._assigned:
            raise ConfigurationError("subscribe: queues are assigned already; use one of the two")
        now_ms = wall_ms(self._client_settings.machine)
        made = make_subscription(self._client_settings.namespace, topic, expression, sql, now_ms)
        self._subscriptions[made.topic] = made.after(self._subscriptions.get(made.topic))
        if self._reading is not None:
            self._reading.subscriptions_changed()

    async def assign(
        self, queues: Iterable[MessageQueue], expression: str = "*", *, sql: str | None = None
    ) -> None:
        """Read only these queues, whatever other members read."""
        if self._subscriptions:
            raise ConfigurationError("assign: topics are subscribed already; use one of the two")
        now_ms = wall_ms(self._client_settings.machine)
        self._assigned_queues = sorted({self._wire(queue) for queue in queues})
        self._assigned.update(
            {
                queue.topic: make_subscription("", queue.topic, expression, sql, now_ms)
                for queue in self._assigned_queues
            }
        )
        if self._reading is not None:
            await self._reading.assign(self._assigned_queues)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic, to choose from for `assign`."""
        if self._instance is None:
            raise NotRunning(f"group {self.group}: start the consumer first")
        namespace = self._client_settings.namespace
        return shown_queues(namespace, await self._instance.subscribe_queues(wrap(namespace, topic)))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are currently read."""
        return shown_queues(self._client_settings.namespace, self._at_work().assigned.queues)

    # Start and close

    async def start(self) -> None:
        """Start to prefetch. On a GantryError nothing runs."""
        if self._reading is not None or self._is_starting:
            raise ConfigurationError(f"group {self.group}: the consumer has been started already")
        if not self._subscriptions and not self._assigned:
            raise ConfigurationError("nothing to read: call subscribe or assign before start")
        self._is_starting = self._is_wanted = True
        try:
            self._instance = instance = await ClientInstance.acquire(self._client_settings)
            await self._begin(instance)
        except BaseException:
            await self.close()
            raise
        finally:
            self._is_starting = False

    async def close(self) -> None:
        """Stop reading; commit, if `auto_commit`; leave the group."""
        self._is_wanted = False
        is_here = self._instance is None or self._instance.is_here(f"the consumer of group {self.group}")
        reading, self._reading = self._reading, None
        instance, self._instance = self._instance, None
        if instance is None or not is_here:
            return
        try:
            if reading is not None:
                await reading.close()
        finally:
            await instance.leave(self._wire_group, self)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    # Reading

    async def poll(self, timeout: float = 5.0, *, max_messages: int | None = None) -> list[ReceivedMessage]:
        """Return messages of one queue, in order; an empty list if none came within `timeout` seconds."""
        check_number("timeout", timeout, 0, 86_400)
        count = self.settings.poll_batch_size if max_messages is None else max_messages
        check_whole("max_messages", count, 1, 1024)
        return await self._at_work().poll(timeout, count)

    async def commit(self, queues: Collection[MessageQueue] | None = None) -> None:
        """Commit this consumer's offsets of all queues or of some; returns when the brokers have them.

        Raises TimedOut, ConnectionFailed, Refused or NoRoute if a broker did not save them: commit again. ConfigurationError for a
        queue that is not assigned.
        """
        await self._at_work().commit(None if queues is None else [self._wire(queue) for queue in queues])

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message that `poll` returns from a queue."""
        return self._at_work().position(self._wire(queue))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's offset of a queue at the broker, None if there is none."""
        reading = self._at_work()
        try:
            return await reading.offsets.read(self._wire(queue))
        except (BrokerRefused, LinkError, WireError) as error:
            raise sdk_error(error, f"querying the offset of {queue}") from error

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset; prefetched messages of the queue are dropped."""
        check_whole("offset", offset, 0, 2**63 - 1)
        self._at_work().seek(self._wire(queue), offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue with the oldest message of a queue."""
        self.seek(queue, await self._bound(queue, at_end=False))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue with the next new message."""
        self.seek(queue, await self._bound(queue, at_end=True))

    async def offset_at(self, queue: MessageQueue, when: datetime) -> int:
        """Return the offset of the first message stored at a time or later."""
        queue, begin_ms = self._wire(queue), time_ms(when)
        store = self._at_work().store_to_pull(queue.broker)
        try:
            return await store.search_offset(queue.topic, queue.queue_id, begin_ms)
        except (BrokerRefused, LinkError, WireError) as error:
            raise sdk_error(error, f"searching {queue} by time") from error

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop returning messages of these queues."""
        self._at_work().pause([self._wire(queue) for queue in queues])

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Return messages of these queues again."""
        self._at_work().resume([self._wire(queue) for queue in queues])

    # Interface to the client and to brokers

    def heartbeat(self) -> ConsumerData:
        """Return its part of the heartbeat."""
        return ConsumerData(
            group_name=self._wire_group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=self.settings.start,
            subscription_data_set=[each.data() for each in self._subscriptions.values()],
        )

    def rebalance_soon(self) -> None:
        """React to a change of the group or the brokers."""
        if self._reading is not None:
            self._reading.rebalancer.soon()

    def connection_lost(self, broker: str) -> None:
        """React to the loss of the connection to a broker."""
        if self._reading is not None:
            self._reading.offsets.write_again(broker)
            self._reading.rebalancer.soon()

    def handle_push(self, command: Command, address: str) -> PushAnswer:
        """Answer a broker's request about the group."""
        del address
        return answer(self._at_work(), self._started_ms, command)

    async def _begin(self, instance: ClientInstance) -> None:
        chosen = self._subscriptions or self._assigned
        await find_routes(instance, chosen)
        await check_sql(instance, self._wire_group, chosen)
        is_member = bool(self._subscriptions)
        namespace = self._client_settings.namespace
        reading = LiteReading(instance, self._wire_group, namespace, self.settings, chosen)
        self._started_ms = wall_ms(self._client_settings.machine)
        if is_member and self._is_wanted:
            instance.register_consumer(self._wire_group, self)
            await instance.make_known()
        if not self._is_wanted:
            raise NotRunning(f"group {self.group}: the consumer was closed while it started")
        reading.start(shares_queues=is_member)
        self._reading = reading
        await reading.assign(self._assigned_queues)

    def _at_work(self) -> LiteReading:
        if self._reading is None:
            raise NotRunning(f"group {self.group}: start the consumer first, or use it with `async with`")
        return self._reading

    def _wire(self, queue: MessageQueue) -> MessageQueue:
        return wire_queue(self._client_settings.namespace, queue)

    async def _bound(self, queue: MessageQueue, *, at_end: bool) -> int:
        queue = self._wire(queue)
        store = self._at_work().store_to_pull(queue.broker)
        try:
            return await (store.max_offset if at_end else store.min_offset)(queue.topic, queue.queue_id)
        except (BrokerRefused, LinkError, WireError) as error:
            raise sdk_error(error, f"querying the bounds of {queue}") from error
