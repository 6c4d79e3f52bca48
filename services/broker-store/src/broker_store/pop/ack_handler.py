"""Requests 200051, 200053 and 200151: acknowledge popped messages, change how long they are invisible.

A reply leaves when its change is durable, and says 208 where the lease is over. RocketMQ says 0 there, though the message comes again.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from broker_store.commit.queues import QueueTable
from broker_store.leases.ack_handler import Acker, ItemsAsk
from broker_store.leases.receive_handler import Receiver
from broker_store.pop.handles import OF_TOPIC, lease_in, lease_of, split_retry, stamp_of
from broker_store.ports import Commands, Peer, TopicTable
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.bodies.pop import BatchAck, BatchAckBody
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.pop import ChangedInvisibleHeader, ChangeInvisibleHeader, PopAckHeader
from gantry_wire.names import retry_topic
from gantry_wire.private_requests.leases import (
    ACK_ITEMS_MAX,
    INVISIBLE_MS_MAX,
    ItemKind,
    ItemStatus,
    LeaseItem,
    LeaseItemsHeader,
)


class Named(NamedTuple):
    """A popped message that a request names."""

    topic: str
    item: LeaseItem


@dataclass(frozen=True, slots=True)
class PopAckHandlers:
    """Answers these requests."""

    acker: Acker
    receiver: Receiver
    topics: TopicTable
    queues: QueueTable
    deferred: DeferredReplies

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.ACK_MESSAGE: ("ack", self.ack),
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: ("ack", self.change_invisible),
            RequestCode.BATCH_ACK_MESSAGE: ("ack", self.batch_ack),
        }

    def ack(self, peer: Peer, command: Command) -> bytes | None:
        """Handle 200051. Raises RefusedRequest."""
        header = command.read(PopAckHeader)
        named = self._named(header, ItemKind.ACK, is_end_named=True)

        def reply(statuses: bytes) -> bytes:
            return _refusal(command, statuses) or encode_response(ResponseCode.SUCCESS, command.opaque)

        items = LeaseItemsHeader(group=header.consumer_group, topic=named.topic)
        return self.acker.settle(peer, ItemsAsk(command, items, [named.item], reply))

    def change_invisible(self, peer: Peer, command: Command) -> bytes | None:
        """Handle 200053: move the end of the lease. Raises RefusedRequest."""
        header = command.read(ChangeInvisibleHeader)
        named = self._named(header, ItemKind.EXTEND, is_end_named=False)
        invisible_ms = min(max(header.invisible_time, 1), INVISIBLE_MS_MAX)

        def reply(statuses: bytes) -> bytes:
            refusal = _refusal(command, statuses)
            if refusal is not None:
                return refusal
            stamp = stamp_of(named.item.lease, self.receiver.now_ms(), invisible_ms)
            changed = ChangedInvisibleHeader(
                pop_time=stamp.pop_time, invisible_time=stamp.invisible_ms, revive_qid=stamp.revive_qid
            )
            return encode_response(ResponseCode.SUCCESS, command.opaque, changed)

        items = LeaseItemsHeader(group=header.consumer_group, topic=named.topic, invisible_ms=invisible_ms)
        return self.acker.move_end(peer, ItemsAsk(command, items, [named.item], reply))

    def batch_ack(self, peer: Peer, command: Command) -> None:
        """Handle 200151: what cannot be acknowledged is skipped. Raises RefusedRequest."""
        acks = decode_body(command.body, BatchAckBody).acks if command.body else []
        if not acks:
            raise RefusedRequest(ResponseCode.NO_MESSAGE, "the body has no acks")
        self.deferred.answer(peer, command, self._batch_ack(command, acks))

    async def _batch_ack(self, command: Command, acks: list[BatchAck]) -> bytes:
        """Acknowledge one group's messages of one topic after the other."""
        by_topic: dict[tuple[str, str], list[LeaseItem]] = {}
        for one in acks:
            topic, is_retry_name = split_retry(one.topic, one.consumer_group)
            is_retry = is_retry_name or one.retry != OF_TOPIC
            lease = lease_of(one.pop_time, one.revive_queue_id, self.receiver.boot)
            by_topic.setdefault((one.consumer_group, topic), []).extend(
                LeaseItem(ItemKind.ACK, int(is_retry), one.queue_id, offset, lease)
                for offset in _offsets(one)
            )
        for (group, topic), items in by_topic.items():
            header = LeaseItemsHeader(group=group, topic=topic)
            for at in range(0, len(items), ACK_ITEMS_MAX):
                try:
                    await self.acker.settled(ItemsAsk(command, header, items[at : at + ACK_ITEMS_MAX], bytes))
                except RefusedRequest:
                    continue
        return encode_response(ResponseCode.SUCCESS, command.opaque)

    def _named(self, header: PopAckHeader, kind: ItemKind, *, is_end_named: bool) -> Named:
        """Return the message of a request. Raises RefusedRequest where RocketMQ does."""
        topic, is_retry = split_retry(header.topic, header.consumer_group)
        config = self.topics.find(topic)
        if config is None:
            remark = f"The topic[{topic}] not exist, apply first please!"
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, remark)
        if header.queue_id < 0 or (not is_retry and header.queue_id >= config.read_queue_nums):
            remark = f"queueId[{header.queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{config.read_queue_nums}]"
            raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, remark)
        lease = lease_in(header.extra_info, self.receiver.boot)
        stored = retry_topic(header.consumer_group) if is_retry else topic
        queue = self.queues.find(stored, header.queue_id)
        end = -1 if queue is None else queue.max_offset + is_end_named
        if queue is None or not queue.min_offset <= header.offset < end:
            remark = (
                f"offset is illegal, topic:[{stored}] queueId:[{header.queue_id}] offset:[{header.offset}]"
            )
            raise RefusedRequest(ResponseCode.NO_MESSAGE, remark)
        return Named(topic, LeaseItem(kind, int(is_retry), header.queue_id, header.offset, lease))


def _refusal(command: Command, statuses: bytes) -> bytes | None:
    """Return the refusal of a request whose only item was not done."""
    status = statuses[0]
    if status == ItemStatus.DONE:
        return None
    if status == ItemStatus.FAILED:
        return encode_response(ResponseCode.SYSTEM_ERROR, command.opaque, remark="not done, try again")
    remark = "the lease of this message is over: it is delivered again, or is done"
    return encode_response(ResponseCode.NO_MESSAGE, command.opaque, remark=remark)


def _offsets(ack: BatchAck) -> Iterator[int]:
    """Yield the offsets of a bit set. Raises RefusedRequest (MESSAGE_ILLEGAL)."""
    try:
        data = base64.b64decode(ack.bits, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, "the bit set is not base64") from error
    for at, byte in enumerate(data[: ACK_ITEMS_MAX // 8]):
        for bit in range(8):
            if byte >> bit & 1:
                yield ack.start_offset + 8 * at + bit
