"""A request with several messages on its way: makes the frame, takes the answer, tells each message's own outcome.

A batch that holds idempotency keys asks the broker for a result of each message (`gantryPerItem`): a repeat lies elsewhere, and takes no
offset. A broker that knows no such thing, RocketMQ's own, stores all of them side by side, so its plain answer says enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from gantry.errors import GantryError, Refused
from gantry.message import Message, SendResult, SendStatus
from gantry.producer.batching.batches import Outcome
from gantry.producer.sending.preparing import Prepared
from gantry.producer.sending.send import BAD_ANSWER, Send
from gantry.producer.sending.sender import Sender
from gantry_link.errors import BrokerRefused
from gantry_link.store_client import BatchItemStored
from gantry_wire.batch import BatchItem, encode_batch
from gantry_wire.codes import STORED, RequestCode
from gantry_wire.encode import encode_request
from gantry_wire.frame import Command
from gantry_wire.headers import SendReplyHeader
from gantry_wire.limits import PER_ITEM_BATCH_BYTES_MAX

_decode_items = msgspec.json.Decoder(list[BatchItemStored]).decode


class BatchSend(Send, eq=False):
    """Several messages of one topic in one request (320): stored together in one queue, or not at all. Made by `batch_send`."""

    code: ClassVar[int] = RequestCode.SEND_BATCH_MESSAGE
    kind: str = "batch"
    items: Sequence[Message] = ()
    waiting: Sequence[asyncio.Future[SendResult]] | None = None
    """Where each message has somebody waiting: they are told one by one in place of `future`, which gets all outcomes."""
    per_item: bool = False
    """Whether some have idempotency keys: each asks for its own result."""
    told: Sequence[BatchItemStored] = ()
    """The broker's result of each message."""

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
        if self.per_item:
            header.per_item = True
        signer = self.sender.signer
        fields = header if signer is None else signer(header, body)
        return encode_request(self.code, opaque, fields, body, oneway=oneway)

    def set_result(self, answer: Command, /) -> None:
        """Take the broker's answer."""
        if self.per_item and answer.code in STORED and answer.body:
            try:
                self.told = _decode_items(answer.body)
            except msgspec.MsgspecError as error:
                words = f"an answer that cannot be read: {error}"
                self.sender.failed(self, BrokerRefused(BAD_ANSWER, words))
                return
            if len(self.told) != len(self.items):
                words = f"an answer with {len(self.told)} results for {len(self.items)} messages"
                self.sender.failed(self, BrokerRefused(BAD_ANSWER, words))
                return
        super().set_result(answer)

    def stored(self, status: SendStatus, reply: SendReplyHeader) -> None:
        """End well, for each message, or for all but those that the broker refused by themselves."""
        self.sender.finished(self)
        outcomes = self._told_each(status, reply) if self.told else self._in_a_row(status, reply)
        if self.context is not None:
            results = [each if isinstance(each, SendResult) else None for each in outcomes]
            error = next((each for each in outcomes if isinstance(each, GantryError)), None)
            self.sender.after_send(self.context, results, error)
        if self.waiting is None:
            if not self.future.done():
                self.future.set_result(outcomes)
            return
        for future, outcome in zip(self.waiting, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, SendResult):
                future.set_result(outcome)
            else:
                future.set_exception(outcome)

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

    def _in_a_row(self, status: SendStatus, reply: SendReplyHeader) -> Sequence[Outcome]:
        """Return results for messages that lie side by side."""
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
        return [
            SendResult(
                message.unique_id or "", queue, first + n, ids[n], status, None, None, region, trace_on
            )
            for n, message in enumerate(self.items)
        ]

    def _told_each(self, status: SendStatus, reply: SendReplyHeader) -> Sequence[Outcome]:
        """Return what the broker says of each message."""
        queue, region, trace_on = self.target.queue, reply.msg_region, reply.trace_on != "false"
        ids = reply.msg_id.split(",")
        ids += [""] * (len(self.items) - len(ids))
        outcomes: list[Outcome] = []
        for message, item, offset_message_id in zip(self.items, self.told, ids, strict=False):
            if item.code:
                doing = f"sending to topic {message.topic} (broker {queue.broker} at {self.target.address})"
                outcomes.append(Refused(item.code, item.remark or "", doing, item.gantry_code))
                continue
            message_id = message.unique_id or ""
            outcomes.append(
                SendResult(
                    item.uniq_key if item.duplicate else message_id, queue._replace(queue_id=item.queue_id),
                    item.queue_offset, offset_message_id, status, None, None, region, trace_on, item.duplicate,
                )
            )  # fmt: skip
        return outcomes


def batch_send(
    sender: Sender,
    messages: Sequence[Message],
    items: Sequence[BatchItem],
    future: asyncio.Future[Any],
    deadline: float,
    born_ms: int,
    *,
    per_item: bool,
    waiting: Sequence[asyncio.Future[SendResult]] | None = None,
) -> BatchSend:
    """Return the send of a batch. `future` gets the outcomes in the order of the messages, unless they are `waiting` one by one."""
    properties = f"WAIT\x01{'true' if messages[0].wait_stored else 'false'}\x02"
    body = encode_batch(items, PER_ITEM_BATCH_BYTES_MAX)
    prepared = Prepared(properties, body, 0)
    return BatchSend(
        sender, messages[0], prepared, future, deadline, born_ms, size=len(messages), items=messages,
        waiting=waiting, per_item=per_item,
    )  # fmt: skip
