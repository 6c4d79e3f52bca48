# ruff: noqa: D102 - the Protocols say what these methods promise
"""Consecutive plain messages of one client for one topic, as one entry of the group commit.

Each stage loops over the messages. The calls between stages cost as much as the work, and a run pays them
once. Each message still gets its own position, visibility and answer.
"""

from zlib import crc32

from broker_store.commit.message import (
    FSYNC_FIELD,
    WRITTEN_FIELD,
    Arrivals,
    IndexEntry,
    Mode,
    ReplyTo,
    refusal_frame,
    reply_fields,
)
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import Placed, RecordWriter, Row
from broker_store.commit.targets import Target
from broker_store.commit.visible.visible_records import show
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.encode import encode_response, encode_send_replies
from gantry_wire.messages.ids import offset_message_id
from gantry_wire.records.message_record import CRC_MASK, properties_length

RUN_BYTES_MAX = 256 * 1024
"""A run lies in one segment, so it is bounded by this. A larger message is a run of its own."""


class RecordTemplate:
    """What plain messages share that have the same queue, flags and size of properties."""

    __slots__ = (
        "flag",
        "is_oneway",
        "middle",
        "queue",
        "reconsume_times",
        "size",
        "suffix",
        "target",
        "topic",
    )  # fmt: skip

    def __init__(
        self, target: Target, queue: Queue, flag: int, reconsume_times: int, text_size: int, suffix: bytes,
        is_oneway: bool,
    ) -> None:  # fmt: skip
        self.target = target
        self.topic = target.topic
        self.queue = queue
        self.flag = flag
        self.reconsume_times = reconsume_times
        self.is_oneway = is_oneway
        self.suffix = suffix
        """Properties that the broker adds."""
        self.middle = queue.behind_body + properties_length(text_size + len(suffix))
        """Bytes between body and properties."""
        self.size = len(self.middle) + text_size + len(suffix)
        """Record bytes without the fixed part and the body."""


class PlainRun:
    """One or more plain messages."""

    __slots__ = (
        "_placed",
        "_rows",
        "born_host",
        "count",
        "mode",
        "peer",
        "size",
        "store_ms",
        "target",
    )

    def __init__(self, peer: ReplyTo, born_host: bytes, target: Target) -> None:
        self.peer: ReplyTo | None = peer
        self.born_host = born_host
        self.target = target
        self.mode = target.mode
        self.count = 0
        self.size = 0
        """Record bytes without the fixed parts."""
        self.store_ms = 0
        self._rows: list[Row] = []
        self._placed: list[Placed] = []

    def add(
        self, template: RecordTemplate, opaque: int, born_ms: int, text: bytes, unique_key: str, body: bytes
    ) -> None:
        """Add a message with these properties before the run is placed."""
        size = template.size + len(body)
        self._rows.append((
            template.queue, crc32(body) & CRC_MASK, template.flag, 0, born_ms, template.reconsume_times, 0, size,
            (body, template.middle, text, template.suffix), 0, unique_key, None, None if template.is_oneway else opaque,
        ))  # fmt: skip
        self.count += 1
        self.size += size

    def place(self, at: RecordWriter) -> None:
        self._placed = at.place(self._rows, self.size, self.born_host)
        self.store_ms = at.store_ms
        self._rows = []  # the records hold them now; keeps thousands of waiting messages small

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        show(self._placed, self.store_ms, index, arrivals)

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        peer, self.peer = self.peer, None
        if peer is None:
            return
        extra = FSYNC_FIELD if self.mode == Mode.SYNC else WRITTEN_FIELD
        rows = [
            (opaque, position, queue.queue_id, offset, key or "")
            for queue, offset, position, _, _, key, _, opaque in self._placed
            if opaque is not None
        ]
        if not code:
            if rows:
                peer.send(encode_send_replies(rows, at.store_host, extra))
            return
        for opaque, position, queue_id, offset, key in rows:
            fields = reply_fields(offset_message_id(at.store_host, position), queue_id, offset, key)
            peer.send(encode_response(code, opaque, fields, remark=code.name))

    def refuse(self, refusal: RefusedRequest) -> None:
        peer, self.peer = self.peer, None
        if peer is None:
            return
        for row in self._rows or self._placed:
            opaque = row[-1]
            if opaque is not None:
                peer.send(refusal_frame(opaque, refusal))
