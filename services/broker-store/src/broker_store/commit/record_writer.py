"""Places records in the open batch of the log: the one engine that gives a record its position, its offset and its bytes.

Callers describe records as rows (any queues, one client's address) or as columns (one queue). The writer reserves log space, counts offsets
and bytes of the queues, and takes back all of it when the log takes its batch back. Never decides what is stored, and never shows it.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple
from zlib import crc32

from broker_store.commit.queues import Queue
from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.errors import DiskFull
from gantry_wire.records.batch_records import build_records, record_sizes
from gantry_wire.records.message_record import (
    CRC_MASK,
    SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6,
    fixed_layout,
    properties_length,
)

Row = tuple[
    Queue, int, int, int, int, int, int, int, tuple[bytes, ...], int, str | None, str | None, int | None
]
"""One record before placing. A bare tuple, because one is made per message.

Fields: queue, CRC of the body, flag, system flag, born time, reconsume times, prepared position, size of all
pieces, pieces (the bytes behind the fixed part, the body first), code of the unit, unique key, keys, opaque of the request (None: not answered).
"""
Placed = tuple[Queue, int, int, int, int, str | None, str | None, int | None]
"""One record in the open batch: queue, offset, position, size, code of its unit, unique key, keys, opaque."""
PROPERTIES_LENGTH_BYTES = len(properties_length(0))
_NO_HOST_BITS = ~(SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6)


def whole_row(  # noqa: PLR0913, PLR0917 - a record has these fields
    queue: Queue,
    body: bytes,
    properties: bytes,
    flag: int,
    sys_flag: int,
    born_ms: int,
    reconsume_times: int,
    prepared: int,
    code: int,
    unique_key: str | None,
    keys: str | None,
    opaque: int | None,
) -> Row:
    """Return a record whose body and properties are whole. Its CRC is that of the body as it is now."""
    size, behind_body = len(properties), queue.behind_body
    pieces = body, behind_body, properties_length(size), properties
    size += len(body) + len(behind_body) + PROPERTIES_LENGTH_BYTES
    return (
        queue, crc32(body) & CRC_MASK, flag, sys_flag, born_ms, reconsume_times, prepared, size, pieces, code, unique_key,
        keys, opaque,
    )  # fmt: skip


class Columns(NamedTuple):
    """Messages of one queue before placing: what they share, and a column for each field that differs."""

    queue: Queue
    sys_flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int
    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]


class PlacedColumns(NamedTuple):
    """Messages of one queue in the open batch, at consecutive offsets."""

    first_offset: int
    positions: Sequence[int]
    sizes: Sequence[int]


class RecordWriter:
    """Writes the records of one batch after the other."""

    def __init__(self, log: CommitLog, store_host: bytes) -> None:
        self.log = log
        self.store_host = store_host
        self.store_ms = 0
        """Store time of the open batch, ms."""
        self._open: list[Sequence[Placed]] = []
        """Everything placed in the open batch, in log order."""
        self._undo: list[Callable[[], None]] = []
        self._born_host = b""
        self._fixed = self._fixed_of(b"")

    def begin(self, store_ms: int) -> None:
        """Begin a batch at this store time."""
        self.store_ms = store_ms

    def place(self, rows: Sequence[Row], rows_bytes: int, born_host: bytes) -> list[Placed]:
        """Place records as one piece, which lies in one segment. `rows_bytes` is the size of their pieces.

        Raises LogError and then changes nothing.
        """
        if born_host != self._born_host:
            self._born_host = born_host
            self._fixed = self._fixed_of(born_host)
        pack, fixed_size, host_bits = self._fixed
        store_ms, store_host = self.store_ms, self.store_host
        total = rows_bytes + fixed_size * len(rows)
        position = self.log.reserve(total)
        parts: list[bytes] = []
        placed: list[Placed] = []
        for (
            queue,
            crc,
            flag,
            sys_flag,
            born_ms,
            times,
            prepared,
            size,
            pieces,
            code,
            unique_key,
            keys,
            opaque,
        ) in rows:
            offset = queue.next_offset
            size += fixed_size  # noqa: PLW2901 - completes it
            parts.append(
                pack(
                    size, queue.magic, crc, queue.queue_id, flag, offset, position, sys_flag & _NO_HOST_BITS | host_bits,
                    born_ms, born_host, store_ms, store_host, times, prepared, len(pieces[0]),
                )
            )  # fmt: skip
            parts += pieces
            queue.next_offset = offset + 1
            queue.put_bytes += size
            placed.append((queue, offset, position, size, code, unique_key, keys, opaque))
            position += size
        records = b"".join(parts)
        assert len(records) == total, "reserved and built sizes differ"
        self.log.put(records)
        self._open.append(placed)
        return placed

    def place_columns(self, columns: Columns) -> PlacedColumns:
        """As `place`, for messages of one queue."""
        queue, sys_flag, born_ms, born_host, times, flags, bodies, properties = columns
        topic = queue.topic_bytes
        fixed_size = (
            fixed_layout(born_host, self.store_host)[0].size
            + len(queue.behind_body)
            + PROPERTIES_LENGTH_BYTES
        )
        sizes = record_sizes(fixed_size, bodies, properties)
        total = sum(sizes)
        start, first_offset = self.log.reserve(total), queue.next_offset
        positions = list(accumulate(sizes[:-1], initial=start))
        records = build_records(
            topic, queue.queue_id, first_offset, positions, flags, bodies, properties, sys_flag, born_ms, born_host,
            self.store_ms, self.store_host, times,
        )  # fmt: skip
        assert len(records) == total, "reserved and built sizes differ"
        self.log.put(records)
        queue.next_offset = first_offset + len(sizes)
        queue.put_bytes += total
        self._open.append([(queue, first_offset, start, total, 0, None, None, None)])
        return PlacedColumns(first_offset, positions, sizes)

    def _fixed_of(self, born_host: bytes) -> tuple[Callable[..., bytes], int, int]:
        """Return how the fixed part of records of this client is packed, its size, and the bits of hosts in the system flag."""
        layout, host_bits = fixed_layout(born_host, self.store_host)
        return layout.pack, layout.size, host_bits

    def room_for_pieces(self, born_host: bytes) -> tuple[int, int]:
        """Return how many bytes of pieces one placement can have in this segment, and what each of its records adds to them.

        Records that lie in one segment have the same bytes whether they are placed together or one by one. Together costs less.
        """
        return self.log.room, fixed_layout(born_host, self.store_host)[0].size

    def adopt(self, queue: Queue, position: int) -> int:
        """Return the offset of a record that the log itself has placed: one of a segment's preamble."""
        offset = queue.next_offset
        queue.next_offset = offset + 1
        self._open.append([(queue, offset, position, 0, 0, None, None, None)])
        return offset

    def when_taken_back(self, undo: Callable[[], None]) -> None:
        """Call this once if the log takes the open batch back, after its records are undone."""
        self._undo.append(undo)

    def write(self) -> None:
        """Write the open batch. Raises LogStopped, or DiskFull after everything placed is undone."""
        try:
            self.log.write()
        except DiskFull:
            self._take_back()
            raise
        finally:
            self._open, self._undo = [], []

    def _take_back(self) -> None:
        for placed in reversed(self._open):
            for queue, offset, _, size, _, _, _, _ in reversed(placed):
                queue.next_offset = offset
                queue.put_bytes -= size
        for undo in self._undo:
            undo()
