"""A request with several messages: makes the frame, handles the answer, reports the outcome of each message.

A batch with idempotency keys asks the broker for a result of each message (`gantryPerItem`): a duplicate has another place, and takes no
offset. A broker without this feature, such as RocketMQ's own, stores all of them consecutively, so its plain answer is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from gantry_link.clients.store import BatchItemStored
from gantry_link.errors import BrokerRefused
from gantry_wire.codes import STORED, RequestCode
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_request
from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.limits import PER_ITEM_BATCH_BYTES_MAX
from gantry_wire.messages.batch import BatchItem, encode_batch
from gantrymq.errors import GantryError, Refused
from gantrymq.message import Message, SendResult, SendStatus
from gantrymq.producer.batching.batches import Outcome
from gantrymq.producer.sending.preparing import Prepared
from gantrymq.producer.sending.send import BAD_ANSWER, Send
from gantrymq.producer.sending.sender import Sender

_decode_items = msgspec.json.Decoder(list[BatchItemStored]).decode


class BatchSend(Send, eq=False):
    """Several messages of one topic in one request (320): stored together in one queue, or not at all. Created by `batch_send`."""

    code: ClassVar[int] = RequestCode.SEND_BATCH_MESSAGE
    kind: str = "batch"
    items: Sequence[Message] = ()
    waiting: Sequence[asyncio.Future[SendResult]] | None = None
    """The future of each message, if they are waited for individually; they get the outcomes instead of `future`."""
    per_item: bool = False
    """Whether some have idempotency keys: the request then asks for individual results."""
    item_results: Sequence[BatchItemStored] = ()
    """The broker's result of each message."""

    @property
    def is_special(self) -> bool:
        """Return True: its template is that of 310."""
        return True

    @property
    def messages(self) -> Sequence[Message]:
        """The messages."""
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
        """Handle the broker's answer."""
        if self.per_item and answer.code in STORED and answer.body:
            try:
                self.item_results = _decode_items(answer.body)
            except msgspec.MsgspecError as error:
                words = f"the answer cannot be read: {error}"
                self.sender.failed(self, BrokerRefused(BAD_ANSWER, words))
                return
            if len(self.item_results) != len(self.items):
                words = f"the answer has {len(self.item_results)} results for {len(self.items)} messages"
                self.sender.failed(self, BrokerRefused(BAD_ANSWER, words))
                return
        super().set_result(answer)

    def stored(self, status: SendStatus, reply: SendReplyHeader) -> None:
        """Report success for each message, except those that the broker refused individually."""
        self.sender.finished(self)
        outcomes = (
            self._individual_results(status, reply)
            if self.item_results
            else self._consecutive_results(status, reply)
        )
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
        """Report failure for each message."""
        if self.waiting is None:
            super().fail(error)
            return
        if self.context is not None:
            self.sender.after_send(self.context, (), error)
        for future in self.waiting:
            if not future.done():
                future.set_exception(error)

    def _consecutive_results(self, status: SendStatus, reply: SendReplyHeader) -> Sequence[Outcome]:
        """Return the results of consecutive messages."""
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

    def _individual_results(self, status: SendStatus, reply: SendReplyHeader) -> Sequence[Outcome]:
        """Return the broker's result of each message."""
        queue, region, trace_on = self.target.queue, reply.msg_region, reply.trace_on != "false"
        ids = reply.msg_id.split(",")
        ids += [""] * (len(self.items) - len(ids))
        outcomes: list[Outcome] = []
        for message, item, offset_message_id in zip(self.items, self.item_results, ids, strict=False):
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
    """Return the send of a batch. `future` gets the outcomes in the order of the messages, unless `waiting` has individual futures."""
    properties = f"WAIT\x01{'true' if messages[0].wait_stored else 'false'}\x02"
    body = encode_batch(items, PER_ITEM_BATCH_BYTES_MAX)
    prepared = Prepared(properties, body, 0)
    return BatchSend(
        sender, messages[0], prepared, future, deadline, born_ms, size=len(messages), items=messages,
        waiting=waiting, per_item=per_item,
    )  # fmt: skip
