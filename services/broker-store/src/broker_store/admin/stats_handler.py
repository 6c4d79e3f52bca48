"""Requests 202, 208 and 317: bounds of topics, progress of groups. Never changes anything."""

from collections.abc import Iterable
from dataclasses import dataclass

from broker_store.admin.topics_handler import TopicHeader
from broker_store.groups.clients import ClientTable
from broker_store.groups.groups import GroupTable
from broker_store.groups.offsets import OffsetTable
from broker_store.metrics.store_metrics import StoreMetrics
from broker_store.ports import Commands, Peer, QueueReader, QueueTable, TopicTable
from broker_store.reading.queries.offset_search import Searching, position_of
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.bodies.admin import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    TopicOffset,
    TopicStatsTable,
)
from gantry_wire.bodies.cluster import MessageQueue, TopicConfig
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.admin import BrokerConsumeStatsHeader, ConsumeStatsHeader


@dataclass(frozen=True, slots=True)
class StatsHandlers:
    """Handles queries about statistics."""

    topics: TopicTable
    queues: QueueTable
    groups: GroupTable
    clients: ClientTable
    offsets: OffsetTable
    metrics: StoreMetrics
    searching: Searching
    deferred: DeferredReplies
    broker_name: str
    address: str

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            202: ("adminBroker", self.topic_stats),
            208: ("adminBroker", self.consume_stats),
            317: ("adminBroker", self.all_consume_stats),
        }

    def topic_stats(self, peer: Peer, command: Command) -> None:
        """Handle 202: bounds and newest store time of every queue of a topic."""
        topic = command.read(TopicHeader).topic
        config = self.topics.find(topic)
        if config is None:
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        self.deferred.answer(peer, command, self._topic_stats(command, config))

    def consume_stats(self, peer: Peer, command: Command) -> None:
        """Handle 208: a group's progress, in the listed topics, in one topic, or in all in which it has committed."""
        header = command.read(ConsumeStatsHeader)
        group = header.consumer_group
        listed = [topic for topic in (header.topic_list or "").split(";") if topic]
        topics = listed or ([header.topic] if header.topic else self.offsets.topics_of(group))
        self.deferred.answer(
            peer, command, self._consume_stats(command, group, topics, any_topic=bool(listed))
        )

    def all_consume_stats(self, peer: Peer, command: Command) -> None:
        """Handle 317: progress of every group, in all topics or only in order topics."""
        only_order = command.read(BrokerConsumeStatsHeader).is_order
        self.deferred.answer(peer, command, self._all_consume_stats(command, only_order=only_order))

    async def _topic_stats(self, command: Command, config: TopicConfig) -> bytes:
        topic = config.topic_name
        count = max(config.read_queue_nums, config.write_queue_nums)
        queues = [self.queues.find(topic, queue_id) for queue_id in range(count)]
        newest = [None if queue is None else position_of(queue, queue.max_offset - 1) for queue in queues]
        times = await self.searching.times(newest)
        metrics = self.metrics.topics.get(topic)
        body = TopicStatsTable(
            offset_table={
                self._name(topic, queue_id): TopicOffset(
                    last_update_timestamp=max(times[queue_id], 0),
                    max_offset=0 if queue is None else queue.max_offset,
                    min_offset=0 if queue is None else queue.min_offset,
                )
                for queue_id, queue in enumerate(queues)
            },
            topic_put_tps=0.0
            if metrics is None
            else metrics.messages_meter.minute(self.metrics.sampled_s).per_second,
        )
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))

    async def _consume_stats(
        self, command: Command, group: str, topics: Iterable[str], *, any_topic: bool
    ) -> bytes:
        stats = await self._stats_of(group, topics, any_topic=any_topic)
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(stats))

    async def _all_consume_stats(self, command: Command, *, only_order: bool) -> bytes:
        all_stats: list[dict[str, list[ConsumeStats]]] = []
        difference = in_flight = 0
        for group in self.groups.names():
            topics = [
                topic for topic in self.offsets.topics_of(group) if not only_order or self._is_order(topic)
            ]
            if topics:
                stats = [await self._stats_of(group, [topic]) for topic in topics]
                all_stats.append({group: stats})
                difference += sum(
                    entry.broker_offset - entry.consumer_offset
                    for one in stats
                    for entry in one.offset_table.values()
                )
                in_flight += sum(
                    entry.pull_offset - entry.consumer_offset
                    for one in stats
                    for entry in one.offset_table.values()
                )
        body = ConsumeStatsList(
            broker_addr=self.address,
            consume_stats_list=all_stats,
            total_diff=difference,
            total_inflight_diff=in_flight,
        )
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))

    def _is_order(self, topic: str) -> bool:
        config = self.topics.find(topic)
        return config is not None and config.order

    async def _stats_of(self, group: str, topics: Iterable[str], *, any_topic: bool = False) -> ConsumeStats:
        """Return a group's progress. Unless `any_topic`, skips topics that a connected group no longer subscribes to."""
        entry = None if any_topic else self.clients.consumers.get(group)
        table: dict[MessageQueue, OffsetWrapper] = {}
        positions: list[int | None] = []
        per_second = 0.0
        for topic in topics:
            config = self.topics.find(topic)
            if config is None or (entry is not None and topic not in entry.subscriptions):
                continue
            metrics = self.metrics.groups.get((topic, group))
            if metrics is not None:
                per_second += metrics.messages_meter.minute(self.metrics.sampled_s).per_second
            for queue_id in range(config.read_queue_nums):
                queue = self.queues.find(topic, queue_id)
                progress = self._progress(group, topic, queue_id, queue)
                table[self._name(topic, queue_id)] = progress
                positions.append(position_of(queue, progress.consumer_offset - 1))
        for progress, time_ms in zip(table.values(), await self.searching.times(positions), strict=True):
            progress.last_timestamp = max(time_ms, 0)
        return ConsumeStats(consume_tps=per_second, offset_table=table)

    def _progress(self, group: str, topic: str, queue_id: int, queue: QueueReader | None) -> OffsetWrapper:
        committed = self.offsets.find(group, topic, queue_id) or 0
        pulled = self.offsets.find_pulled(group, topic, queue_id) or 0
        return OffsetWrapper(
            broker_offset=0 if queue is None else queue.max_offset,
            consumer_offset=committed,
            pull_offset=max(committed, pulled),
        )

    def _name(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(broker_name=self.broker_name, queue_id=queue_id, topic=topic)
