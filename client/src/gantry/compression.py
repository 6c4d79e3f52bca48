"""Bodies made small and large again: zlib as RocketMQ's clients write it; LZ4 and zstd are read where their libraries are. Pure."""

from __future__ import annotations

import importlib
import zlib
from typing import Any

from gantry.errors import GantryError
from gantry_wire.limits import INFLATED_BYTES_MAX
from gantry_wire.record import (
    SYS_COMPRESSED,
    SYS_COMPRESSION_LZ4,
    SYS_COMPRESSION_MASK,
    SYS_COMPRESSION_ZLIB,
    SYS_COMPRESSION_ZSTD,
)

LEVEL = 5
"""RocketMQ's default: little is gained above it."""
COMPRESSED_FLAGS = SYS_COMPRESSED | SYS_COMPRESSION_ZLIB


class UnreadableBody(GantryError):
    """A compressed body cannot be read: damaged, too large, or of a kind whose library is not installed."""


def compress(body: bytes) -> bytes:
    """Return a body compressed with zlib."""
    return zlib.compress(body, LEVEL)


def decompress(body: bytes, sys_flag: int) -> bytes:
    """Return a body as it was sent, by what its system flag says of it; UnreadableBody when that cannot be done."""
    if not sys_flag & SYS_COMPRESSED:
        return body
    kind = sys_flag & SYS_COMPRESSION_MASK
    if kind == SYS_COMPRESSION_LZ4:
        return _library("lz4.frame", "lz4").decompress(body)
    if kind == SYS_COMPRESSION_ZSTD:
        return _library("zstandard", "zstandard").decompress(body, max_output_size=INFLATED_BYTES_MAX)
    inflating = zlib.decompressobj()
    try:
        inflated = inflating.decompress(body, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise UnreadableBody(f"the body says it is compressed and is not: {error}") from error
    if inflating.unconsumed_tail:
        raise UnreadableBody(f"the body has more than {INFLATED_BYTES_MAX} bytes when decompressed")
    return inflated


def _library(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnreadableBody(
            f"the body is compressed with {package}: install it (pip install {package})"
        ) from error
