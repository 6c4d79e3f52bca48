"""Makes segments of a CommitLog for tests: records by the builder of the store, and everything else that a log can contain.

log = LogMade(base=0)
log.add("orders", b"body", properties={"TAGS": "a"}, queue_id=1)
log.blank(); path = log.write(tmp_path)
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import (
    SYS_COMPRESSED,
    SYS_COMPRESSION_LZ4,
    SYS_COMPRESSION_ZLIB,
    SYS_COMPRESSION_ZSTD,
    build_blank,
    build_record,
)

START_MS = 1_750_000_000_000
COMPRESSIONS = {"zlib": SYS_COMPRESSION_ZLIB, "lz4": SYS_COMPRESSION_LZ4, "zstd": SYS_COMPRESSION_ZSTD}


def record(
    topic: str,
    body: bytes = b"",
    *,
    position: int,
    queue_id: int = 0,
    queue_offset: int = 0,
    properties: Mapping[str, str] | bytes = b"",
    flag: int = 0,
    sys_flag: int = 0,
    born_ms: int = START_MS,
    store_ms: int = START_MS,
    born_host: tuple[str, int] = ("10.1.2.3", 40_000),
    store_host: tuple[str, int] = ("10.0.0.1", 10_911),
    reconsume_times: int = 0,
    prepared_position: int = 0,
) -> bytes:
    """Return one record that holds `position` as its own. A topic of more than 127 bytes gives the second magic."""
    raw = properties if isinstance(properties, bytes) else format_properties(dict(properties))
    return build_record(
        topic.encode(), queue_id, queue_offset, position, body, raw, flag, sys_flag, born_ms, pack_host(*born_host),
        store_ms, pack_host(*store_host), reconsume_times, prepared_position,
    )  # fmt: skip


def packed(body: bytes, kind: str) -> tuple[bytes, int]:
    """Return a body compressed as clients do (zlib, lz4, zstd), and its system flag."""
    if kind == "zlib":
        return zlib.compress(body), SYS_COMPRESSED | SYS_COMPRESSION_ZLIB
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as stream:
        stream.write(body)
    return sink.getvalue().to_pybytes(), SYS_COMPRESSED | COMPRESSIONS[kind]


class LogMade:
    """One segment that grows record by record; it sets positions and queue offsets."""

    def __init__(self, base: int = 0, size: int | None = None) -> None:
        self.base = base
        self.size = size
        """Size of the segment in bytes, padded with zeros. None: it ends with its last record."""
        self.content = bytearray()
        self.positions: list[int] = []
        self.next_offsets: dict[tuple[str, int], int] = {}

    @property
    def end(self) -> int:
        """Position after the last record."""
        return self.base + len(self.content)

    def add(self, topic: str = "orders", body: bytes = b"", **fields: Any) -> int:
        """Append a record with these fields, and return its position."""
        position = self.end
        queue = topic, fields.get("queue_id", 0)
        offset = fields.pop("queue_offset", self.next_offsets.get(queue, 0))
        self.next_offsets[queue] = offset + 1
        fields.setdefault("store_ms", START_MS + len(self.positions))
        self.content += record(topic, body, position=position, queue_offset=offset, **fields)
        self.positions.append(position)
        return position

    def add_packed(self, topic: str, body: bytes, kind: str, **fields: Any) -> int:
        """Append a record with a compressed body: zlib, lz4 or zstd."""
        stored, flag = packed(body, kind)
        return self.add(topic, stored, sys_flag=fields.pop("sys_flag", 0) | flag, **fields)

    def add_forged(self, topic: str = "orders", count: int = 3, gap: bytes = b"", **fields: Any) -> int:
        """Append a record whose body contains `count` whole records with the positions where they are really stored."""
        start = self.end + len(record(topic, position=0)) - len(topic) - 3 + len(gap)
        body = bytearray(gap)
        for number in range(count):
            at = start + len(body) - len(gap)
            body += record("forged", b"x" * 50, position=at, queue_offset=number, store_ms=START_MS)
        return self.add(topic, bytes(body), **fields)

    def add_many(self, count: int, seed: int = 1, body_bytes: int = 80) -> None:
        """Append ordinary messages of twelve topics: bodies of about `body_bytes`, five or six properties."""
        chance = random.Random(seed)
        for number in range(count):
            self.add(
                f"topic-{min(int(chance.expovariate(0.3)), 11)}",
                chance.randbytes(chance.randint(body_bytes // 2, body_bytes * 3 // 2)),
                queue_id=chance.randrange(4),
                properties={
                    "TAGS": f"tag{number % 5}",
                    "KEYS": f"order-{number}",
                    "UNIQ_KEY": f"{number:032X}",
                    "WAIT": "true",
                    "CLUSTER": "DefaultCluster",
                    **({"region": "north"} if number % 3 == 0 else {}),
                },
                born_ms=START_MS + number - chance.randrange(20),
                store_ms=START_MS + number,
            )

    def blank(self, size: int | None = None) -> None:
        """End the segment here: a blank record over the remaining bytes (`size`, or up to the segment's size, or 64)."""
        left = size or (self.size - len(self.content) if self.size else 64)
        self.content += build_blank(left) + bytes(left - 8)

    def flip(self, position: int, mask: int = 0xFF) -> None:
        """Damage one byte."""
        self.content[position - self.base] ^= mask

    def bytes(self) -> bytes:
        """Return the whole segment."""
        return bytes(self.content) + bytes(max(0, (self.size or 0) - len(self.content)))

    def write(self, folder: Path) -> Path:
        """Write the segment to a file named after its base, as a store does, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.base:020d}"
        path.write_bytes(self.bytes())
        return path
