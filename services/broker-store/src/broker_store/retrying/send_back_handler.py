# ruff: noqa: D102 - the Protocols say what these methods promise
"""Request 36: a consumer failed to process a message and wants it again later. RocketMQ 5.3.3's checks in their order.

The answer waits for the flush, even if the copy says WAIT=false: with the answer the consumer forgets the
message.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from broker_store.commit.appends import Appends
from broker_store.commit.message import Arrivals, IndexEntry, Message, refusal_frame
from broker_store.commit.queues import QueueTable
from broker_store.commit.record_writer import RecordWriter
from broker_store.commit.targets import Target, Targets
from broker_store.commit.topics import PERM_RW, PERM_WRITE, UNIT_SUB_FLAG, TopicTable
from broker_store.delays.delays import Delays
from broker_store.log.errors import LogError
from broker_store.ports import Commands, InThread, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.retrying.policy import policy_of
from broker_store.retrying.retries import Retries, readable_reason, tries_of
from broker_store.retrying.send_back import SentBack, copy_of, decide
from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import MalformedProperties, MalformedRecord, RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.messages import ConsumerSendBackHeader
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.messages.properties import RETRY_TOPIC
from gantry_wire.names import retry_topic
from gantry_wire.records.message_record import Record, decode_record


class ReadRecord(Protocol):
    """Reads a whole record. May wait for the disk. Raises LogError."""

    def __call__(self, position: int) -> bytes: ...


@dataclass(frozen=True, slots=True, eq=False)
class Retrying:
    """Handles 36."""

    read_record: ReadRecord
    in_thread: InThread
    topics: TopicTable
    targets: Targets
    queues: QueueTable
    appends: Appends
    delays: Delays
    retries: Retries
    deferred: DeferredReplies
    consumer_of: Callable[[Peer, str], str]
    """Returns the name of the group's member on a connection."""
    broker_ip: str
    on_sent_back: Callable[[str, str], None]
    """Called for each stored copy with the message's first topic and the group."""
    rng: random.Random

    def commands(self) -> Commands:
        """Return the table entries."""
        return {RequestCode.CONSUMER_SEND_MSG_BACK: ("send", self.send_back)}

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return nothing: it has no loop."""
        return {}

    def closed(self, peer: object) -> None:
        """Do nothing: no state depends on a connection."""

    async def close(self) -> None:
        """Wait for running requests."""
        await self.deferred.close()

    def send_back(self, peer: Peer, command: Command) -> bytes | None:
        """Handle 36: store a copy for another try or as a dead letter. Answers when it is durable."""
        header = command.read(ConsumerSendBackHeader)
        group = self.retries.group(header.group)
        if not self.targets.broker_permission & PERM_WRITE:
            remark = f"the broker[{self.broker_ip}] sending message is forbidden"
            raise RefusedRequest(ResponseCode.NO_PERMISSION, remark)
        if group.retry_queue_nums <= 0:
            return encode_response(ResponseCode.SUCCESS, command.opaque)  # the group wants no retries
        self._retry_target(group, header)
        consumer = self.consumer_of(peer, header.group)
        self.deferred.answer(peer, command, self._send_back(command, header, group, consumer))
        return None

    async def _send_back(
        self, command: Command, header: ConsumerSendBackHeader, group: SubscriptionGroupConfig, consumer: str
    ) -> bytes:
        record = await self._record(header.offset)
        tries_max = tries_of(group, header.max_reconsume_times, command.version)
        reason = readable_reason(header.reason or "")
        asked = SentBack(tries_max, header.delay_level, consumer, reason)
        policy = policy_of(group.attributes)
        decision = decide(record, asked, has_policy=policy is not None)
        target = (
            self.retries.dead_letters(header.group) if decision.is_dead else self._retry_target(group, header)
        )
        queue_id = 0 if decision.is_dead else self.rng.randrange(target.write_queues)
        queue = self.queues.open(target.topic, queue_id)
        message = copy_of(record, decision, asked, queue, target.mode)
        if len(message.properties) > PROPERTIES_BYTES_MAX:
            raise RefusedRequest(
                ResponseCode.MESSAGE_ILLEGAL,
                f"with what a retry adds the properties have {len(message.properties)} bytes, "
                f"the limit is {PROPERTIES_BYTES_MAX}",
            )
        if decision.level:
            message = self.delays.by_level(message, decision.level)
        elif not decision.is_dead and policy is not None:
            wait_ms = policy.wait_ms(record.reconsume_times, self.rng.random)
            message = self.delays.by_wait(message, wait_ms)
        entry = _SendBack(message, command.opaque)
        self.appends.submit(entry, len(message.body))
        self.on_sent_back(record.property_map().get(RETRY_TOPIC) or record.topic.decode(), header.group)
        return await entry.answered

    def _retry_target(self, group: SubscriptionGroupConfig, header: ConsumerSendBackHeader) -> Target:
        """Return the group's %RETRY% topic; create it if missing."""
        name = retry_topic(group.group_name)
        sys_flag = UNIT_SUB_FLAG if header.unit_mode else 0
        config = self.topics.ensure(name, group.retry_queue_nums, PERM_RW, sys_flag)
        if not config.perm & PERM_WRITE or config.write_queue_nums <= 0:
            raise RefusedRequest(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden"
            )
        return self.targets.internal(config)

    async def _record(self, position: int) -> Record:
        """Return the message at a position anywhere in the log. Raises RocketMQ's answer when there is none."""
        try:
            data = await self.in_thread(self.read_record, position)
            record = decode_record(data)
            topic = record.topic.decode()
            record.property_map()
        except (LogError, MalformedRecord, MalformedProperties, UnicodeDecodeError, OSError) as error:
            raise _missing(position) from error
        if record.position != position or self.topics.is_internal(topic):
            raise _missing(position)
        return record


class _SendBack:
    """The copy in the group commit. Its answer reports only whether it is stored as promised."""

    __slots__ = ("_message", "_opaque", "answered", "mode", "place")

    count = 1

    def __init__(self, message: Message, opaque: int) -> None:
        self._message = message
        self._opaque = opaque
        self.answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.mode = message.mode
        self.place = message.place

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        self._message.make_visible(index, arrivals)

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:  # noqa: ARG002
        if code:
            self._reply(encode_response(ResponseCode.SYSTEM_ERROR, self._opaque, remark=code.name))
        else:
            self._reply(encode_response(ResponseCode.SUCCESS, self._opaque))

    def refuse(self, refusal: RefusedRequest) -> None:
        self._reply(refusal_frame(self._opaque, refusal))

    def _reply(self, frame: bytes) -> None:
        if not self.answered.done():
            self.answered.set_result(frame)


def _missing(position: int) -> RefusedRequest:
    return RefusedRequest(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {position}")
