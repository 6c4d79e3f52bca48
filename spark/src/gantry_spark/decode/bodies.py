"""Checks bodies of records against their CRC, and decompresses them by the system flag. Pure."""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gantry_spark.decode.rows import Rows
from gantry_wire.limits import INFLATED_BYTES_MAX
from gantry_wire.records.message_record import (
    CRC_MASK,
    SYS_COMPRESSED,
    SYS_COMPRESSION_LZ4,
    SYS_COMPRESSION_MASK,
    SYS_COMPRESSION_ZLIB,
    SYS_COMPRESSION_ZSTD,
)

_STREAMS: Final = {SYS_COMPRESSION_LZ4: "lz4", SYS_COMPRESSION_ZSTD: "zstd"}
"""LZ4 and zstd frames, by pyarrow's names."""


class UnreadableBody(ValueError):
    """A compressed body cannot be decompressed; the text says why."""


def failing_crc(rows: Rows) -> npt.NDArray[np.bool_]:
    """Return a mask of the bodies that do not match their CRC."""
    crc32 = zlib.crc32
    with memoryview(rows.content) as view:
        found = [
            crc32(view[at:end]) for at, end in zip(rows.body_at.tolist(), rows.body_end.tolist(), strict=True)
        ]
    return (np.array(found, np.int64) & CRC_MASK) != rows.field("crc", np.int64)


def unpack(body: bytes, sys_flag: int) -> bytes:
    """Return a body as it was sent. Raises UnreadableBody."""
    if not sys_flag & SYS_COMPRESSED:
        return body
    kind = sys_flag & SYS_COMPRESSION_MASK
    if kind in _STREAMS:
        unpacked = _unpack_frame(body, _STREAMS[kind])
    elif kind in (0, SYS_COMPRESSION_ZLIB):  # 0: older clients, which had only zlib
        unpacked = _inflate(body)
    else:
        raise UnreadableBody(f"the compression of its body is unknown ({kind:#x})")
    if len(unpacked) > INFLATED_BYTES_MAX:
        raise UnreadableBody(f"its body has more than {INFLATED_BYTES_MAX} bytes when decompressed")
    return unpacked


def _inflate(body: bytes) -> bytes:
    inflating = zlib.decompressobj()
    try:
        unpacked = inflating.decompress(body, INFLATED_BYTES_MAX + 1)
    except zlib.error as error:
        raise UnreadableBody(f"its body cannot be decompressed as zlib: {error}") from error
    if not inflating.eof and len(unpacked) <= INFLATED_BYTES_MAX:
        raise UnreadableBody("its body ends inside its zlib stream")
    return unpacked


def _unpack_frame(body: bytes, codec: str) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            return stream.read(INFLATED_BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableBody(f"its body cannot be decompressed as {codec}: {error}") from error
