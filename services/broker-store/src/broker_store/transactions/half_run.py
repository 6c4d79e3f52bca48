# ruff: noqa: D102 - the Protocols say what these methods promise
"""Half messages of one client that arrived one after the other, as one entry of the group commit: see `plain_run.py`.

Stores the same bytes as a HalfMessage each and says the same words. Each half is still placed, shown and answered by itself.
"""

from typing import NamedTuple
from zlib import crc32

from broker_store.message import (
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
from broker_store.plain_run import RUN_BYTES_MAX
from broker_store.queues import Queue
from broker_store.transactions.recent_halves import RecentHalves
from gantry_wire.codes import ResponseCode
from gantry_wire.encode import encode_response, encode_send_replies
from gantry_wire.errors import RefusedRequest
from gantry_wire.ids import offset_message_id
from gantry_wire.properties import index_key_hashes
from gantry_wire.record import (
    CRC_MASK,
    MAGIC_V1,
    SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6,
    Record,
    behind_body,
    fixed_layout,
    properties_length,
)

_NO_HOST_BITS = ~(SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6)


class ArrivedHalf(NamedTuple):
    """One half before it has a place."""

    opaque: int
    is_oneway: bool
    target_queue_id: int
    """Queue that it was sent to: what its sender is told."""
    flag: int
    sys_flag: int
    """Without transaction bits."""
    born_ms: int
    reconsume_times: int
    unique_key: str
    """Letters and digits only: it stands in the answer as it is."""
    keys: str | None
    tags_code: int
    body: bytes
    properties: bytes
    named: dict[str, str]
    """The properties by name, as RecentHalves wants them."""


class HalfRun:
    """One or more halves, all into one queue."""

    __slots__ = (
        "_arrived", "_placed", "_queue", "_recent", "_size", "_store_host", "_store_ms", "born_host", "count",
        "mode", "peer",
    )  # fmt: skip

    def __init__(
        self, peer: ReplyTo, born_host: bytes, mode: Mode, queue: Queue, recent: RecentHalves
    ) -> None:
        self.peer: ReplyTo | None = peer
        self.born_host = born_host
        self.mode = mode
        self.count = 0
        self._queue = queue
        self._recent = recent
        self._arrived: list[ArrivedHalf] = []
        self._placed: list[tuple[int, int, int]] = []
        """Offset, position, size."""
        self._size = 0
        """Bytes of bodies and properties."""
        self._store_ms = 0
        self._store_host = b""

    def has_room(self, half: ArrivedHalf) -> bool:
        """Whether this half may still come in."""
        return self._size + len(half.body) + len(half.properties) <= RUN_BYTES_MAX

    def add(self, half: ArrivedHalf) -> None:
        """Take one more half in, before the run is placed."""
        self._arrived.append(half)
        self.count += 1
        self._size += len(half.body) + len(half.properties)

    def place(self, at: Placement) -> None:
        queue, born_host, store_ms, store_host = self._queue, self.born_host, at.store_ms, at.store_host
        layout, host_bits = fixed_layout(born_host, store_host)
        magic, middle = behind_body(queue.topic_bytes)
        pack, queue_id = layout.pack, queue.queue_id
        other = layout.size + len(middle) + len(properties_length(0))
        position = start = at.log.reserve(self._size + other * self.count)
        offset, parts, placed = queue.next_offset, list[bytes](), self._placed
        for half in self._arrived:
            body, properties = half.body, half.properties
            size = other + len(body) + len(properties)
            parts += (
                pack(
                    size, magic, crc32(body) & CRC_MASK, queue_id, half.flag, offset, position,
                    half.sys_flag & _NO_HOST_BITS | host_bits,
                    half.born_ms, born_host, store_ms, store_host, half.reconsume_times, 0, len(body),
                ),
                body,
                middle,
                properties_length(len(properties)),
                properties,
            )  # fmt: skip
            placed.append((offset, position, size))
            offset += 1
            position += size
        records = b"".join(parts)
        assert len(records) == position - start, "reserved and built sizes differ"
        at.log.put(records)
        queue.next_offset = offset
        queue.put_bytes += position - start
        self._store_ms, self._store_host = store_ms, store_host

    def take_back(self) -> None:
        self._queue.next_offset -= len(self._placed)
        self._queue.put_bytes -= sum([size for _, _, size in self._placed])

    def appear(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        queue, store_ms, store_host, born_host = (
            self._queue, self._store_ms, self._store_host, self.born_host
        )  # fmt: skip
        topic, queue_id, topic_bytes, remember = (
            queue.topic,
            queue.queue_id,
            queue.topic_bytes,
            self._recent.add,
        )
        hashes = index_key_hashes(topic, [half.unique_key for half in self._arrived])
        for half, (offset, position, size), hashed in zip(self._arrived, self._placed, hashes, strict=True):
            queue.units.append(offset, position, size, half.tags_code)
            index.append((hashed, position, store_ms))
            if half.keys:
                index += key_entries(topic, half.keys, position, store_ms)
            record = Record(
                size, MAGIC_V1, 0, queue_id, half.flag, offset, position, half.sys_flag, half.born_ms, born_host,
                store_ms, store_host, half.reconsume_times, 0, half.body, topic_bytes, half.properties,
            )  # fmt: skip
            remember((record, half.named))
        if arrivals is not None:
            arrivals.setdefault(queue, []).extend([half.tags_code for half in self._arrived])

    def answer(self, at: Placement, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        peer, self.peer = self.peer, None
        if peer is None:
            return
        rows = [
            (half.opaque, position, half.target_queue_id, offset, half.unique_key)
            for half, (offset, position, _) in zip(self._arrived, self._placed, strict=True)
            if not half.is_oneway
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
        for half in self._arrived:
            if not half.is_oneway:
                peer.send(refusal_frame(half.opaque, refusal))
