# ruff: noqa: D102 - the Protocols say what these methods promise
"""Entries of the group commit: one message with its request, its position and its offset.

An entry is placed (gets position and offset, puts its bytes into the open batch), then made visible, then
answered. Message is a plain slots class because the hot path touches every field once per stage.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol

from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import RecordWriter, whole_row
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.encode import encode_response, encode_send_reply
from gantry_wire.messages.ids import offset_message_id
from gantry_wire.messages.properties import index_key_hash

IndexEntry = tuple[int, int, int]
"""Hash of topic and key, position, store time in ms."""
Arrivals = dict[Queue, list[int]]
"""Tags codes of newly readable messages by queue, in offset order."""

KEYS_PER_MESSAGE_MAX = 1024

FSYNC_FIELD = b',"durability":"fsync"'
WRITTEN_FIELD = b',"durability":"written"'


class Mode(IntEnum):
    """When a message is answered and when it becomes visible."""

    ASYNC = 0
    """Both after the write."""
    SYNC = 1
    """Both after the flush."""
    EARLY = 2
    """Answered after the write (WAIT=false), visible after the flush."""
    ALONE_WRITTEN = 3
    """With asynchronous replication: answered after the write, visible once the group has confirmed it."""
    ALONE = 4
    """With asynchronous replication: answered once the leader's own disk has it, visible once the group has confirmed it."""


ALONE_OF: Mapping[Mode, Mode] = {
    Mode.ASYNC: Mode.ALONE_WRITTEN,
    Mode.EARLY: Mode.ALONE_WRITTEN,
    Mode.SYNC: Mode.ALONE,
}
"""With asynchronous replication: the mode of a plain send whose topic, or sender, asks for another one."""


class ReplyTo(Protocol):
    """Destination of an answer."""

    def send(self, data: bytes) -> None:
        """Queue bytes for the end of this turn."""
        ...


class Entry(Protocol):
    """One entry of the group commit: a message, a batch or a system record."""

    mode: Mode
    count: int
    """Number of requests that its answer serves."""

    def place(self, at: RecordWriter) -> None:
        """Place its records, if any. Raises LogError and then changes nothing."""
        ...

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        """Append units to the queue; add to the batch's index entries and arrivals."""
        ...

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        """Send the message's position to its sender.

        `code` is not SUCCESS when less than the requested durability holds. Call once.
        """
        ...

    def refuse(self, refusal: RefusedRequest) -> None:
        """Send the refusal: not stored, or result unknown. Call once."""
        ...


class Message:
    """A single message. `peer` is None for one-way sends and for the store's own messages."""

    count = 1
    __slots__ = (
        "body",
        "born_host",
        "born_ms",
        "flag",
        "keys",
        "mode",
        "offset",
        "opaque",
        "peer",
        "position",
        "properties",
        "queue",
        "reconsume_times",
        "size",
        "store_ms",
        "sys_flag",
        "tags_code",
        "unique_key",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - a message has these fields, and there is time for one call per message
        self,
        queue: Queue,
        body: bytes,
        properties: bytes,
        tags_code: int,
        unique_key: str,
        keys: str | None,
        mode: Mode,
        peer: ReplyTo | None,
        opaque: int,
        flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        reconsume_times: int,
    ) -> None:
        self.queue = queue
        self.body = body
        self.properties = properties
        self.tags_code = tags_code
        self.unique_key = unique_key
        self.keys = keys
        self.mode = mode
        self.peer = peer
        self.opaque = opaque
        self.flag = flag
        self.sys_flag = sys_flag
        self.born_ms = born_ms
        self.born_host = born_host
        self.reconsume_times = reconsume_times
        self.position = -1
        self.offset = -1
        self.size = 0
        self.store_ms = 0

    def place(self, at: RecordWriter) -> None:
        row = whole_row(
            self.queue, self.body, self.properties, self.flag, self.sys_flag, self.born_ms, self.reconsume_times, 0,
            self.tags_code, self.unique_key, self.keys, None,
        )  # fmt: skip
        ((_, self.offset, self.position, self.size, _, _, _, _),) = at.place((row,), row[7], self.born_host)
        self.store_ms = at.store_ms
        self.body = self.properties = (
            b""  # the record holds them now; keeps thousands of waiting messages small
        )

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        queue, position = self.queue, self.position
        queue.units.append(self.offset, position, self.size, self.tags_code)
        topic = queue.topic
        if self.unique_key:
            index.append((index_key_hash(topic, self.unique_key), position, self.store_ms))
        if self.keys:
            index += key_entries(topic, self.keys, position, self.store_ms)
        if arrivals is not None:
            arrivals.setdefault(queue, []).append(self.tags_code)

    def reply_place(self) -> tuple[int, dict[str, str]]:
        """Return the queue id for the sender and further fields of its answer."""
        return self.queue.queue_id, {}

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        peer, self.peer = self.peer, None
        if peer is None:
            return
        message_id = offset_message_id(at.store_host, self.position)
        if not code:
            extra = FSYNC_FIELD if self.mode == Mode.SYNC else WRITTEN_FIELD
            peer.send(
                encode_send_reply(
                    self.opaque, message_id, self.queue.queue_id, self.offset, self.unique_key, extra
                )
            )
            return
        fields = reply_fields(message_id, self.queue.queue_id, self.offset, self.unique_key)
        peer.send(encode_response(code, self.opaque, fields, remark=code.name))

    def refuse(self, refusal: RefusedRequest) -> None:
        peer, self.peer = self.peer, None
        if peer is not None:
            peer.send(refusal_frame(self.opaque, refusal))


def reply_fields(message_id: str, queue_id: int, offset: int, unique_key: str) -> dict[str, str]:
    """Return the reply fields of a message that is written but not known to be flushed."""
    return {
        "msgId": message_id,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "transactionId": unique_key,
        "durability": "written",
    }


def refusal_frame(opaque: int, refusal: RefusedRequest) -> bytes:
    """Return the error reply to one request."""
    return encode_response(refusal.code, opaque, refusal.fields, remark=refusal.remark)


def key_entries(topic: str, keys: str, position: int, store_ms: int) -> list[IndexEntry]:
    """Return one index entry per word of a KEYS property, at most KEYS_PER_MESSAGE_MAX."""
    words = keys.split(None, KEYS_PER_MESSAGE_MAX)[:KEYS_PER_MESSAGE_MAX]
    return [(index_key_hash(topic, word), position, store_ms) for word in words]
