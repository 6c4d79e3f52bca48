"""Messages within the content of a call: five bytes before each (gRPC over HTTP/2, "Length-Prefixed-Message")."""

import zlib
from struct import Struct
from typing import Final

from gantry_link.grpc.limits import GrpcLimits
from gantry_link.grpc.status import GrpcError, GrpcStatus

PREFIX: Final = Struct("!BL")
"""Whether it is compressed, and its length in bytes."""
PREFIX_BYTES: Final = PREFIX.size
GZIP: Final = b"gzip"
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
"""Only gzip's own form, with the largest window."""


def framed(message: bytes) -> bytes:
    """Return a message with its prefix."""
    return PREFIX.pack(0, len(message)) + message


def only_message(content: bytes, bytes_max: int) -> bytes | None:
    """Return the message of a content that is one whole message without compression. None for any other: let a Deframer judge it."""
    if content[:1] != b"\0" or len(content) < PREFIX_BYTES:
        return None
    size = int.from_bytes(content[1:PREFIX_BYTES])
    if size != len(content) - PREFIX_BYTES or size > bytes_max:
        return None
    return content[PREFIX_BYTES:]


class Deframer:
    """Cuts the content of one call into messages. What it holds is bounded by the limit of a message and what the client may send ahead."""

    __slots__ = ("_buffer", "_encoding", "_limits")

    def __init__(self, limits: GrpcLimits, encoding: bytes) -> None:
        """Begin with nothing. `encoding` is the call's grpc-encoding: empty, or gzip."""
        self._limits, self._encoding = limits, encoding
        self._buffer = bytearray()

    def __len__(self) -> int:
        """Bytes that are held."""
        return len(self._buffer)

    @property
    def wanted(self) -> int:
        """Bytes of the first message with its prefix, as far as they are known."""
        return PREFIX_BYTES + self._size()

    def feed(self, data: bytes) -> None:
        """Take content, cut anywhere. Raises GrpcError if the message that begins the buffer is too large."""
        self._buffer += data
        self._size()

    def next(self) -> bytes | None:
        """Return the next message, None if it is not whole. Raises GrpcError."""
        size = self._size()
        end = PREFIX_BYTES + size
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as view:
            message = bytes(view[PREFIX_BYTES:end])
        is_packed = self._buffer[0] == 1
        del self._buffer[:end]
        return self._unpacked(message) if is_packed else message

    def _size(self) -> int:
        """Return the length of the first message; 0 while it is unknown."""
        if len(self._buffer) < PREFIX_BYTES:
            return 0
        flag, size = PREFIX.unpack_from(self._buffer)
        if flag > 1 or (flag and not self._encoding):
            raise GrpcError(GrpcStatus.INTERNAL, "a message is compressed, and grpc-encoding names nothing")
        if size > self._limits.message_bytes_max:
            raise _too_large(f"a message of {size} bytes", self._limits.message_bytes_max)
        return size

    def _unpacked(self, message: bytes) -> bytes:
        bytes_max = self._limits.unpacked_bytes_max
        unpacking = zlib.decompressobj(_GZIP_WINDOW)
        try:
            found = unpacking.decompress(message, bytes_max + 1)
        except zlib.error:
            raise GrpcError(GrpcStatus.INTERNAL, "a message is not what gzip makes") from None
        if len(found) > bytes_max:
            raise _too_large("an unpacked message", bytes_max)
        if not unpacking.eof or unpacking.unused_data:
            raise GrpcError(GrpcStatus.INTERNAL, "a compressed message is cut short, or has more behind it")
        return found


def _too_large(what: str, bytes_max: int) -> GrpcError:
    return GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, f"{what}: {bytes_max} bytes are the limit")
