"""One request of a producer on its way: makes the frame, takes the answer, ends the future of whoever waits.

A Send is the link's Answer itself: no future, task or timer stands between the connection and the user's future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gantry.errors import GantryError
from gantry.message import Message, SendResult, SendStatus
from gantry.producer.preparing import Prepared
from gantry.producer.targets import Target
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
_OK = SendStatus.SEND_OK
BAD_ANSWER = 1


class Send:
    """A message that is being sent, with the tries it has left."""

    size: int = 1
    """How many messages it carries."""
    __slots__ = (
        "born_ms", "code", "context", "deadline", "future", "is_fixed", "is_special", "kind", "message", "prepared",
        "sender", "started", "target", "tries_done", "tries_left",
    )  # fmt: skip

    def __init__(
        self,
        sender: Sender,
        message: Message,
        prepared: Prepared,
        future: asyncio.Future[Any],
        deadline: float,
        born_ms: int,
    ) -> None:
        self.sender: Sender = sender
        self.message: Message = message
        self.prepared: Prepared = prepared
        self.future: asyncio.Future[Any] = future
        self.deadline: float = deadline
        self.started: float = 0.0
        self.born_ms: int = born_ms
        self.target: Target
        self.tries_left: int = sender.tries
        self.tries_done: int = 0
        self.is_fixed: bool = False
        """The queue was chosen by the user: no other will do."""
        self.code: int = RequestCode.SEND_MESSAGE_V2
        self.is_special: bool = prepared.sys_flag != 0 or message.flag != 0 or sender.signer is not None
        """Its header is not its target's pattern."""
        self.kind: str = "normal"
        self.context: SendContext | None = None

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
        if not self.is_special and not oneway:
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
        self.sender.finished(self)
        self.stored(STATUS[answer.code] if answer.code else _OK, reply)

    def acknowledged(self, reply: SendReplyHeader) -> None:
        """End well, as nearly always."""
        self.sender.finished(self)
        self.stored(_OK, reply)

    def set_exception(self, error: LinkError, /) -> None:
        """Take the reason why there is no answer."""
        self.sender.failed(self, error)

    # How it ends

    def stored(self, status: SendStatus, reply: SendReplyHeader) -> None:
        """End well."""
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


class ReplySend(Send):
    """The answer to a request: 325, which the broker hands to who asked."""

    __slots__ = ()

    def __init__(
        self,
        sender: Sender,
        message: Message,
        prepared: Prepared,
        future: asyncio.Future[Any],
        deadline: float,
        born_ms: int,
    ) -> None:
        super().__init__(sender, message, prepared, future, deadline, born_ms)
        self.code: int = RequestCode.SEND_REPLY_MESSAGE_V2
        self.is_special = True
        self.kind = "reply"


class BatchSend(Send):
    """Several messages of one topic in one request (320): stored together in one queue, or not at all."""

    __slots__ = ("items", "size", "waiting")

    def __init__(
        self,
        sender: Sender,
        messages: Sequence[Message],
        items: Sequence[BatchItem],
        future: asyncio.Future[Any],
        deadline: float,
        born_ms: int,
    ) -> None:
        """`future` gets the results in the order of the messages."""
        properties = f"WAIT\x01{'true' if messages[0].wait_stored else 'false'}\x02"
        body = encode_batch(items, PER_ITEM_BATCH_BYTES_MAX)
        super().__init__(sender, messages[0], Prepared(properties, body, 0), future, deadline, born_ms)
        self.items: Sequence[Message] = messages
        self.size = len(messages)
        self.waiting: list[asyncio.Future[SendResult]] | None = None
        """Where each message has somebody waiting: they are told one by one in place of `future`."""
        self.code: int = RequestCode.SEND_BATCH_MESSAGE
        self.is_special = True
        self.kind = "batch"

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
