"""The Store port over gantry_link: builds headers, decodes responses, converts link errors into the port's."""

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import msgspec

from gantry_link.calling.send_pattern import SendPattern
from gantry_link.calling.waiting import Waiting
from gantry_link.clients.settling import SettleClient
from gantry_link.clients.store import BatchStored, StoreClient, batch_stored_of, stored_of
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.bodies.cluster import SubscriptionGroupConfig, TopicConfig
from gantry_wire.bounded_cache import BoundedCache
from gantry_wire.frames.command import Command
from gantry_wire.headers.admin import CreateTopicHeader, ResetOffsetHeader
from gantry_wire.headers.messages import PullHeader, QueryMessageHeader, SendHeaderV2
from gantry_wire.messages.batch import BatchItem
from gantry_wire.names import GATEWAY_GROUP, REDRIVE_GROUP, dlq_topic
from gantry_wire.subscription import SQL92, TAG
from gateway.admin.group_options import ORDER, RETRY_POLICY, START
from gateway.ports.stores import (
    GroupSettings,
    PeerAway,
    Pulled,
    QueueBounds,
    QueueProgress,
    Stored,
    StoreOutcome,
    StoreRefused,
    TopicSettings,
)
from gateway.routing.probe import PROBE_TOPIC

PULL_MAY_WAIT, PULL_HAS_FILTER = 2, 4
POSITION_HEX_CHARS = 16
DLQ_QUEUE_ID = 0
"""RocketMQ gives a dead-letter topic one queue."""
SINGLE_TAG = "SINGLE_TAG"
TYPE_ATTRIBUTE = "message.type"
"""RocketMQ's attribute of topics: the type of message that they take."""
PATTERNS_MAX = 16_384
"""Queues whose frame templates are cached, one for each kind of compression."""
STORES_MAX = 1024
"""Stores whose clients are kept: each address that a store ever had counts."""
_DURABLE = "fsync"
_LESS_DURABLE = "stored, but not with the durability asked for"


class LinkStores:
    """Clients by broker and address over one pool of connections."""

    def __init__(self, pool: ConnectionPool, wall_ms: Callable[[], int], timeout_seconds: float) -> None:
        self._pool, self._wall_ms, self._timeout_seconds = pool, wall_ms, timeout_seconds
        self._stores: BoundedCache[tuple[str, str], LinkStore] = BoundedCache(STORES_MAX)
        self._wait_ids = count(1)

    def at(self, broker: str, address: str) -> "LinkStore":
        """Return the client of a broker at an address; creating one costs nothing, its calls open connections."""
        store = self._stores.get((broker, address))
        if store is None:
            client = StoreClient(self._pool, address, self._timeout_seconds)
            settling = SettleClient(self._pool, address, self._timeout_seconds)
            store = LinkStore(broker, client, settling, self._wall_ms, self._wait_ids)
            self._stores.keep((broker, address), store)
        return store

    def leave(self, address: str) -> None:
        """Close the connections to an address, also those of leases and transactions: all share one pool."""
        self._pool.abandon(address, "was left: another replica leads the broker now")


