"""Splits a byte stream into frames. The bytes may arrive cut anywhere.

    offset  bytes  field
    0       4      length of the rest of the frame (4 + header + body)
    4       1      serialize type: 0 JSON, 1 binary
    5       3      header length
    8       h      header
    8 + h   …      body

Knows no socket, no clock and no codes.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple, cast

from gantry_wire.errors import WireError
from gantry_wire.limits import FRAME_BYTES_MAX, FRAME_HEAD_BYTES, HEADER_BYTES_MAX

FRAME_HEAD = Struct(">iI")
"""Length, then serialize type and header length in one integer."""
JSON, BINARY = 0, 1
SERIALIZE_TYPES = frozenset({JSON, BINARY})

_LENGTH = Struct(">i")
_LENGTH_MAX = FRAME_BYTES_MAX - _LENGTH.size
_MARK_MAX = BINARY << 24 | HEADER_BYTES_MAX
_AFTER_LENGTH = FRAME_HEAD_BYTES - _LENGTH.size
_HTTP_ANSWER = b"HTTP"
_HTTP_METHODS = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"PATC", b"OPTI"})
"""First bytes of HTTP requests. Read as a frame length they exceed every limit."""


class RawFrame(NamedTuple):
    """One whole frame with an undecoded header."""

    serialize_type: int
    header: bytes
    body: bytes


class MalformedFrame(WireError):
    """The lengths of a frame are invalid, so the rest of the stream is unreadable. Handle `frames`, then close the connection."""

    close = True

    def __init__(self, message: str, frames: list[RawFrame] | None = None) -> None:
        super().__init__(message)
        self.frames: list[RawFrame] = frames or []
        """Whole frames before the bad one in the same bytes."""


_new_frame = cast("Callable[[type[RawFrame], tuple[int, bytes, bytes]], RawFrame]", tuple.__new__)


class FrameDecoder:
    """Splits a byte stream, cut anywhere, into whole frames.

    Refuses a frame that is too long or too short, has an unknown serialize type or a header longer than itself, as soon
    as its head has arrived and before it buffers the body. After that every call raises.
    """

    __slots__ = ("_broken", "_held", "_needed")

    def __init__(self) -> None:
        self._held = bytearray()
        self._needed = 0  # bytes that must be buffered before the next attempt to split
        self._broken: str | None = None

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the incomplete last frame."""
        return len(self._held)

    def receive(self, data: bytes) -> list[RawFrame]:
        """Return the frames that `data` completes, in order. Raises MalformedFrame if the stream is invalid."""
        if self._broken is not None:
            raise MalformedFrame(self._broken)
        held = self._held
        if held:
            held += data
            if len(held) < self._needed:
                return []
            data = bytes(held)
            held.clear()
        frames: list[RawFrame] = []
        try:
            start = _split(data, frames)
        except MalformedFrame as error:
            self._broken = str(error)
            error.frames = frames
            raise
        if start < len(data):
            held += data[start:] if start else data
            self._needed = self._size_wanted()
        return frames

    def _size_wanted(self) -> int:
        held = self._held
        if len(held) >= FRAME_HEAD_BYTES:
            return _LENGTH.unpack_from(held)[0] + _LENGTH.size
        return _LENGTH.size if len(held) < _LENGTH.size else FRAME_HEAD_BYTES


def _split(data: bytes, frames: list[RawFrame]) -> int:
    """Append the whole frames of `data` and return the start of the first incomplete one."""
    unpack, append = FRAME_HEAD.unpack_from, frames.append
    start, end = 0, len(data)
    while end - start >= FRAME_HEAD_BYTES:
        length, mark = unpack(data, start)
        body_start = start + FRAME_HEAD_BYTES + (mark & HEADER_BYTES_MAX)
        frame_end = start + _LENGTH.size + length
        if length > _LENGTH_MAX or body_start > frame_end or mark > _MARK_MAX:
            _refuse(length, mark)
        if frame_end > end:
            return start
        header = data[start + FRAME_HEAD_BYTES : body_start]
        append(_new_frame(RawFrame, (mark >> 24, header, data[body_start:frame_end])))
        start = frame_end
    if end - start >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data, start)
        if not _AFTER_LENGTH <= length <= _LENGTH_MAX:
            _refuse(length, 0)
    return start


def _refuse(length: int, mark: int) -> None:
    text = _LENGTH.pack(length)
    if text == _HTTP_ANSWER:
        message = "an HTTP answer: this is an HTTP port; the nameserver's default port is 9876"
        raise MalformedFrame(message)
    if text in _HTTP_METHODS:
        message = "an HTTP request: this is not an HTTP port; the gateway's default port is 8080"
        raise MalformedFrame(message)
    if not _AFTER_LENGTH <= length <= _LENGTH_MAX:
        raise MalformedFrame(f"frame length {length} is outside {_AFTER_LENGTH}..{_LENGTH_MAX}")
    if mark >> 24 not in SERIALIZE_TYPES:
        raise MalformedFrame(f"serialize type {mark >> 24} is unknown")
    raise MalformedFrame(f"header of {mark & HEADER_BYTES_MAX} bytes does not fit a frame length of {length}")
