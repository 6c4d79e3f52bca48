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
from gantry_wire.batch import BatchItem, encode_batch
from gantry_wire.codes import STORED, RequestCode
from gantry_wire.encode import encode_request
from gantry_wire.errors import WireError
from gantry_wire.frame import Command
from gantry_wire.headers import SendReplyHeader
from gantry_wire.limits import PER_ITEM_BATCH_BYTES_MAX

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
        result = SendResult(
            self.message.unique_id or "", queue, reply.queue_offset, reply.msg_id, status,
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


class BatchSend(Send, eq=False):
    """Several messages of one topic in one request (320): stored together in one queue, or not at all. Made by `batch_send`."""

    code: ClassVar[int] = RequestCode.SEND_BATCH_MESSAGE
    kind: str = "batch"
    items: Sequence[Message] = ()
    waiting: list[asyncio.Future[SendResult]] | None = None
    """Where each message has somebody waiting: they are told one by one in place of `future`."""

    @property
    def is_special(self) -> bool:
        """Return True: the pattern is that of 310."""
        return True

    @property
    def messages(self) -> Sequence[Message]:
        """What is sent."""
        return self.items

    def frame(self, opaque: int, *, oneway: bool = False) -> bytes:
        """Return the request."""
        properties, body, _ = self.prepared
        header = self.target.header(self.born_ms, 0, 0, properties)
        header.batch = True
        signer = self.sender.signer
        fields = header if signer is None else signer(header, body)
        return encode_request(self.code, opaque, fields, body, oneway=oneway)

    def stored(self, status: SendStatus, reply: SendReplyHeader) -> None:
        """End well, for each message."""
        self.sender.finished(self)
        ids = reply.msg_id.split(",")
        ids += [""] * (len(self.items) - len(ids))
        queue, first, region, trace_on = (
            self.target.queue,
            reply.queue_offset,
            reply.msg_region,
            reply.trace_on != "false",
        )
        if reply.queue_id != queue.queue_id:
            queue = queue._replace(queue_id=reply.queue_id)
        results = [
            SendResult(
                message.unique_id or "", queue, first + n, ids[n], status, None, None, region, trace_on
            )
            for n, message in enumerate(self.items)
        ]
        if self.context is not None:
            self.sender.after_send(self.context, results, None)
        if self.waiting is None:
            if not self.future.done():
                self.future.set_result(results)
            return
        for future, result in zip(self.waiting, results, strict=True):
            if not future.done():
                future.set_result(result)

    def fail(self, error: GantryError) -> None:
        """End badly, for each message."""
        if self.waiting is None:
            super().fail(error)
            return
        if self.context is not None:
            self.sender.after_send(self.context, (), error)
        for future in self.waiting:
            if not future.done():
                future.set_exception(error)


def batch_send(
    sender: Sender,
    messages: Sequence[Message],
    items: Sequence[BatchItem],
    future: asyncio.Future[Any],
    deadline: float,
    born_ms: int,
) -> BatchSend:
    """Return the send of a batch. `future` gets the results in the order of the messages."""
    properties = f"WAIT\x01{'true' if messages[0].wait_stored else 'false'}\x02"
    body = encode_batch(items, PER_ITEM_BATCH_BYTES_MAX)
    prepared = Prepared(properties, body, 0)
    return BatchSend(
        sender, messages[0], prepared, future, deadline, born_ms, items=messages, size=len(messages)
    )
