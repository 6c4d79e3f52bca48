"""Makes store directories for tests: segments, queues and the small files, as a broker leaves them.

store = StoreMade(tmp_path / "broker-a", segment_bytes=4096)
store.send("orders", b"body", queue_id=1)
store.write()                                   # stopped cleanly; status=RUNNING: as after kill -9
"""

from __future__ import annotations

import zlib
from pathlib import Path
from struct import Struct
from typing import Any

from logs_made import LogMade

from gantry_spark.store.files import RUNNING, STOPPED_CLEANLY
from gantry_wire.records.units import (
    CHECKPOINT,
    CHECKPOINT_FILE_BYTES,
    CONSUME_QUEUE_BLANK,
    CONSUME_QUEUE_UNIT,
)

NOTE = Struct(">4siq16s16sqqqqqqqqq")
TOKEN = bytes(range(16))
TIMES = (3, 2, 1)


class StoreMade:
    """A store that grows by `send`; `write` writes all its files again each time."""

    def __init__(
        self, path: Path, segment_bytes: int = 1 << 20, file_units: int = 1000, log_id: str = "ab" * 16
    ) -> None:
        self.path = path
        self.segment_bytes = segment_bytes
        self.file_units = file_units
        self.log_id = log_id
        self.segments = [LogMade(0, segment_bytes)]
        self.units: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.next_offsets: dict[tuple[str, int], int] = {}

    @property
    def end(self) -> int:
        """Position after the last record."""
        return self.segments[-1].end

    @property
    def count(self) -> int:
        """Number of messages in the store."""
        return sum(len(segment.positions) for segment in self.segments)

    def send(self, topic: str = "orders", body: bytes = b"", **fields: Any) -> int:
        """Append a message, to a new segment if it does not fit, and return its position."""
        queue = topic, fields.get("queue_id", 0)
        offset = self.next_offsets.get(queue, 0)
        for _ in range(2):
            log = self.segments[-1]
            before = len(log.content)
            position = log.add(topic, body, queue_offset=offset, **fields)
            size = len(log.content) - before
            if len(log.content) + 8 <= self.segment_bytes:
                break
            del log.content[before:]
            log.positions.pop()
            log.blank()
            self.segments.append(LogMade(log.base + self.segment_bytes, self.segment_bytes))
        self.next_offsets[queue] = offset + 1
        self.units.setdefault(queue, []).append((position, size))
        return position

    def write(
        self, status: int = STOPPED_CLEANLY, confirm: int | None = None, checkpoint: int | None = None
    ) -> Path:
        """Write all files. `confirm`: the confirm offset; `checkpoint`: records from this position on have no units in any file."""
        confirm = self.end if confirm is None else confirm
        checkpoint = self.end if checkpoint is None else checkpoint
        for segment in self.segments:
            segment.write(self.path / "commitlog")
        for (topic, queue_id), units in self.units.items():
            self._write_queue(topic, queue_id, [unit for unit in units if unit[0] < checkpoint])
        (self.path / "gantry").mkdir(exist_ok=True)
        (self.path / "gantry" / "logId").write_text(self.log_id)
        content = CHECKPOINT.pack(*TIMES, 0, confirm)
        (self.path / "checkpoint").write_bytes(content.ljust(CHECKPOINT_FILE_BYTES, b"\0"))
        note = NOTE.pack(
            b"GLN1",
            status,
            1,
            bytes.fromhex(self.log_id),
            TOKEN,
            self.end,
            min(confirm, checkpoint),
            checkpoint,
            *TIMES,
            *TIMES,
        )
        slot = note + zlib.crc32(note).to_bytes(4, "big")
        (self.path / "gantry" / "log.note").write_bytes(bytes(4096) + slot.ljust(4096, b"\0"))
        abort = self.path / "abort"
        abort.unlink(missing_ok=True)
        if status == RUNNING:
            abort.write_text(f"1\n{TOKEN.hex()}")
        return self.path

    def _write_queue(self, topic: str, queue_id: int, units: list[tuple[int, int]]) -> None:
        folder = self.path / "consumequeue" / topic / str(queue_id)
        folder.mkdir(parents=True, exist_ok=True)
        packed = [CONSUME_QUEUE_UNIT.pack(position, size, 0) for position, size in units]
        for first in range(0, len(packed), self.file_units):
            content = b"".join(packed[first : first + self.file_units])
            (folder / f"{first * 20:020d}").write_bytes(content.ljust(self.file_units * 20, b"\0"))

    def blank_front(self, topic: str, queue_id: int, count: int) -> None:
        """Clear the first units of a queue, as for deleted history."""
        path = self.path / "consumequeue" / topic / str(queue_id) / f"{0:020d}"
        content = path.read_bytes()
        path.write_bytes(CONSUME_QUEUE_BLANK * count + content[20 * count :])
