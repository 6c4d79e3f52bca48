# ruff: noqa: D102 - the Protocols say what these methods promise
"""Consecutive half messages of one client, as one entry of the group commit: see `plain_run.py`.

Stores the same bytes and gives the same remarks as one SpecialMessage each. Each half still gets its own
position, visibility and answer.
"""

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
from broker_store.commit.record_writer import Placed, RecordWriter, Row
from broker_store.commit.visible.visible_records import show
from broker_store.sending.plain_run import RUN_BYTES_MAX
from broker_store.transactions.half_copies import HalfCopies
from broker_store.transactions.half_messages.recent_halves import Half, HalfKind, RecentHalves, new_half
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.encode import encode_response, encode_send_replies
from gantry_wire.messages.ids import offset_message_id


class HalfRun:
    """One or more halves, all into one queue."""

    __slots__ = (
        "_copies", "_halves", "_kinds", "_placed", "_recent", "_rows", "_size", "_store_ms", "born_host", "count", "mode", "peer",
    )  # fmt: skip

    def __init__(
        self,
        peer: ReplyTo,
        born_host: bytes,
        mode: Mode,
        recent: RecentHalves,
        copies: HalfCopies,
    ) -> None:
        self.peer: ReplyTo | None = peer
        self.born_host = born_host
        self.mode = mode
        self.count = 0
        self._recent = recent
        self._copies = copies
        self._kinds: list[HalfKind] = []
        self._rows: list[Row] = []
        self._halves: list[Half] = []
        self._placed: list[Placed] = []
        self._size = 0
        """Record bytes without the fixed parts."""
        self._store_ms = 0

    def has_room(self, size: int) -> bool:
        """Whether a half with this many record bytes still fits."""
        return self._size + size <= RUN_BYTES_MAX

    def add(self, kind: HalfKind, row: Row) -> None:
        """Add a half before the run is placed."""
        self._kinds.append(kind)
        self._rows.append(row)
        self.count += 1
        self._size += row[7]

    def place(self, at: RecordWriter) -> None:
        born_host = self.born_host
        self._placed = placed = at.place(self._rows, self._size, born_host)
        self._halves = [
            new_half(Half, (
                kind, offset, position, size, key, keys, code, flag, sys_flag, born_ms, born_host, times, body, crc,
                properties,
            ))
            for (
                kind,
                (_, crc, flag, sys_flag, born_ms, times, _, _, (body, _, _, properties), code, key, keys, _),
                (_, offset, position, size, _, _, _, _),
            ) in zip(self._kinds, self._rows, placed, strict=True)
        ]  # fmt: skip
        self._store_ms = at.store_ms

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        show(self._placed, self._store_ms, index, arrivals)
        self._recent.add_all(self._halves)
        self._copies.seen_all(
            [
                (row[1], (kind.group, kind.topic, row[5] or ""))
                for kind, row in zip(self._kinds, self._placed, strict=True)
            ]
        )

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        peer, self.peer = self.peer, None
        if peer is None:
            return
        rows = [
            (opaque, position, kind.queue_id, offset, key or "")
            for kind, (_, offset, position, _, _, key, _, opaque) in zip(
                self._kinds, self._placed, strict=True
            )
            if opaque is not None
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
        for row in self._rows:
            opaque = row[-1]
            if opaque is not None:
                peer.send(refusal_frame(opaque, refusal))
