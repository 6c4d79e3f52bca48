"""Bodies made small and large again: zlib as RocketMQ's clients write it; LZ4 and zstd are read where their libraries are. Pure."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
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
DECOMPRESSED_BYTES_MAX = INFLATED_BYTES_MAX
"""A body that is larger when decompressed is refused, whichever way it was compressed: a few kB must not fill the memory."""


class UnreadableBody(GantryError):
    """A compressed body cannot be read: damaged, cut short, too large, or of a kind that is not known or has no library here."""


def compress(body: bytes) -> bytes:
    """Return a body compressed with zlib."""
    return zlib.compress(body, LEVEL)


def decompress(body: bytes, sys_flag: int) -> bytes:
    """Return a body as it was sent, by what its system flag says of it; UnreadableBody when that cannot be done."""
    if not sys_flag & SYS_COMPRESSED:
        return body
    kind = (sys_flag & SYS_COMPRESSION_MASK) or SYS_COMPRESSION_ZLIB  # clients before 5.0 name none
    if kind not in _CODECS:
        raise UnreadableBody(f"the body is compressed in a way that is not known here (bits {kind:#x})")
    name, read = _CODECS[kind]
    try:
        return read(body)
    except UnreadableBody:
        raise
    except Exception as error:  # each library has errors of its own, and some of no kind in particular
        raise UnreadableBody(
            f"the body says it is compressed with {name} and is not, or is damaged: {error}"
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
        raise UnreadableBody(f"the body is cut short: it ends inside its {name} stream")
    return read


def _from_zstd(body: bytes) -> bytes:
    """Where the frame says its size the library takes that much memory at once, whatever limit it is given."""
    zstandard = _library("zstandard", "zstandard")
    size: int = zstandard.frame_content_size(body)
    if size > DECOMPRESSED_BYTES_MAX:
        raise _too_large()
    if size >= 0:
        return zstandard.ZstdDecompressor().decompress(body)  # raises for a frame that is cut short
    read: bytes = zstandard.ZstdDecompressor().stream_reader(body).read(DECOMPRESSED_BYTES_MAX + 1)
    if len(read) > DECOMPRESSED_BYTES_MAX:
        raise _too_large()
    whole = zstandard.ZstdDecompressor().decompressobj()  # a reader does not say whether the frame has ended
    whole.decompress(body)
    if not whole.eof:
        raise UnreadableBody("the body is cut short: it ends inside its zstd stream")
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
