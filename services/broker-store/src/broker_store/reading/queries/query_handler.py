"""Queries (12, 33, 29 to 32): messages by key and by position, offsets by time, bounds of queues."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker_store.log.errors import LogError
from broker_store.ports import Commands, InThread, KeyIndex, LogReader, Peer, QueueTable, TopicTable
from broker_store.reading.queries.offset_search import Searching
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedRecord, RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.messages import (
    QueryMessageHeader,
    QueueHeader,
    SearchOffsetHeader,
    ViewMessageHeader,
)
from gantry_wire.messages.properties import KEYS, UNIQ_KEY, find_property, index_key_hash
from gantry_wire.records.message_record import Record, decode_record

QUERY_MESSAGES_MAX = 64
"""Messages per query (RocketMQ's maxMsgsNumBatch)."""
UNIQUE_KEY_MESSAGES = 32
"""Copies searched by unique key (defaultQueryMaxNum)."""
REPLY_BYTES_MAX = 8 * 1024 * 1024
_CANDIDATES_FACTOR = 4
"""Index entries checked per requested message: some belong to other keys of the same hash."""


@dataclass(frozen=True, slots=True)
class QueryHandlers:
    """Answers queries about single messages and offsets."""

    log: LogReader
    queues: QueueTable
    topics: TopicTable
    index: KeyIndex | None
    index_trouble: Callable[[], str | None]
    """Why the index cannot answer now (it is being built), None when it can."""
    searching: Searching
    deferred: DeferredReplies
    in_thread: InThread

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            12: ("query", self.by_key),
            33: ("query", self.by_position),
            29: ("adminBroker", self.offset_by_time),
            30: ("adminBroker", self.max_offset),
            31: ("adminBroker", self.min_offset),
            32: ("adminBroker", self.earliest_time),
        }

    def by_key(self, peer: Peer, command: Command) -> None:
        """Handle 12: messages of a topic by key or unique key, within a time range."""
        header = command.read(QueryMessageHeader)
        index = self.index
        if index is None:
            remark = "this broker keeps no index: start it with messageIndexEnable=true"
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, remark)
        trouble = self.index_trouble()
        if trouble is not None:
            raise RefusedRequest(
                ResponseCode.SERVICE_NOT_AVAILABLE, trouble, {"gantryCode": "INDEX_BUILDING"}
            )
        self.deferred.answer(peer, command, self._by_key(command, header, index))

    def by_position(self, peer: Peer, command: Command) -> None:
        """Handle 33: the message at a position."""
        position = command.read(ViewMessageHeader).offset
        self.deferred.answer(peer, command, self._by_position(command, position))

    def offset_by_time(self, peer: Peer, command: Command) -> None:
        """Handle 29: the offset at a store time."""
        header = command.read(SearchOffsetHeader)
        upper = (header.boundary_type or "").upper() == "UPPER"
        self.deferred.answer(peer, command, self._offset_by_time(command, header, upper=upper))

    def max_offset(self, _peer: Peer, command: Command) -> bytes:
        """Handle 30: one above the newest readable offset."""
        header = command.read(QueueHeader)
        queue = self.queues.find(header.topic, header.queue_id)
        return _offset_reply(command, 0 if queue is None else queue.max_offset)

    def min_offset(self, _peer: Peer, command: Command) -> bytes:
        """Handle 31: the lowest offset that exists."""
        header = command.read(QueueHeader)
        queue = self.queues.find(header.topic, header.queue_id)
        return _offset_reply(command, 0 if queue is None else queue.min_offset)

    def earliest_time(self, peer: Peer, command: Command) -> None:
        """Handle 32: store time of the oldest message of a queue."""
        self.deferred.answer(peer, command, self._earliest_time(command, command.read(QueueHeader)))

    async def _by_key(self, command: Command, header: QueryMessageHeader, index: KeyIndex) -> bytes:
        is_unique = bool(header.unique_key_query)
        count_max = UNIQUE_KEY_MESSAGES if is_unique else min(max(header.max_num, 1), QUERY_MESSAGES_MAX)
        key_hash = index_key_hash(header.topic, header.key)
        begin_ms, end_ms = header.begin_timestamp, header.end_timestamp
        positions = index.lookup(key_hash, begin_ms, end_ms, count_max * _CANDIDATES_FACTOR)
        topic, key = header.topic.encode(), header.key.encode()

        def is_meant(record: Record) -> bool:
            return record.topic == topic and has_key(record.properties, key, only_unique=is_unique)

        found = await self.in_thread(_read_records, self.log, positions, is_meant)
        records: list[bytes] = []
        size = 0
        for record, data in sorted(
            found, key=lambda pair: -pair[0].position
        ):  # keep the newest if there are too many
            if len(records) < count_max and size + len(data) <= REPLY_BYTES_MAX and self._is_readable(record):
                records.append(data)
                size += len(data)
        records.reverse()
        if not records:
            remark = "can not find message, maybe time range not correct"
            raise RefusedRequest(ResponseCode.QUERY_NOT_FOUND, remark)
        newest_ms = (await self.searching.times([index.end_position]))[0]
        reply = {
            "indexLastUpdateTimestamp": str(max(newest_ms, 0)),
            "indexLastUpdatePhyoffset": str(index.end_position),
        }
        return encode_response(ResponseCode.SUCCESS, command.opaque, reply, b"".join(records))

    async def _by_position(self, command: Command, position: int) -> bytes:
        trouble = self.index_trouble()
        found = await self.in_thread(_read_records, self.log, [position], _any)
        if not found or not self._is_readable(found[0][0]):
            if trouble is not None:  # the rebuild may not have reached it
                remark = f"{trouble}, and has not reached {position}; try again in a moment"
                extra = {"gantryCode": "INDEX_BUILDING"}
                raise RefusedRequest(ResponseCode.SERVICE_NOT_AVAILABLE, remark, extra)
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {position}")
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=found[0][1])

    async def _offset_by_time(self, command: Command, header: SearchOffsetHeader, *, upper: bool) -> bytes:
        queue = self.queues.find(header.topic, header.queue_id)
        return _offset_reply(command, await self.searching.offset_at(queue, header.timestamp, upper=upper))

    async def _earliest_time(self, command: Command, header: QueueHeader) -> bytes:
        time_ms = await self.searching.first_time(self.queues.find(header.topic, header.queue_id))
        return encode_response(ResponseCode.SUCCESS, command.opaque, {"timestamp": str(time_ms)})

    def _is_readable(self, record: Record) -> bool:
        """Whether readers may see the record. Topics of both kinds share one visible end, so the queue decides."""
        topic = record.topic.decode(errors="replace")
        if self.topics.is_internal(topic):
            return False
        queue = self.queues.find(topic, record.queue_id)
        return queue is not None and record.queue_offset < queue.max_offset


def has_key(properties: bytes, key: bytes, *, only_unique: bool) -> bool:
    """Whether a message has this key as unique key or among its keys."""
    if find_property(properties, UNIQ_KEY.encode()) == key:
        return True
    if only_unique:
        return False
    return key in (find_property(properties, KEYS.encode()) or b"").split(b" ")


def _any(_record: Record) -> bool:
    return True


def _offset_reply(command: Command, offset: int) -> bytes:
    return encode_response(ResponseCode.SUCCESS, command.opaque, {"offset": str(offset)})


def _read_records(
    log: LogReader, positions: Sequence[int], is_meant: Callable[[Record], bool]
) -> list[tuple[Record, bytes]]:
    """Return the wanted records at the positions. Skips what is gone, damaged or no record."""
    found: list[tuple[Record, bytes]] = []
    for position in positions:
        try:
            data = log.read_record(position)
            record = decode_record(data)
        except (LogError, MalformedRecord):
            continue
        if record.position == position and is_meant(record):
            found.append((record, data))
    return found
