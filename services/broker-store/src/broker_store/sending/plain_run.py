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
    Placement,
    ReplyTo,
    refusal_frame,
    reply_fields,
)
from broker_store.commit.queues import Queue
from broker_store.commit.targets import Target
from gantry_wire.codes import ResponseCode
from gantry_wire.encode import encode_response, encode_send_replies
from gantry_wire.errors import RefusedRequest
from gantry_wire.ids import offset_message_id
from gantry_wire.properties import index_key_hashes
from gantry_wire.record import CRC_MASK, behind_body, fixed_layout, properties_length

RUN_BYTES_MAX = 256 * 1024
"""A run lies in one segment, so it is bounded by this. A larger message is a run of its own."""


class RecordTemplate:
    """What plain messages share that have the same queue, flags and size of properties."""

    __slots__ = (
        "flag",
        "is_oneway",
        "magic",
        "middle",
        "queue",
        "queue_id",
        "reconsume_times",
        "reply_place",
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
        self.queue_id = queue.queue_id
        self.reply_place: tuple[int, dict[str, str]] = (queue.queue_id, {})
        """What the sender of a repeat gets beside the position, as `Message.reply_place`."""
        self.flag = flag
        self.reconsume_times = reconsume_times
        self.is_oneway = is_oneway
        self.suffix = suffix
        """Properties that the broker adds."""
        self.magic, topic = behind_body(queue.topic_bytes)
        self.middle = topic + properties_length(text_size + len(suffix))
        """Bytes between body and properties."""
        self.size = len(self.middle) + text_size + len(suffix)
        """Record bytes without the fixed part and the body."""


Arrived = tuple[RecordTemplate, int, int, bytes, str, bytes]
"""Template, opaque, born time, properties as received, unique key, body. A bare tuple: one is made per message."""
_Placed = tuple[RecordTemplate, int, str, int, int, int]
"""Template, opaque, unique key, offset, position, size."""


class PlainRun:
    """One or more plain messages."""

    __slots__ = ("arrived", "born_host", "count", "mode", "peer", "placed", "size", "store_ms", "target")

    def __init__(self, peer: ReplyTo, born_host: bytes, target: Target) -> None:
        self.peer: ReplyTo | None = peer
        self.born_host = born_host
        self.target = target
        self.mode = target.mode
        self.arrived: list[Arrived] = []
        self.placed: list[_Placed] = []
        self.count = 0
        self.size = 0
        """Record bytes without the fixed parts."""
        self.store_ms = 0

    def add(self, message: Arrived) -> None:
        """Add a message before the run is placed."""
        self.arrived.append(message)
        self.count += 1
        self.size += message[0].size + len(message[5])

    def place(self, at: Placement) -> None:
        layout, host_bits = fixed_layout(self.born_host, at.store_host)
        pack, fixed_size = layout.pack, layout.size
        born_host, store_ms, store_host = self.born_host, at.store_ms, at.store_host
        start = position = at.log.reserve(self.size + fixed_size * self.count)
        parts: list[bytes] = []
        placed = self.placed
        for template, opaque, born_ms, text, unique_key, body in self.arrived:
            queue, body_size = template.queue, len(body)
            offset, size = queue.next_offset, fixed_size + body_size + template.size
            parts += (
                pack(
                    size, template.magic, crc32(body) & CRC_MASK, template.queue_id, template.flag, offset, position, host_bits,
                    born_ms, born_host, store_ms, store_host, template.reconsume_times, 0, body_size,
                ),
                body,
                template.middle,
                text,
                template.suffix,
            )  # fmt: skip
            queue.next_offset = offset + 1
            queue.put_bytes += size
            placed.append((template, opaque, unique_key, offset, position, size))
            position += size
        records = b"".join(parts)
        assert len(records) == position - start, "reserved and built sizes differ"
        at.log.put(records)
        self.store_ms = store_ms
        self.arrived = []  # the records hold them now; keeps thousands of waiting messages small

    def take_back(self) -> None:
        for template, _, _, _, _, size in self.placed:
            template.queue.next_offset -= 1
            template.queue.put_bytes -= size

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        store_ms, placed = self.store_ms, self.placed
        for template, _, _, offset, position, size in placed:
            template.queue.units.append(offset, position, size, 0)
        hashes = index_key_hashes(self.target.topic, [row[2] for row in placed])
        index += [(hashed, row[4], store_ms) for hashed, row in zip(hashes, placed, strict=True)]
        if arrivals is not None:
            for template, *_ in placed:
                arrivals.setdefault(template.queue, []).append(0)

    def answer(self, at: Placement, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        peer, self.peer = self.peer, None
        if peer is None:
            return
        asked = [row for row in self.placed if not row[0].is_oneway]
        if code:
            for template, opaque, key, offset, position, _ in asked:
                message_id = offset_message_id(at.store_host, position)
                fields = reply_fields(message_id, template.queue_id, offset, key)
                peer.send(encode_response(code, opaque, fields, remark=code.name))
        elif asked:
            extra = FSYNC_FIELD if self.mode == Mode.SYNC else WRITTEN_FIELD
            rows = [
                (opaque, position, template.queue_id, offset, key)
                for template, opaque, key, offset, position, _ in asked
            ]
            peer.send(encode_send_replies(rows, at.store_host, extra))

    def refuse(self, refusal: RefusedRequest) -> None:
        peer, self.peer = self.peer, None
        if peer is None:
            return
        rows = self.arrived or self.placed
        for template, opaque, *_ in rows:
            if not template.is_oneway:
                peer.send(refusal_frame(opaque, refusal))
