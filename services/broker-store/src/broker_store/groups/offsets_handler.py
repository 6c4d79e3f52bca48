"""Requests 14, 15 and 43: query and commit a group's offsets.

A commit that wants an answer gets it once it is durable.
"""

from dataclasses import dataclass

from broker_store.groups.clients import ClientTable
from broker_store.groups.first_offset import is_whole_in_memory
from broker_store.groups.groups import GroupTable
from broker_store.groups.offset_keeper import OffsetKeeper
from broker_store.groups.offsets import OffsetTable
from broker_store.groups.pending_resets import PendingResets
from broker_store.ports import Commands, LogReader, Peer, QueueTable, TopicTable
from gantry_wire.bodies.cluster import ConsumerOffsetTable
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.messages import QueryConsumerOffsetHeader, UpdateConsumerOffsetHeader
from gantry_wire.names import GATEWAY_GROUP

_NOT_FOUND = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
_NOT_ZERO = "Not found, do not set to zero, maybe this group boot first"


@dataclass(frozen=True, slots=True)
class OffsetHandlers:
    """Handles the offset requests."""

    offsets: OffsetTable
    keeper: OffsetKeeper
    groups: GroupTable
    topics: TopicTable
    queues: QueueTable
    log: LogReader
    resets: PendingResets
    clients: ClientTable

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            14: ("consumerManager", self.query),
            15: ("consumerManager", self.update),
            43: ("adminBroker", self.all),
        }

    def query(self, _peer: Peer, command: Command) -> bytes:
        """Handle 14: the committed offset, or the start of a group that has none (RocketMQ 5.x)."""
        header = command.read(QueryConsumerOffsetHeader)
        offset = self.offsets.find(header.consumer_group, header.topic, header.queue_id)
        if offset is None:
            if header.set_zero_if_not_found is False:
                raise RefusedRequest(ResponseCode.QUERY_NOT_FOUND, _NOT_ZERO)
            if not self._starts_at_zero(header.topic, header.queue_id):
                raise RefusedRequest(ResponseCode.QUERY_NOT_FOUND, _NOT_FOUND)
            offset = 0
        return encode_response(ResponseCode.SUCCESS, command.opaque, {"offset": str(offset)})

    def update(self, peer: Peer, command: Command) -> None:
        """Handle 15: commit an offset. One-way commits are saved with the next flush, others before their answer."""
        header = command.read(UpdateConsumerOffsetHeader)
        group, topic = header.consumer_group, header.topic
        if self.groups.find(group) is None or group == GATEWAY_GROUP:
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        if self.topics.find(topic) is None:
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        if header.queue_id < 0 or header.commit_offset < 0:
            remark = (
                f"queueId {header.queue_id} or offset {header.commit_offset} is below 0, topic is {topic}"
            )
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)
        opaque = command.opaque
        if self.resets.is_pending(group, topic, header.queue_id):
            if group in self.clients.consumers:  # it does not know of the reset yet
                remark = "Offset has been previously reset"
                if not command.is_oneway:
                    peer.send(encode_response(ResponseCode.SUCCESS, opaque, remark=remark))
                return
            self.resets.forget_group(group)
        if command.is_oneway:
            self.keeper.commit_soon(group, topic, header.queue_id, header.commit_offset)
            return

        def answer(error: OSError | None) -> None:
            if error is None:
                peer.send(encode_response(ResponseCode.SUCCESS, opaque))
            else:
                remark = f"the offset is taken but not durable, commit it again: {error}"
                peer.send(encode_response(ResponseCode.SYSTEM_ERROR, opaque, remark=remark))

        self.keeper.commit(group, topic, header.queue_id, header.commit_offset, answer)

    def all(self, _peer: Peer, command: Command) -> bytes:
        """Handle 43: the content of consumerOffset.json."""
        table = {f"{topic}@{group}": dict(of_queues) for topic, group, of_queues in self.offsets.all()}
        body = ConsumerOffsetTable(data_version=self.keeper.version, offset_table=table)
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))

    def _starts_at_zero(self, topic: str, queue_id: int) -> bool:
        """Whether a new group reads the queue from its first message: the queue is complete and that message is in memory.

        A queue that never held a message starts at 0 too. RocketMQ answers 22 there, and a consumer that
        then queries the end misses what arrives between its two queries.
        """
        queue = self.queues.find(topic, queue_id)
        if queue is None or queue.max_offset == 0:
            return queue_id >= 0 and self.topics.find(topic) is not None
        return is_whole_in_memory(queue, self.log)
