"""Request 370: recalls a timed message.

Stores a cancelling message beside it, as RocketMQ does; the scheduler settles both.
"""

from collections.abc import Callable
from dataclasses import dataclass

from broker_store.commit.appends import Appends
from broker_store.commit.message import Message
from broker_store.commit.record_writer import RecordWriter
from broker_store.commit.targets import Targets
from broker_store.commit.topics import PERM_WRITE, TopicTable
from broker_store.delays.delayed_message import DelayedMessage, Wait
from broker_store.delays.delays import Delays
from broker_store.ports import Commands, Peer
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.messages import RecallHeader
from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import (
    BORN_TIMESTAMP,
    PRODUCER_GROUP,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    format_properties,
    tags_code,
)
from gantry_wire.messages.recall_handle import RecallHandle, parse_handle

RECALL_TAG = "_RECALL_TAG_"
RECALL_BODY = b"0"


@dataclass(frozen=True, slots=True, eq=False)
class Recalls:
    """Handles 370."""

    delays: Delays
    topics: TopicTable
    targets: Targets
    appends: Appends
    now_ms: Callable[[], int]
    is_enabled: bool
    """recallMessageEnable."""

    def commands(self) -> Commands:
        """Return the table entries."""
        return {RequestCode.RECALL_MESSAGE: ("send", self.recall)}

    def recall(self, peer: Peer, command: Command) -> None:
        """Store the cancelling message. Answers when it is durable. RocketMQ's checks, in its order."""
        header = command.read(RecallHeader)
        if not self.is_enabled:
            raise RefusedRequest(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        if not self.targets.broker_permission & PERM_WRITE:
            raise RefusedRequest(
                ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available"
            )
        config = self.topics.find(header.topic)
        if config is None:
            raise RefusedRequest(
                ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist"
            )
        handle = parse_handle(header.recall_handle)
        self._check(header, handle)
        queue = self.targets.queue(self.targets.of(config), 0, peer.remote)
        now_ms = self.now_ms()
        properties = _cancelling(handle, header.producer_group or "", now_ms)
        mode = self.targets.of(config).mode
        message = Message(
            queue, RECALL_BODY, format_properties(properties), tags_code(RECALL_TAG), handle.unique_key, None, mode,
            None if command.is_oneway else peer, command.opaque, 0, 0, now_ms, pack_host(*peer.remote), 0,
        )  # fmt: skip
        delayed = self.delays.prepare(message, properties)
        if isinstance(delayed, DelayedMessage):
            self.appends.submit(_Cancelling(message, delayed))

    def _check(self, header: RecallHeader, handle: RecallHandle) -> None:
        left_ms = handle.deliver_ms - self.now_ms()
        if handle.topic != header.topic:
            remark = "recall failed, topic not match"
        elif handle.broker != self.delays.broker_name:
            remark = "recall failed, broker service not available"
        elif not 0 < left_ms <= self.delays.horizon_ms:
            remark = "recall failed, timestamp invalid"
        else:
            return
        raise RefusedRequest(ResponseCode.ILLEGAL_OPERATION, remark)


class _Cancelling(DelayedMessage):
    """The cancelling message. Its sender gets the unique key of the recalled one."""

    __slots__ = ()

    def __init__(self, message: Message, delayed: DelayedMessage) -> None:
        super().__init__(message, delayed.queue, delayed.properties, Wait(delayed.wait.deliver_ms))

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:  # noqa: ARG002
        peer, self.peer = self.peer, None
        if peer is not None:
            peer.send(encode_response(ResponseCode.SUCCESS, self.opaque, {"msgId": self.unique_key}))


def _cancelling(handle: RecallHandle, producer_group: str, now_ms: int) -> dict[str, str]:
    properties = {
        TAGS: RECALL_TAG,
        TIMER_DEL_UNIQKEY: f"{handle.topic}+{handle.unique_key}",
        UNIQ_KEY: handle.unique_key,
        TIMER_DELIVER_MS: str(handle.deliver_ms),
        BORN_TIMESTAMP: str(now_ms),
    }
    if producer_group:
        properties[PRODUCER_GROUP] = producer_group
    return properties
