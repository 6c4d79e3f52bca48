"""One request of a producer on its way: makes the frame, takes the answer, ends the future of whoever waits.

A Send is the link's Answer itself: no future, task or timer stands between the connection and the user's future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from gantry.errors import GantryError
from gantry.message import Message, SendResult, SendStatus
from gantry.producer.preparing import Prepared
from gantry.producer.targets import NOWHERE, Target
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.store_calls import refusal
from gantry_wire.codes import STORED, RequestCode
from gantry_wire.encode import encode_request
from gantry_wire.errors import WireError
from gantry_wire.frame import Command
from gantry_wire.headers import SendReplyHeader

if TYPE_CHECKING:
    from gantry.hooks import SendContext
    from gantry.producer.sender import Sender

STATUS = {
    0: SendStatus.SEND_OK,
    10: SendStatus.FLUSH_DISK_TIMEOUT,
    11: SendStatus.SLAVE_NOT_AVAILABLE,
    12: SendStatus.FLUSH_SLAVE_TIMEOUT,
}
BAD_ANSWER = 1


class Send(msgspec.Struct, eq=False):
    """A message that is being sent. A Struct: one is made for each message, in a third of the time of a plain class."""

    code: ClassVar[int] = RequestCode.SEND_MESSAGE_V2
    sender: Sender
    message: Message
    prepared: Prepared
    future: asyncio.Future[Any]
    deadline: float
    born_ms: int
    target: Target = NOWHERE
    started: float = 0.0
    tries_done: int = 0
    is_fixed: bool = False
    """The queue was chosen by the user: no other will do."""
    kind: str = "normal"
    context: SendContext | None = None
    size: int = 1
    """How many messages it carries."""

    @property
    def is_special(self) -> bool:
        """Whether its header is not its target's pattern."""
        return self.prepared.sys_flag != 0 or self.message.flag != 0 or self.sender.signer is not None

    @property
    def tries_left(self) -> int:
        """How often it may be sent again."""
        return self.sender.tries - self.tries_done

    @property
    def messages(self) -> Sequence[Message]:
        """What is sent."""
        return (self.message,)

    @property
    def topic(self) -> str:
        """The topic as the user knows it."""
        return self.message.topic

    def frame(self, opaque: int, *, oneway: bool = False) -> bytes:
        """Return the request."""
        properties, body, sys_flag = self.prepared
        target = self.target
        if not oneway and not self.is_special:
            return target.pattern.frame(opaque, self.born_ms, properties, body)
        header = target.header(self.born_ms, sys_flag, self.message.flag, properties)
        signer = self.sender.signer
        fields = header if signer is None else signer(header, body)
        return encode_request(self.code, opaque, fields, body, oneway=oneway)

    # What the connection calls

    def done(self) -> bool:
        """Return False: a send is not taken back, its outcome counts even where nobody waits."""
        return False

    def set_result(self, answer: Command, /) -> None:
        """Take the broker's answer."""
        reply = answer.fields
        if answer.code == 0 and type(reply) is SendReplyHeader:  # nearly always: the rest is for what is not
            self.sender.answers.add(self, reply)
            return
        if answer.code not in STORED:
            self.sender.failed(self, refusal(answer))
            return
        try:
            reply = answer.read(SendReplyHeader)
        except WireError as error:
            self.sender.failed(self, BrokerRefused(BAD_ANSWER, f"an answer that cannot be read: {error}"))
            return
        if answer.code and self.sender.retries_unless_ok(self):
            self.sender.failed(self, BrokerRefused(BAD_ANSWER, STATUS[answer.code].value))
            return
        self.stored(STATUS[answer.code], reply)

    def set_exception(self, error: LinkError, /) -> None:
        """Take the reason why there is no answer."""
        self.sender.failed(self, error)

    # How it ends

    def stored(self, status: SendStatus, reply: SendReplyHeader) -> None:
        """End well."""
        self.sender.finished(self)
        queue = self.target.queue
        if reply.queue_id != queue.queue_id:
            queue = queue._replace(queue_id=reply.queue_id)
        message_id = self.message.unique_id or ""
        if reply.duplicate:  # what lies there is the first message, under its own id
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

    def fail(self, error: GantryError) -> None:
        """End badly."""
        if self.context is not None:
            self.sender.after_send(self.context, (), error)
        if not self.future.done():
            self.future.set_exception(error)


class ReplySend(Send, eq=False):
    """The answer to a request: 325, which the broker hands to who asked."""

    code: ClassVar[int] = RequestCode.SEND_REPLY_MESSAGE_V2
    kind: str = "reply"

    @property
    def is_special(self) -> bool:
        """Return True: the pattern is that of 310."""
        return True
