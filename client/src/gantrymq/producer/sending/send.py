"""A single request of a producer: makes the frame, handles the answer, resolves the caller's future.

A Send is the link's Answer itself: no future, task or timer is between the connection and the user's future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import msgspec

from gantry_link.calling.send_pattern import SendPattern
from gantry_link.calling.store_calls import refusal
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.codes import STORED, RequestCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_request
from gantry_wire.headers.messages import SendHeaderV2, SendReplyHeader
from gantry_wire.limits import TOPIC_QUEUES_DEFAULT
from gantry_wire.names import AUTO_CREATE_TOPIC
from gantrymq.errors import GantryError
from gantrymq.message import Message, MessageQueue, SendResult, SendStatus
from gantrymq.producer.sending.preparing import Prepared

if TYPE_CHECKING:
    from gantrymq.connection.acl import Signer
    from gantrymq.hooks import SendContext

STATUS = {
    0: SendStatus.SEND_OK,
    10: SendStatus.FLUSH_DISK_TIMEOUT,
    11: SendStatus.SLAVE_NOT_AVAILABLE,
    12: SendStatus.FLUSH_SLAVE_TIMEOUT,
}
BAD_ANSWER = 1


class Answered(Protocol):
    """Takes stored sends, and resolves them in portions."""

    def add(self, send: Send, reply: SendReplyHeader) -> None:
        """Take a send and the broker's reply to it."""


class Owner(Protocol):
    """The producer, as seen by a send."""

    tries: int
    signer: Signer | None

    @property
    def answers(self) -> Answered:
        """The receiver of stored sends."""
        ...

    def finished(self, send: Send) -> None:
        """Count a successful send."""

    def failed(self, send: Send, error: BrokerRefused | LinkError) -> None:
        """Retry the send, or fail it."""

    def retries_unless_ok(self, send: Send) -> bool:
        """Whether a message that was stored with less durability is sent again."""
        ...

    def after_send(
        self, context: SendContext, results: Sequence[SendResult | None], error: GantryError | None
    ) -> None:
        """Call the hooks."""


class Target:
    """A queue as the target of sends."""

    __slots__ = ("add", "address", "group", "pattern", "queue", "topic")

    def __init__(
        self, queue: MessageQueue, address: str, group: str, topic: str, add: Callable[[Send], None]
    ) -> None:
        """`topic` is the cluster's name; `queue` has the user's; `add` adds a send to the batch of its broker."""
        self.queue: MessageQueue = queue
        self.address: str = address
        self.add: Callable[[Send], None] = add
        self.group: str = group
        self.topic: str = topic
        self.pattern: SendPattern = SendPattern(self.header(0, 0, 0, ""))

    def header(self, born_ms: int, sys_flag: int, flag: int, properties: str) -> SendHeaderV2:
        """Return the header of a request to this queue."""
        return SendHeaderV2(
            producer_group=self.group,
            topic=self.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=TOPIC_QUEUES_DEFAULT,
            queue_id=self.queue.queue_id,
            sys_flag=sys_flag,
            born_timestamp=born_ms,
            flag=flag,
            properties=properties,
            reconsume_times=0,
            unit_mode=False,
            batch=False,
            broker_name=self.queue.broker,
        )


NOWHERE: Target = Target(MessageQueue("", "", -1), "", "", "", lambda _send: None)
"""The target of a send whose queue is not chosen yet."""


Kept: TypeAlias = tuple[Target, SendStatus, SendReplyHeader]
"""Where, how and with which answer of the broker a message was stored."""


