"""Requests 303, 308 and 314: ages of a group's next messages, lowest offsets of groups, and copies of a group's offsets."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from broker_store.groups.clients import ClientTable
from broker_store.groups.groups import check_group_to_put
from broker_store.groups.offset_keeper import OffsetKeeper
from broker_store.groups.offsets import OffsetTable
from broker_store.ports import Commands, Peer, QueueTable, TopicTable
from broker_store.reading.queries.offset_search import Searching, position_of
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.bodies.admin import QueryConsumeTimeSpanBody, QueryCorrectionOffsetBody, QueueTimeSpan
from gantry_wire.bodies.cluster import MessageQueue, TopicConfig
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.admin import CloneGroupOffsetHeader, ConsumeTimeSpanHeader, CorrectionOffsetHeader
from gantry_wire.limits import INT64_MAX


@dataclass(frozen=True, slots=True)
class ProgressHandlers:
    """Compares groups with topics and with each other."""

    topics: TopicTable
    queues: QueueTable
    clients: ClientTable
    offsets: OffsetTable
    keeper: OffsetKeeper
    searching: Searching
    deferred: DeferredReplies
    now_ms: Callable[[], int]
    broker_name: str

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.QUERY_CONSUME_TIME_SPAN: ("adminBroker", self.time_spans),
            RequestCode.QUERY_CORRECTION_OFFSET: ("adminBroker", self.corrections),
            RequestCode.CLONE_GROUP_OFFSET: ("adminBroker", self.clone),
        }

    def time_spans(self, peer: Peer, command: Command) -> None:
        """Handle 303: per queue, store times of its first and last message and of the group's last one, and the age of the next."""
        header = command.read(ConsumeTimeSpanHeader)
        config = self.topics.find(header.topic)
        if config is None or self.topics.is_internal(header.topic):
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        self.deferred.answer(peer, command, self._time_spans(command, config, header.group))

    def corrections(self, _peer: Peer, command: Command) -> bytes:
        """Handle 308: per queue, the lowest offset of all groups; Java's greatest long where `compareGroup` is further back.

        Leaves out the groups of `filterGroups` (comma-separated). RocketMQ forgets their offsets for good;
        here they stay.
        """
        header = command.read(CorrectionOffsetHeader)
        left_out = set((header.filter_groups or "").split(","))
        lowest: dict[int, int] = {}
        for group in self.offsets.groups_of(header.topic):
            if group in left_out:
                continue
            for queue_id, offset in self.offsets.of(group, header.topic).items():
                queue = self.queues.find(header.topic, queue_id)
                if offset >= (0 if queue is None else queue.min_offset):
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
        for queue_id, offset in self.offsets.of(header.compare_group, header.topic).items():
            if queue_id in lowest and lowest[queue_id] > offset:
                lowest[queue_id] = INT64_MAX
        body = encode_body(QueryCorrectionOffsetBody(correction_offsets=lowest))
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=body)

    def clone(self, peer: Peer, command: Command) -> None:
        """Handle 314: copy the committed offsets of a group to another, in one topic or all. Answers when they are durable.

        Without `offline`, skips topics that the source group's clients do not subscribe to.
        """
        header = command.read(CloneGroupOffsetHeader)
        check_group_to_put(header.dest_group)
        source = header.src_group
        topics = [header.topic] if header.topic else self.offsets.topics_of(source)
        entry = None if header.offline else self.clients.consumers.get(source)
        wanted = [
            topic
            for topic in topics
            if self.topics.find(topic) is not None
            and not self.topics.is_internal(topic)
            and (entry is None or topic in entry.subscriptions)
        ]
        self.deferred.answer(peer, command, self._clone(command, source, header.dest_group, wanted))

    async def _clone(self, command: Command, source: str, target: str, topics: list[str]) -> bytes:
        durable = [
            self._commit(target, topic, queue_id, offset)
            for topic in topics
            for queue_id, offset in dict(self.offsets.of(source, topic)).items()
        ]
        errors = [error for error in await asyncio.gather(*durable) if error is not None]
        if errors:
            remark = f"the offsets are set but not durable, clone them again: {errors[0]}"
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, remark)
        return encode_response(ResponseCode.SUCCESS, command.opaque)

    def _commit(self, group: str, topic: str, queue_id: int, offset: int) -> "asyncio.Future[OSError | None]":
        done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        self.keeper.commit(group, topic, queue_id, offset, done.set_result)
        return done

    async def _time_spans(self, command: Command, config: TopicConfig, group: str) -> bytes:
        spans = [
            await self._span(config.topic_name, queue_id, group)
            for queue_id in range(config.write_queue_nums)
        ]
        body = encode_body(QueryConsumeTimeSpanBody(consume_time_span_set=spans))
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=body)

    async def _span(self, topic: str, queue_id: int, group: str) -> QueueTimeSpan:
        queue = self.queues.find(topic, queue_id)
        committed = self.offsets.find(group, topic, queue_id) or 0
        end = 0 if queue is None else queue.max_offset
        first_ms = await self.searching.first_time(queue)
        positions = [position_of(queue, offset) for offset in (end - 1, committed - 1, committed)]
        last_ms, consumed_ms, next_ms = await self.searching.times(positions)
        return QueueTimeSpan(
            message_queue=MessageQueue(broker_name=self.broker_name, queue_id=queue_id, topic=topic),
            min_time_stamp=first_ms,
            max_time_stamp=last_ms,
            consume_time_stamp=consumed_ms if committed > 0 else first_ms,
            delay_time=max(self.now_ms() - next_ms, 0) if committed < end and next_ms > 0 else 0,
        )
