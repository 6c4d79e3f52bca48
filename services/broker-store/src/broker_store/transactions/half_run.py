# ruff: noqa: D102 - the Protocols say what these methods promise
"""Consecutive half messages of one client, as one entry of the group commit: see `plain_run.py`.

Stores the same bytes and gives the same remarks as one SpecialMessage each. Each half still gets its own
position, visibility and answer.
"""

from itertools import repeat
from zlib import crc32

from broker_store.commit.message import (
    FSYNC_FIELD,
    WRITTEN_FIELD,
    Arrivals,
    IndexEntry,
    Mode,
    Placement,
    ReplyTo,
    key_entries,
    refusal_frame,
    reply_fields,
)
from broker_store.commit.queues import Queue
from broker_store.sending.plain_run import RUN_BYTES_MAX
from broker_store.transactions.half_copies import HalfCopies
from broker_store.transactions.recent_halves import Half, HalfKind, RecentHalves, new_half
from gantry_wire.codes import ResponseCode
from gantry_wire.encode import encode_response, encode_send_replies
from gantry_wire.errors import RefusedRequest
from gantry_wire.ids import offset_message_id
from gantry_wire.properties import index_key_hashes
from gantry_wire.record import CRC_MASK, behind_body, fixed_layout, properties_length

ArrivedHalf = tuple[int, bool, HalfKind, int, int, int, int, str, str | None, int, bytes, bytes]
"""A half before placing. A bare tuple, because one is made per half.

Fields: opaque, whether one-way, kind, flag, system flag (KEPT_FLAGS), born time, reconsume times, unique
key (letters and digits, so the answer needs no escaping), keys, tags code, body, properties.
"""


class HalfRun:
    """One or more halves, all into one queue."""

    __slots__ = (
        "_arrived", "_copies", "_placed", "_queue", "_recent", "_size", "_store_ms", "born_host", "count", "mode", "peer",
    )  # fmt: skip

    def __init__(
        self,
        peer: ReplyTo,
        born_host: bytes,
        mode: Mode,
        queue: Queue,
        recent: RecentHalves,
        copies: HalfCopies,
    ) -> None:
        self.peer: ReplyTo | None = peer
        self.born_host = born_host
        self.mode = mode
        self.count = 0
        self._queue = queue
        self._recent = recent
        self._copies = copies
        self._arrived: list[ArrivedHalf] = []
        self._placed: list[Half] = []
        self._size = 0
        """Bytes of bodies and properties."""
        self._store_ms = 0

    def has_room(self, size: int) -> bool:
        """Whether a half with this many bytes of body and properties still fits."""
        return self._size + size <= RUN_BYTES_MAX

    def add(self, half: ArrivedHalf, size: int) -> None:
        """Add a half before the run is placed. `size` is the bytes of its body and properties."""
        self._arrived.append(half)
        self.count += 1
        self._size += size

    def place(self, at: Placement) -> None:
        queue, born_host, store_ms, store_host = self._queue, self.born_host, at.store_ms, at.store_host
        layout, host_bits = fixed_layout(born_host, store_host)
        magic, middle = behind_body(queue.topic_bytes)
        pack, queue_id = layout.pack, queue.queue_id
        other = layout.size + len(middle) + len(properties_length(0))
        position = start = at.log.reserve(self._size + other * self.count)
        offset, parts, placed = queue.next_offset, list[bytes](), self._placed
        for _, _, kind, flag, sys_flag, born_ms, times, key, keys, code, body, properties in self._arrived:
            body_size, text_size, crc = len(body), len(properties), crc32(body) & CRC_MASK
            size = other + body_size + text_size
            parts += (
                pack(
                    size, magic, crc, queue_id, flag, offset, position, sys_flag | host_bits, born_ms, born_host,
                    store_ms, store_host, times, 0, body_size,
                ),
                body,
                middle,
                properties_length(text_size),
                properties,
            )  # fmt: skip
            half = (
                kind, offset, position, size, key, keys, code, flag, sys_flag, born_ms, born_host, times, body, crc,
                properties,
            )  # fmt: skip
            placed.append(new_half(Half, half))
            offset += 1
            position += size
        records = b"".join(parts)
        assert len(records) == position - start, "reserved and built sizes differ"
        at.log.put(records)
        queue.next_offset = offset
        queue.put_bytes += position - start
        self._store_ms = store_ms

    def take_back(self) -> None:
        self._queue.next_offset -= len(self._placed)
        self._queue.put_bytes -= sum([half.size for half in self._placed])

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        queue, store_ms, placed = self._queue, self._store_ms, self._placed
        topic, positions = queue.topic, [half.position for half in placed]
        codes = [half.tags_code for half in placed]
        queue.units.append_all(placed[0].offset, positions, [half.size for half in placed], codes)
        hashes = index_key_hashes(topic, [half.unique_key for half in placed])
        if any([half.keys for half in placed]):  # noqa: C419 - a list is faster
            for half, hashed in zip(placed, hashes, strict=True):
                index.append((hashed, half.position, store_ms))
                if half.keys:
                    index += key_entries(topic, half.keys, half.position, store_ms)
        else:
            index += zip(hashes, positions, repeat(store_ms))
        self._recent.add_all(placed)
        self._copies.seen_all(
            [(half.offset, (half.kind.group, half.kind.topic, half.unique_key)) for half in placed]
        )
        if arrivals is not None:
            arrivals.setdefault(queue, []).extend(codes)

    def answer(self, at: Placement, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        peer, self.peer = self.peer, None
        if peer is None:
            return
        rows = [
            (arrived[0], half.position, half.kind.queue_id, half.offset, half.unique_key)
            for arrived, half in zip(self._arrived, self._placed, strict=True)
            if not arrived[1]
        ]
        if not code:
            extra = FSYNC_FIELD if self.mode == Mode.SYNC else WRITTEN_FIELD
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
        for opaque, is_oneway, *_ in self._arrived:
            if not is_oneway:
                peer.send(refusal_frame(opaque, refusal))
