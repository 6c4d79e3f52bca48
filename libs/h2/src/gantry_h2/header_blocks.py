"""Blocks of headers from HEADERS and the CONTINUATION frames that follow (RFC 9113, 6.2 and 6.10)."""

from typing import NamedTuple

from gantry_h2.errors import ConnectionFault, ErrorCode
from gantry_h2.frames import U32, Flag


class Block(NamedTuple):
    """A whole block, still coded."""

    stream: int
    coded: bytes
    is_end: bool
    depends_on_itself: bool


class HeaderBlocks:
    """Joins the pieces of a block. No other frame may come between them."""

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max` bounds a coded block: what is longer can only be skipped by reading it all."""
        self._bytes_max = bytes_max
        self._pieces: list[bytes] = []
        self._first: Block | None = None
        self._size = 0

    @property
    def awaited(self) -> int:
        """The stream whose next frame must be a CONTINUATION, 0 for none."""
        return self._first.stream if self._first is not None else 0

    @property
    def held_bytes(self) -> int:
        """Bytes of a block that is not whole."""
        return self._size if self._first is not None else 0

    def begin(self, stream: int, flags: int, payload: bytes) -> Block | None:
        """Take a HEADERS frame. Return its block if it is whole. Raises ConnectionFault."""
        content = unpadded(flags, payload)
        depends_on_itself = False
        if flags & Flag.PRIORITY:
            if len(content) < 5:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS is too short for its priority")
            depends_on_itself = U32.unpack_from(content)[0] & 0x7FFFFFFF == stream
            content = content[5:]
        block = Block(stream, content, bool(flags & Flag.END_STREAM), depends_on_itself)
        if flags & Flag.END_HEADERS:
            return block
        self._first, self._pieces, self._size = block, [content], len(content)
        return None

    def follow(self, stream: int, flags: int, payload: bytes) -> Block | None:
        """Take a CONTINUATION frame. Return the block if it is whole. Raises ConnectionFault."""
        first = self._first
        if first is None or first.stream != stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a CONTINUATION that continues nothing")
        self._pieces.append(payload)
        self._size += len(payload)
        if self._size > self._bytes_max:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, f"a block of headers is larger than {self._bytes_max} bytes"
            )
        if not flags & Flag.END_HEADERS:
            return None
        self._first = None
        coded = b"".join(self._pieces)
        self._pieces.clear()
        return first._replace(coded=coded)


def unpadded(flags: int, payload: bytes) -> bytes:
    """Return a payload without its padding. Raises ConnectionFault for more padding than there is."""
    if not flags & Flag.PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame has more padding than content")
    return payload[1 : len(payload) - payload[0]]
