"""Compresses and decompresses bodies: zlib as RocketMQ's clients do; LZ4 and zstd are decompressed if their libraries are installed. Pure."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any

from gantry_wire.limits import INFLATED_BYTES_MAX
from gantry_wire.records.message_record import (
    SYS_COMPRESSED,
    SYS_COMPRESSION_LZ4,
    SYS_COMPRESSION_MASK,
    SYS_COMPRESSION_ZLIB,
    SYS_COMPRESSION_ZSTD,
)
from gantrymq.errors import GantryError

LEVEL = 5
"""RocketMQ's default: higher levels gain little."""
COMPRESSED_FLAGS = SYS_COMPRESSED | SYS_COMPRESSION_ZLIB
DECOMPRESSED_BYTES_MAX = INFLATED_BYTES_MAX
"""A body that is larger when decompressed is refused, whatever its compression: a few kB must not fill the memory."""


class UnreadableBody(GantryError):
    """A compressed body cannot be read: damaged, truncated, too large, or of a kind that is unknown or has no library here."""


def compress(body: bytes) -> bytes:
    """Return a body compressed with zlib."""
    return zlib.compress(body, LEVEL)


def decompress(body: bytes, sys_flag: int) -> bytes:
    """Return a body as it was sent, by its system flag; UnreadableBody if that is impossible."""
    if not sys_flag & SYS_COMPRESSED:
        return body
    kind = (sys_flag & SYS_COMPRESSION_MASK) or SYS_COMPRESSION_ZLIB  # clients before 5.0 name none
    if kind not in _CODECS:
        raise UnreadableBody(f"the compression of the body is unknown (bits {kind:#x})")
    name, read = _CODECS[kind]
    try:
        return read(body)
    except UnreadableBody:
        raise
    except Exception as error:  # each library raises its own errors, some without a common base
        raise UnreadableBody(
            f"the body is marked as compressed with {name}, but is not, or is damaged: {error}"
        ) from error


def _from_zlib(body: bytes) -> bytes:
    return _from_stream(zlib.decompressobj(), body, "zlib")


def _from_lz4(body: bytes) -> bytes:
    return _from_stream(_library("lz4.frame", "lz4").LZ4FrameDecompressor(), body, "LZ4")


def _from_stream(stream: Any, body: bytes, name: str) -> bytes:
    """Read a stream with `decompress(body, length_max)` and `eof`."""
    read = stream.decompress(body, DECOMPRESSED_BYTES_MAX + 1)
    if len(read) > DECOMPRESSED_BYTES_MAX:
        raise _too_large()
    if not stream.eof:
        raise UnreadableBody(f"the body is truncated: it ends inside its {name} stream")
    return read


def _from_zstd(body: bytes) -> bytes:
    """Limit the size first: if the frame states its size, the library allocates that much, whatever limit it is given."""
    zstandard = _library("zstandard", "zstandard")
    size: int = zstandard.frame_content_size(body)
    if size > DECOMPRESSED_BYTES_MAX:
        raise _too_large()
    if size >= 0:
        return zstandard.ZstdDecompressor().decompress(body)  # raises for a truncated frame
    read: bytes = zstandard.ZstdDecompressor().stream_reader(body).read(DECOMPRESSED_BYTES_MAX + 1)
    if len(read) > DECOMPRESSED_BYTES_MAX:
        raise _too_large()
    whole = (
        zstandard.ZstdDecompressor().decompressobj()
    )  # a reader does not report whether the frame has ended
    whole.decompress(body)
    if not whole.eof:
        raise UnreadableBody("the body is truncated: it ends inside its zstd stream")
    return read


def _too_large() -> UnreadableBody:
    return UnreadableBody(f"the body has more than {DECOMPRESSED_BYTES_MAX} bytes when decompressed")


def _library(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnreadableBody(
            f"the body is compressed with {package}: install it (pip install {package})"
        ) from error


_CODECS: dict[int, tuple[str, Callable[[bytes], bytes]]] = {
    SYS_COMPRESSION_LZ4: ("LZ4", _from_lz4),
    SYS_COMPRESSION_ZSTD: ("zstd", _from_zstd),
    SYS_COMPRESSION_ZLIB: ("zlib", _from_zlib),
}
