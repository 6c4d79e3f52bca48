"""The typed client of one broker: sends and pulls messages, reads and commits offsets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec

from gantry_link.calling.send_pattern import SendPattern
from gantry_link.calling.store_calls import BULK, refusal
from gantry_link.calling.waiting import Waiting
from gantry_link.clients.store_admin import StoreAdminCalls
from gantry_link.connections.calls import Answer
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.codes import STORED, GantryCode, RequestCode, ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_request
from gantry_wire.headers.messages import (
    EndPullHeader,
    OffsetReplyHeader,
    PullHeader,
    PullReplyHeader,
    QueryConsumerOffsetHeader,
    QueryMessageHeader,
    QueueHeader,
    SearchOffsetHeader,
    SendHeaderV2,
    SendReplyHeader,
    TimestampReplyHeader,
    UpdateConsumerOffsetHeader,
    ViewMessageHeader,
)
from gantry_wire.limits import BODY_BYTES_MAX, PER_ITEM_BATCH_BYTES_MAX
from gantry_wire.messages.batch import BatchItem, encode_batch

HOLD_MARGIN_SECONDS = 5.0
"""Extra time-out of a held pull, after the end of its hold."""

PULLED = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


class Stored(NamedTuple):
    """A message is in the log. A `code` other than 0 means less durability than requested."""

    code: int
    reply: SendReplyHeader


class BatchItemStored(msgspec.Struct, kw_only=True, rename="camel"):
    """Result of one message of a batch. `code` 0: stored or duplicate; else refused with `gantry_code`."""

    queue_offset: int = -1
    position: int = -1
    store_timestamp: int = 0
    uniq_key: str = ""
    queue_id: int = -1
    duplicate: bool = False
    code: int = 0
    gantry_code: str | None = None
    remark: str | None = None


class BatchStored(NamedTuple):
    """Result of a batch. `items` has one result per message if `per_item` was requested, else it is empty."""

    code: int
    reply: SendReplyHeader
    items: list[BatchItemStored]


class Pulled(NamedTuple):
    """Answer to a pull. `code`: 0 found, 19 nothing new, 20 nothing matched, 21 offset outside the queue."""

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    remark: str
    records: bytes
    """Consecutive records as stored in the log."""
    suggested_broker_id: int = 0
    """Broker id to pull from next; 0 is the master."""


OnPulled = Callable[[Pulled | BrokerRefused | LinkError | WireError], None]
"""Called with the answer to a pull, or with its error. It does not raise."""


def stored_of(answer: Command) -> Stored:
    """Decode the answer to a send. Raises BrokerRefused."""
    if answer.code not in STORED:
        raise refusal(answer)
    return Stored(answer.code, answer.read(SendReplyHeader))


def batch_stored_of(answer: Command) -> BatchStored:
    """Return the result in the answer to a batch. Raises BrokerRefused."""
    if answer.code not in STORED:
        raise refusal(answer)
    items = _decode_items(answer.body) if answer.body else []
    return BatchStored(answer.code, answer.read(SendReplyHeader), items)


def pulled_of(answer: Command) -> Pulled:
    """Decode the answer to a pull. Raises BrokerRefused, or WireError if it is unreadable."""
    if answer.code not in PULLED:
        raise refusal(answer)
    reply = answer.read(PullReplyHeader)
    return Pulled(
        answer.code,
        reply.next_begin_offset,
        reply.min_offset,
        reply.max_offset,
        answer.remark or "",
        answer.body,
        reply.suggest_which_broker_id,
    )


def _read_pull(answer: Command) -> Pulled | WireError:
    try:
        return pulled_of(answer)
    except WireError as error:
        return error


def _as_it_is(error: BrokerRefused | LinkError) -> BrokerRefused | LinkError:
    return error


_decode_items = msgspec.json.Decoder(list[BatchItemStored]).decode


class StoreClient(StoreAdminCalls):
    """Requests to one broker. Methods raise BrokerRefused, or LinkError with `sent`."""

    async def send(
        self, header: SendHeaderV2, body: bytes, *, timeout_seconds: float | None = None
    ) -> Stored:
        """310: send one message. After a LinkError with `sent` it is unknown whether the message is stored."""
        answer = await self.call(RequestCode.SEND_MESSAGE_V2, header, body, timeout_seconds=timeout_seconds)
        return stored_of(answer)

    def start_send(
        self,
        pattern: SendPattern,
        born_ms: int,
        properties: str,
        body: bytes,
        answer: Answer,
    ) -> None:
        """310 with the header of `pattern`. `answer` receives the command, for `stored_of`, or the LinkError."""
        self.start(answer, partial(pattern.frame, born_ms, properties, body))

    def start_send_batch(
        self,
        header: SendHeaderV2,
        items: list[BatchItem],
        answer: Answer,
    ) -> None:
        """320: store messages of one queue, all or none; with `header.per_item` each has its own result.

        `answer` receives the command, for `batch_stored_of`, or the LinkError. Raises MalformedBatch for a batch that is too large.
        """
        body = encode_batch(items, PER_ITEM_BATCH_BYTES_MAX if header.per_item else BODY_BYTES_MAX)
        code = RequestCode.SEND_BATCH_MESSAGE
        self.start(answer, lambda opaque: encode_request(code, opaque, header, body))

    async def pull(self, header: PullHeader, *, timeout_seconds: float | None = None) -> Pulled:
        """11: read messages of one queue. The broker holds the pull as the header requests."""
        if timeout_seconds is None:
            timeout_seconds = max(
                self.timeout_seconds, header.suspend_timeout_millis / 1000 + HOLD_MARGIN_SECONDS
            )
        answer = await self.call(
            RequestCode.PULL_MESSAGE, header, connection_class=BULK, timeout_seconds=timeout_seconds
        )
        return pulled_of(answer)

    def begin_pull(self, header: PullHeader, on_result: OnPulled, timeout_seconds: float) -> bool:
        """11, without a task. Returns False and does nothing if no connection is open or it is busy.

        Passes the result or the exception of `pull` to the callback, in the turn in which the answer arrives.
        """
        connection = self.pool.get_nowait(self.address, BULK)
        if connection is None:
            return False
        try:
            answer = Waiting(_read_pull, _as_it_is, on_result)
            connection.request_for(answer, RequestCode.PULL_MESSAGE, header, timeout=timeout_seconds)
        except LinkError:
            return False
        return True

    def end_pull(self, wait_id: int) -> None:
        """9035, one-way: end the held pull with this `wait_id`. Uses the connection on which the pull was sent."""
        connection = self.pool.get_nowait(self.address, BULK)
        if connection is not None:
            with suppress(LinkError):  # then the pull ends with its connection or times out
                connection.oneway(GantryCode.END_PULL, EndPullHeader(wait_id=wait_id), b"")

    async def view_message(self, position: int, topic: str | None = None) -> bytes:
        """33: return the record at a position of the log. Raises BrokerRefused with code 1 if there is none."""
        header = ViewMessageHeader(offset=position, topic=topic)
        return (await self.ask(RequestCode.VIEW_MESSAGE_BY_ID, header, connection_class=BULK)).body

    async def query_messages(self, header: QueryMessageHeader) -> bytes:
        """12: return records by key or unique key; empty if there are none."""
        answer = await self.call(RequestCode.QUERY_MESSAGE, header, connection_class=BULK)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return b""
        if answer.code:
            raise refusal(answer)
        return answer.body

    async def max_offset(self, topic: str, queue_id: int) -> int:
        """30: return the offset of the next message of a queue."""
        return await self._offset(RequestCode.GET_MAX_OFFSET, QueueHeader(topic=topic, queue_id=queue_id))

    async def min_offset(self, topic: str, queue_id: int) -> int:
        """31: return the offset of the oldest message in a queue."""
        return await self._offset(RequestCode.GET_MIN_OFFSET, QueueHeader(topic=topic, queue_id=queue_id))

    async def search_offset(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: str | None = None
    ) -> int:
        """29: return the offset of a queue by store time; boundary LOWER (default) or UPPER."""
        header = SearchOffsetHeader(
            topic=topic, queue_id=queue_id, timestamp=timestamp_ms, boundary_type=boundary
        )
        return await self._offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """32: return the store time in ms of a queue's oldest message, or -1."""
        header = QueueHeader(topic=topic, queue_id=queue_id)
        answer = await self.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, header)
        return answer.read(TimestampReplyHeader).timestamp

    async def consumer_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """14: return a group's committed offset, or None."""
        header = QueryConsumerOffsetHeader(consumer_group=group, topic=topic, queue_id=queue_id)
        answer = await self.call(RequestCode.QUERY_CONSUMER_OFFSET, header)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code:
            raise refusal(answer)
        return answer.read(OffsetReplyHeader).offset

    async def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """15: commit a group's offset and wait for the answer."""
        await self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, _commit(group, topic, queue_id, offset))

    async def commit_offset_oneway(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """15, one-way: commit a group's offset without waiting, as consumers do every few seconds."""
        await self.tell(RequestCode.UPDATE_CONSUMER_OFFSET, _commit(group, topic, queue_id, offset))

    async def is_reachable(self) -> bool:
        """Return whether a connection to the broker exists or can be made now."""
        try:
            await self.pool.get(self.address)
        except LinkError:
            return False
        return True

    async def _offset(self, code: RequestCode, header: QueueHeader | SearchOffsetHeader) -> int:
        return (await self.ask(code, header)).read(OffsetReplyHeader).offset


def _commit(group: str, topic: str, queue_id: int, offset: int) -> UpdateConsumerOffsetHeader:
    return UpdateConsumerOffsetHeader(
        consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
    )
