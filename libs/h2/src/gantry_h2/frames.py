"""Frames of HTTP/2: their layout (RFC 9113, 4.1 and 6). Nothing here knows a state."""

from enum import IntEnum
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends before its first frame (RFC 9113, 3.4)."""

FRAME_HEADER: Final = Struct("!HBBBL")
"""Length in 16 and 8 bits, type, flags, stream."""
FRAME_BYTES_MIN: Final = 1 << 14
"""The largest payload that every peer accepts, in bytes (SETTINGS_MAX_FRAME_SIZE may raise it)."""
FRAME_BYTES_MAX: Final = (1 << 24) - 1
STREAM_MAX: Final = (1 << 31) - 1
WINDOW_MAX: Final = (1 << 31) - 1
WINDOW_DEFAULT: Final = (1 << 16) - 1

U32: Final = Struct("!L")
SETTING: Final = Struct("!HL")
GOAWAY: Final = Struct("!LL")


class FrameType(IntEnum):
    """RFC 9113, 6."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Flag:
    """Flags of frames. ACK and END_STREAM are one bit, of different types. Plain numbers: an IntFlag takes a microsecond for each `&`."""

    NONE: Final = 0
    END_STREAM: Final = 1
    ACK: Final = 1
    END_HEADERS: Final = 4
    PADDED: Final = 8
    PRIORITY: Final = 32


class Setting(IntEnum):
    """RFC 9113, 6.5.2."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


def frame_header(size: int, kind: int, flags: int, stream: int) -> bytes:
    """Return the 9 bytes before a payload of `size` bytes."""
    return FRAME_HEADER.pack(size >> 8, size & 0xFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a whole frame."""
    return frame_header(len(payload), kind, flags, stream) + payload


def settings_frame(values: dict[Setting, int]) -> bytes:
    """Return the SETTINGS frame with these values."""
    return frame(
        FrameType.SETTINGS, 0, 0, b"".join(SETTING.pack(key, value) for key, value in values.items())
    )


def window_update(stream: int, size: int) -> bytes:
    """Return the frame that allows `size` bytes more, on a stream or, with 0, on the connection."""
    return frame(FrameType.WINDOW_UPDATE, 0, stream, U32.pack(size))
