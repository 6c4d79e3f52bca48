"""Requests 200050, 200052, 200054 and 200055: pop, peek, wait for messages, count the held requests.

A pop that finds nothing is held without a lease (leases/wait_handler.py) and repeated when something may be there.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from msgspec import structs

from broker_store.commit.queues import QueueTable
from broker_store.groups.groups import GroupTable
from broker_store.leases.receive_handler import Ask, Batch, Receiver
from broker_store.leases.subscription_opening import Opener, is_in_order
from broker_store.leases.subscriptions import Subscriptions
from broker_store.leases.wait_handler import Held, Waits, loop_ms
from broker_store.pop.handles import stamp_of
from broker_store.pop.replies import found_reply
from broker_store.ports import Commands, Peer
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.pop import (
    POP_MESSAGES_MAX,
    NotificationHeader,
    NotificationReplyHeader,
    PeekHeader,
    PollingInfoHeader,
    PollingInfoReplyHeader,
    PopHeader,
    PopReplyHeader,
)
from gantry_wire.private_requests.leases import EARLIEST, INVISIBLE_MS_MAX, LATEST, WAIT_MS_MAX, ReceiveHeader

HELD_MAX = 1024
"""Requests held per group and topic (RocketMQ's popPollingSize). More get POLLING_FULL."""
VAIN_PAUSE_SECONDS = 0.005
"""Pause before a pop is repeated that found nothing, though something was there."""
PEEK_MS = 1000
_NOTHING = PopReplyHeader()


class Pop(NamedTuple):
    """One pop until its answer."""

    peer: Peer
    command: Command
    header: PopHeader
    ask: ReceiveHeader
    deadline_ms: int
    """When it is no longer held, by the loop's clock."""


@dataclass(frozen=True, slots=True)
class PopHandlers:
    """Answers these requests."""

    receiver: Receiver
    waits: Waits
    opener: Opener
    subscriptions: Subscriptions
    queues: QueueTable
    groups: GroupTable
    broker: str
    """Name of this broker."""

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.POP_MESSAGE: ("pull", self.pop),
            RequestCode.PEEK_MESSAGE: ("pull", self.peek),
            RequestCode.NOTIFICATION: ("pull", self.notify),
            RequestCode.POLLING_INFO: ("pull", self.polling_info),
        }

    def pop(self, peer: Peer, command: Command) -> bytes | None:
        """Handle 200050: lease messages, and wait for the first. Raises RefusedRequest."""
        header = command.read(PopHeader)
        self._check(header)
        if header.order:
            self._keep_order(header.consumer_group)
        wait_ms = min(max(header.poll_time, 0), WAIT_MS_MAX)
        return self._pop(Pop(peer, command, header, _ask_of(header), loop_ms() + wait_ms))

    def peek(self, peer: Peer, command: Command) -> bytes | None:
        """Handle 200052: return messages that a pop would lease now, and lease none. Raises RefusedRequest."""
        header = command.read(PeekHeader)
        self._check(header)
        ask = ReceiveHeader(
            group=header.consumer_group,
            topic=header.topic,
            max_messages=header.max_msg_nums,
            invisible_ms=PEEK_MS,
        )

        def reply(batch: Batch) -> bytes:
            answer = self._found(command, header, ask, batch) if batch.count else _nothing(command)
            batch.give_back()
            return answer

        return self.receiver.receive(Ask(peer, command, ask, reply, header.queue_id))

    def notify(self, peer: Peer, command: Command) -> bytes | None:
        """Handle 200054: wait until a pop may find something. Raises RefusedRequest."""
        header = command.read(NotificationHeader)
        self.opener.topic(header.topic)
        self.opener.group(header.consumer_group)
        subscription = self.subscriptions.open(header.consumer_group, header.topic)
        deadline_ms = loop_ms() + min(max(header.poll_time, 0), WAIT_MS_MAX)

        def answer(is_ready: bool) -> None:
            peer.send(_notified(command, is_ready=is_ready))

        held = self.waits.hold(peer, subscription, header.queue_id, deadline_ms, HELD_MAX, answer)
        if held is Held.WAITS:
            return None
        return _notified(command, is_ready=held is Held.READY, is_full=held is Held.FULL)

    def polling_info(self, _peer: Peer, command: Command) -> bytes:
        """Handle 200055. Raises RefusedRequest."""
        header = command.read(PollingInfoHeader)
        self.opener.topic(header.topic)
        count = self.waits.count_of(header.consumer_group, header.topic)
        return encode_response(
            ResponseCode.SUCCESS, command.opaque, PollingInfoReplyHeader(polling_num=count)
        )

    def _check(self, header: PeekHeader) -> None:
        """Raise RefusedRequest for a pop that RocketMQ refuses."""
        if not 1 <= header.max_msg_nums <= POP_MESSAGES_MAX:
            remark = f"the num of message is {header.max_msg_nums}, it may be 1 to {POP_MESSAGES_MAX}"
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)
        topic = self.opener.topic(header.topic)
        if not -1 <= header.queue_id < topic.read_queue_nums:
            remark = f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] topicConfig.readQueueNums:[{topic.read_queue_nums}]"
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)

    def _keep_order(self, name: str) -> None:
        """Give the group of a consumer that wants order the setting for it: order is the group's, and holds for its other receives too."""
        config = self.opener.group(name)
        if not is_in_order(config):
            self.groups.put(structs.replace(config, consume_message_orderly=True, attributes={}))

    def _pop(self, pop: Pop) -> bytes | None:
        return self.receiver.receive(
            Ask(pop.peer, pop.command, pop.ask, partial(self._popped, pop), pop.header.queue_id)
        )

    def _popped(self, pop: Pop, batch: Batch) -> bytes | None:
        """Answer with what was leased, or wait."""
        if batch.count:
            return self._found(pop.command, pop.header, pop.ask, batch)
        if loop_ms() >= pop.deadline_ms:
            return _nothing(pop.command)
        subscription = self.subscriptions.open(pop.ask.group, pop.ask.topic)
        held = self.waits.hold(
            pop.peer, subscription, pop.header.queue_id, pop.deadline_ms, HELD_MAX, partial(self._woken, pop)
        )
        if held is Held.FULL:
            return encode_response(ResponseCode.POLLING_FULL, pop.command.opaque, _NOTHING)
        if held is Held.READY:
            asyncio.get_running_loop().call_later(VAIN_PAUSE_SECONDS, self._again, pop)
        return None

    def _woken(self, pop: Pop, is_ready: bool) -> None:
        if is_ready:  # not within the change that woke it
            asyncio.get_running_loop().call_soon(self._again, pop)
        else:
            pop.peer.send(_nothing(pop.command))

    def _again(self, pop: Pop) -> None:
        """Repeat a pop, unless its client has gone."""
        if pop.peer.is_closing:
            return
        try:
            reply = self._pop(pop)
        except RefusedRequest as error:
            reply = encode_response(error.code, pop.command.opaque, error.fields, remark=error.remark)
        except (WireError, OSError) as error:
            remark = f"{type(error).__name__}: {error}"
            reply = encode_response(ResponseCode.SYSTEM_ERROR, pop.command.opaque, remark=remark)
        if reply is not None:
            pop.peer.send(reply)

    def _found(self, command: Command, header: PeekHeader, ask: ReceiveHeader, batch: Batch) -> bytes:
        receiver = self.receiver
        until_ms = receiver.now_ms() + batch.until_ms - receiver.steady_ms()
        stamp = stamp_of(batch.lease, until_ms - ask.invisible_ms, ask.invisible_ms)
        reply, body = found_reply(batch, header.topic, self.broker, stamp, self._rest(ask.group, ask.topic))
        return encode_response(ResponseCode.SUCCESS, command.opaque, reply, body)

    def _rest(self, group: str, topic: str) -> int:
        """Return how many messages of a topic the group has not seen."""
        subscription = self.subscriptions.open(group, topic)
        return sum(
            max(queue.max_offset - leases.table.unseen.next, 0)
            for queue in self.queues.of_topic(topic)
            if (leases := subscription.queues.get(queue.queue_id)) is not None
        )


def _ask_of(header: PopHeader) -> ReceiveHeader:
    """Return the receive of a pop. Its filter replaces the group's, as with RocketMQ."""
    return ReceiveHeader(
        group=header.consumer_group,
        topic=header.topic,
        max_messages=header.max_msg_nums,
        invisible_ms=min(max(header.invisible_time, 1), INVISIBLE_MS_MAX),
        expression_type=(header.exp_type or "TAG") if header.exp else None,
        expression=header.exp,
        change_filter=True,
        start=LATEST if header.init_mode else EARLIEST,
        attempt_id=header.attempt_id or None,
    )


def _nothing(command: Command) -> bytes:
    return encode_response(ResponseCode.POLLING_TIMEOUT, command.opaque, _NOTHING)


def _notified(command: Command, *, is_ready: bool, is_full: bool = False) -> bytes:
    reply = NotificationReplyHeader(has_msg=is_ready, polling_full=is_full)
    return encode_response(ResponseCode.SUCCESS, command.opaque, reply)