class LinkStore:
    """One broker-store."""

    def __init__(
        self,
        broker: str,
        client: StoreClient,
        settling: SettleClient,
        wall_ms: Callable[[], int],
        wait_ids: Iterator[int],
    ) -> None:
        """`wait_ids` are those of all stores: two brokers may have one address, and so one connection."""
        self._wait_ids = wait_ids
        self._broker, self._client, self._settling, self._wall_ms = broker, client, settling, wall_ms
        self._patterns: BoundedCache[tuple[str, int, int], SendPattern] = BoundedCache(PATTERNS_MAX)

    @property
    def broker(self) -> str:
        """The broker's name."""
        return self._broker

    def send(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: str,
        on_result: Callable[[StoreOutcome], None],
        *,
        sys_flag: int = 0,
        born_ms: int | None = None,
    ) -> None:
        """310."""
        which = (topic, queue_id, sys_flag)
        pattern = self._patterns.get(which)
        if pattern is None:
            pattern = SendPattern(self._send_header(topic, queue_id, sys_flag))
            self._patterns.keep(which, pattern)
        answer = Waiting(_stored, self._failure, on_result)
        self._client.start_send(
            pattern, self._wall_ms() if born_ms is None else born_ms, properties, body, answer
        )

    def send_batch(
        self,
        topic: str,
        queue_id: int,
        messages: Sequence[BatchItem],
        on_result: Callable[[StoreOutcome], None],
        *,
        born_ms: int | None = None,
    ) -> None:
        """320, with a result for each message."""
        header = self._send_header(topic, queue_id)
        header.properties, header.batch, header.per_item = "", True, True
        if born_ms is not None:
            header.born_timestamp = born_ms

        def read(answer: Command) -> StoreOutcome:
            return self._batch_stored(batch_stored_of(answer), len(messages))

        self._client.start_send_batch(header, list(messages), Waiting(read, self._failure, on_result))

    def _batch_stored(self, sent: BatchStored, count: int) -> StoreOutcome:
        if sent.code:
            return StoreRefused(sent.code, _LESS_DURABLE)
        if len(sent.items) != count:
            return PeerAway(self._broker, True, f"{len(sent.items)} results for {count} messages")
        host = sent.reply.msg_id.partition(",")[0][:-POSITION_HEX_CHARS]
        is_durable = sent.reply.durability == _DURABLE
        return [
            Stored(
                f"{host}{item.position:016X}" if item.position >= 0 else "",
                item.uniq_key,
                item.queue_id,
                item.queue_offset,
                is_durable,
                item.duplicate,
                item.code,
                item.gantry_code or "",
            )
            for item in sent.items
        ]

    async def pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        wait_ms: int,
        tags: str,
        *,
        sql: str = "",
    ) -> Pulled:
        """11, from a client that commits no offsets."""
        header = PullHeader(
            consumer_group=GATEWAY_GROUP,
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=count_max,
            sys_flag=PULL_HAS_FILTER | (PULL_MAY_WAIT if wait_ms else 0),
            suspend_timeout_millis=wait_ms,
            subscription=sql or tags or "*",
            expression_type=SQL92 if sql else TAG,
            wide=True,
            browse=True,
            wait_id=next(self._wait_ids) if wait_ms else None,
        )
        with self._translated():
            try:
                answer = await self._client.pull(header)
            except asyncio.CancelledError:
                if header.wait_id is not None:
                    self._client.end_pull(header.wait_id)
                raise
        return Pulled(
            answer.code,
            answer.next_offset,
            answer.min_offset,
            answer.max_offset,
            answer.records,
            answer.suggested_broker_id,
        )

    async def message_at(self, position: int) -> bytes:
        """33."""
        with self._translated():
            return await self._client.view_message(position)

    async def messages_by_key(
        self, topic: str, key: str, begin_ms: int, end_ms: int, count_max: int, *, is_unique: bool
    ) -> bytes:
        """12, over the index."""
        header = QueryMessageHeader(
            topic=topic,
            key=key,
            max_num=count_max,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=True if is_unique else None,
        )
        with self._translated():
            return await self._client.query_messages(header)

    async def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """29."""
        with self._translated():
            return await self._client.search_offset(topic, queue_id, timestamp_ms)

    async def queue_bounds(self, topic: str) -> list[QueueBounds]:
        """202."""
        with self._translated():
            table = (await self._client.topic_stats(topic)).offset_table
        return sorted(
            QueueBounds(queue.queue_id, one.min_offset, one.max_offset) for queue, one in table.items()
        )

    async def put_topic(self, settings: TopicSettings) -> None:
        """17."""
        header = CreateTopicHeader(
            topic=settings.topic,
            default_topic="",
            read_queue_nums=settings.read_queues,
            write_queue_nums=settings.write_queues,
            perm=settings.perm,
            topic_filter_type=SINGLE_TAG,
            topic_sys_flag=0,
            attributes=f"+{TYPE_ATTRIBUTE}={kind}"
            if (kind := settings.message_type)
            else f"-{TYPE_ATTRIBUTE}",
        )
        with self._translated():
            await self._client.create_topic(header)

    async def delete_topic(self, topic: str) -> None:
        """215."""
        with self._translated():
            await self._client.delete_topic(topic)

    async def topic(self, topic: str) -> TopicSettings:
        """351."""
        with self._translated():
            return _topic(await self._client.topic(topic))

    async def topics(self) -> list[TopicSettings]:
        """21."""
        with self._translated():
            table = (await self._client.topics()).topic_config_table
        return [_topic(one) for one in table.values()]

    async def groups(self) -> list[GroupSettings]:
        """201."""
        with self._translated():
            table = (await self._client.groups()).subscription_group_table
        return [
            GroupSettings(
                name,
                one.consume_enable,
                one.consume_broadcast_enable,
                one.retry_max_times,
                one.retry_queue_nums,
                one.attributes.get(RETRY_POLICY, ""),
                one.attributes.get(ORDER, ""),
                one.attributes.get(START, ""),
            )
            for name, one in table.items()
        ]

    async def put_group(self, settings: GroupSettings) -> None:
        """200; keeps the group's settings that HTTP does not have (RocketMQ's others)."""
        with self._translated():
            known = (await self._client.groups()).subscription_group_table.get(settings.group)
            config = known or SubscriptionGroupConfig(group_name=settings.group)
            changed = msgspec.structs.replace(
                config,
                consume_enable=settings.is_enabled,
                consume_broadcast_enable=settings.is_broadcast_enabled,
                retry_max_times=settings.retry_max_times,
                retry_queue_nums=settings.retry_queues,
                attributes=_changed_attributes(settings),
            )
            await self._client.put_group(changed)

    async def delete_group(self, group: str, *, with_offsets: bool) -> None:
        """207."""
        with self._translated():
            await self._client.delete_group(group, clean_offset=with_offsets)

    async def set_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """15, answered once stored."""
        with self._translated():
            await self._client.commit_offset(group, topic, queue_id, offset)

    async def reset_offset(self, group: str, topic: str, queue_id: int, offset: int, *, dry: bool) -> int:
        """222 of one queue."""
        header = ResetOffsetHeader(
            topic=topic, group=group, timestamp=0, is_force=True, queue_id=queue_id, offset=offset, dry_run=dry
        )  # fmt: skip
        with self._translated():
            return (await self._client.reset_offsets(header)).given_again or 0

    async def progress(self, group: str, topic: str) -> list[QueueProgress]:
        """208."""
        with self._translated():
            table = (await self._client.consume_stats(group, topic or None)).offset_table
        return [
            QueueProgress(queue.topic, queue.queue_id, one.consumer_offset, one.broker_offset)
            for queue, one in table.items()
        ]

    async def redriven(self, group: str, from_offset: int) -> list[tuple[int, int]]:
        """Return the dead letters of a group that were redriven."""
        with self._translated():
            state = await self._settling.state(
                dlq_topic(group), DLQ_QUEUE_ID, group=REDRIVE_GROUP, from_offset=from_offset
            )
        below = [(from_offset, state.cursor)] if from_offset < state.cursor else []
        return below + state.settled

    async def runtime_info(self) -> dict[str, str]:
        """28."""
        with self._translated():
            return await self._client.runtime_info()

    async def settings(self, changes: dict[str, str]) -> dict[str, str]:
        """25 if there are changes, then 26."""
        with self._translated():
            if changes:
                await self._client.update_broker_config(changes)
            return await self._client.broker_config()

    def _send_header(self, topic: str, queue_id: int, sys_flag: int = 0) -> SendHeaderV2:
        """Return the fields common to all sends; without a default topic, so that no send creates a topic."""
        return SendHeaderV2(
            producer_group=GATEWAY_GROUP,
            topic=topic,
            default_topic="",
            default_topic_queue_nums=0,
            queue_id=queue_id,
            sys_flag=sys_flag,
            born_timestamp=self._wall_ms(),
            flag=0,
            probe=True if topic == PROBE_TOPIC else None,
        )

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except (BrokerRefused, LinkError) as error:
            raise self._failure(error) from error

    def _failure(self, error: BrokerRefused | LinkError) -> StoreRefused | PeerAway:
        if isinstance(error, BrokerRefused):
            return StoreRefused(int(error.code), error.remark, error.fields.get("gantryCode", ""))
        return PeerAway(self._broker, error.sent, str(error))


def _topic(config: TopicConfig) -> TopicSettings:
    return TopicSettings(
        config.topic_name,
        config.read_queue_nums,
        config.write_queue_nums,
        config.perm,
        config.attributes.get(TYPE_ATTRIBUTE, ""),
    )


def _changed_attributes(settings: GroupSettings) -> dict[str, str]:
    """Return attributes as changes to the store's: `-name` removes one, all others stay."""
    wanted = {RETRY_POLICY: settings.retry_policy, ORDER: settings.order, START: settings.start}
    return {name if value else f"-{name}": value for name, value in wanted.items()}


def _stored(answer: Command) -> StoreOutcome:
    """Convert a store's response to a message. Less than the requested durability is an error."""
    code, reply = stored_of(answer)
    if code:
        return StoreRefused(code, _LESS_DURABLE)
    stored = Stored(
        reply.msg_id,
        reply.transaction_id or "",
        reply.queue_id,
        reply.queue_offset,
        reply.durability == _DURABLE,
        bool(reply.duplicate),
        deliver_ms=reply.deliver_ms,
    )
    return [stored]
