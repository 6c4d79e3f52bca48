"""Frames of a client, written by hand, for what a correct client never sends."""

from gantry_h2.connection import Connection
from gantry_h2.events import Event
from gantry_h2.frames import FRAME_HEADER, PREFACE, FrameType, Setting, frame, settings_frame
from gantry_h2.hpack.encoder import encode_block
from gantry_h2.hpack.static_table import Header
from gantry_h2.limits import Limits

REQUEST: tuple[Header, ...] = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/apache.rocketmq.v2.MessagingService/SendMessage"),
    (b":authority", b"127.0.0.1:8081"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
)
END_STREAM, END_HEADERS, PADDED, PRIORITY = 1, 4, 8, 32
GREETING = PREFACE + settings_frame({})


def headers(stream: int, *more: Header, flags: int = END_HEADERS, of: tuple[Header, ...] = REQUEST) -> bytes:
    """Return the HEADERS frame of a request."""
    return frame(FrameType.HEADERS, flags, stream, encode_block((*of, *more)))


def data(stream: int, content: bytes = b"", flags: int = 0) -> bytes:
    return frame(FrameType.DATA, flags, stream, content)


def call(stream: int, content: bytes = b"content") -> bytes:
    """Return a whole call."""
    return headers(stream) + data(stream, content, END_STREAM)


def greeted(limits: Limits | None = None, settings: dict[Setting, int] | None = None) -> Connection:
    """Return a connection whose client has said hello, with nothing left to write."""
    connection = Connection(limits or Limits(), 0.0)
    assert connection.receive(PREFACE + settings_frame(settings or {}), 0.0) == []
    connection.take_output()
    return connection


def frames_of(output: bytes) -> list[tuple[int, int, int, bytes]]:
    """Return type, flags, stream and payload of each frame."""
    found: list[tuple[int, int, int, bytes]] = []
    at = 0
    while at < len(output):
        high, low, kind, flags, stream = FRAME_HEADER.unpack_from(output, at)
        end = at + FRAME_HEADER.size + (high << 8 | low)
        found.append((kind, flags, stream, output[at + FRAME_HEADER.size : end]))
        at = end
    assert at == len(output)
    return found


def kinds(output: bytes) -> list[int]:
    return [one[0] for one in frames_of(output)]


def received(connection: Connection, *parts: bytes, now: float = 0.0) -> list[Event]:
    return connection.receive(b"".join(parts), now)