class Send(msgspec.Struct, eq=False):
    """A message being sent. A Struct: one is created per message, in a third of the time of a plain class."""

    code: ClassVar[int] = RequestCode.SEND_MESSAGE_V2
    sender: Owner
    message: Message
    prepared: Prepared
    future: asyncio.Future[Any]
    deadline: float
    born_ms: int
    target: Target = NOWHERE
    started: float = 0.0
    tries_done: int = 0
    waits_done: int = 0
    """How often it waited for another replica to lead its broker."""
    is_fixed: bool = False
    """The user chose the queue: no other may be used."""
    kind: str = "normal"
    context: SendContext | None = None
    size: int = 1
    """The number of its messages."""
    is_in_doubt: bool = False
    """An earlier try got no answer, and may have stored it."""
    kept: Kept | None = None
    """An earlier try that stored it with less durability."""

    @property
    def is_special(self) -> bool:
        """Whether its header differs from its target's template."""
        return self.prepared.sys_flag != 0 or self.message.flag != 0 or self.sender.signer is not None

    @property
    def tries_left(self) -> int:
        """How often it may be retried."""
        return self.sender.tries - self.tries_done

    @property
    def messages(self) -> Sequence[Message]:
        """The messages."""
        return (self.message,)

    @property
    def topic(self) -> str:
        """The user's name of the topic."""
        return self.message.topic

    def frame(self, opaque: int, *, oneway: bool = False) -> bytes:
        """Return the request."""
        properties, body, sys_flag = self.prepared
        target = self.target
        if not oneway and not self.is_special:
            return target.pattern.frame(self.born_ms, properties, body, opaque)
        header = target.header(self.born_ms, sys_flag, self.message.flag, properties)
        signer = self.sender.signer
        fields = header if signer is None else signer(header, body)
        return encode_request(self.code, opaque, fields, body, oneway=oneway)

    # Called by the connection

    def done(self) -> bool:
        """Return False: a send cannot be withdrawn, its outcome counts even without a waiter."""
        return False

    def set_result(self, answer: Command, /) -> None:
        """Handle the broker's answer."""
        reply = answer.fields
        if answer.code == 0 and type(reply) is SendReplyHeader:  # the usual case
            self.sender.answers.add(self, reply)
            return
        if answer.code not in STORED:
            self.sender.failed(self, refusal(answer))
            return
        try:
            reply = answer.read(SendReplyHeader)
        except WireError as error:
            self.sender.failed(self, BrokerRefused(BAD_ANSWER, f"the answer cannot be read: {error}"))
            return
        if answer.code and self.sender.retries_unless_ok(self):
            self.kept = self.target, STATUS[answer.code], reply
            self.sender.failed(self, BrokerRefused(BAD_ANSWER, STATUS[answer.code].value))
            return
        self.stored(STATUS[answer.code], reply)

    def set_exception(self, error: LinkError, /) -> None:
        """Handle a missing answer."""
        self.sender.failed(self, error)

    # Outcome

    def stored(self, status: SendStatus, reply: SendReplyHeader) -> None:
        """Report success."""
        self.sender.finished(self)
        queue = self.target.queue
        if reply.queue_id != queue.queue_id:
            queue = queue._replace(queue_id=reply.queue_id)
        message_id = self.message.unique_id or ""
        if reply.duplicate:  # the stored message is the first one, under its own id
            message_id = reply.transaction_id or message_id
        result = SendResult(
            message_id, queue, reply.queue_offset, reply.msg_id, status,
            reply.transaction_id, reply.recall_handle, reply.msg_region, reply.trace_on != "false",
            bool(reply.duplicate),
        )  # fmt: skip
        if self.context is not None:
            self.sender.after_send(self.context, (result,), None)
        if not self.future.done():
            self.future.set_result(result)

    def keep(self, kept: Kept) -> None:
        """Report success with an earlier try, because no later one succeeded."""
        self.target, status, reply = kept
        self.stored(status, reply)

    def fail(self, error: GantryError) -> None:
        """Report failure."""
        if self.context is not None:
            self.sender.after_send(self.context, (), error)
        if not self.future.done():
            self.future.set_exception(error)


class ReplySend(Send, eq=False):
    """The reply to a request: 325, which the broker passes to the requester."""

    code: ClassVar[int] = RequestCode.SEND_REPLY_MESSAGE_V2
    kind: str = "reply"

    @property
    def is_special(self) -> bool:
        """Return True: its template is that of 310."""
        return True
