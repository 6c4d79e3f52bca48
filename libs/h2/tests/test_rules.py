"""What a client must not do, and what becomes of it: each rule of RFC 9113 that a server checks."""

import pytest
from frames_made import (
    END_HEADERS,
    END_STREAM,
    GREETING,
    PADDED,
    PRIORITY,
    REQUEST,
    call,
    data,
    frames_of,
    greeted,
    headers,
    received,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gantry_h2 import request_headers
from gantry_h2.connection import Connection
from gantry_h2.errors import ErrorCode
from gantry_h2.events import Data, Ended, Request, Reset
from gantry_h2.frames import PREFACE, FrameType, Setting, frame, settings_frame, window_update
from gantry_h2.hpack.encoder import encode_block
from gantry_h2.hpack.static_table import Header
from gantry_h2.limits import Limits
from gantry_h2.request_headers import HEADER_BYTES_KEPT_MAX, HEADERS_KEPT_MAX

U32_ONE = b"\0\0\0\1"
ENDS: list[tuple[str, bytes, ErrorCode]] = [
    ("DATA on stream 0", data(0, b"x"), ErrorCode.PROTOCOL_ERROR),
    ("DATA on a stream that nobody began", data(1, b"x"), ErrorCode.PROTOCOL_ERROR),
    ("DATA with padding alone", headers(1) + data(1, b"\5xxxx", PADDED), ErrorCode.PROTOCOL_ERROR),
    ("HEADERS on stream 0", headers(0), ErrorCode.PROTOCOL_ERROR),
    ("HEADERS on an even stream", headers(2), ErrorCode.PROTOCOL_ERROR),
    ("HEADERS on an older stream", headers(5) + headers(3), ErrorCode.STREAM_CLOSED),
    (
        "HEADERS too short for a priority",
        frame(1, END_HEADERS | PRIORITY, 1, b"\0\0"),
        ErrorCode.FRAME_SIZE_ERROR,
    ),
    (
        "HEADERS with an index that names nothing",
        frame(1, END_HEADERS, 1, b"\xfe"),
        ErrorCode.COMPRESSION_ERROR,
    ),
    ("CONTINUATION of nothing", frame(9, END_HEADERS, 1, b""), ErrorCode.PROTOCOL_ERROR),
    ("PING within a block", headers(1, flags=0) + frame(6, 0, 0, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    ("CONTINUATION of another stream", headers(1, flags=0) + frame(9, 4, 3), ErrorCode.PROTOCOL_ERROR),
    ("PRIORITY on stream 0", frame(2, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
    ("RST_STREAM on stream 0", frame(3, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    ("RST_STREAM of a stream that nobody began", frame(3, 0, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    ("RST_STREAM of 3 bytes", headers(1) + frame(3, 0, 1, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
    ("SETTINGS on a stream", frame(4, 0, 1), ErrorCode.PROTOCOL_ERROR),
    ("SETTINGS of 5 bytes", frame(4, 0, 0, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
    ("an acknowledgement with content", frame(4, 1, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
    ("ENABLE_PUSH of 2", settings_frame({Setting.ENABLE_PUSH: 2}), ErrorCode.PROTOCOL_ERROR),
    (
        "a window of 2^31",
        settings_frame({Setting.INITIAL_WINDOW_SIZE: 1 << 31}),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    ("frames of 16383 bytes", settings_frame({Setting.MAX_FRAME_SIZE: 16383}), ErrorCode.PROTOCOL_ERROR),
    ("frames of 2^24 bytes", settings_frame({Setting.MAX_FRAME_SIZE: 1 << 24}), ErrorCode.PROTOCOL_ERROR),
    ("PUSH_PROMISE", frame(5, 4, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    ("PING on a stream", frame(6, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    ("PING of 7 bytes", frame(6, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
    ("GOAWAY on a stream", frame(7, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    ("GOAWAY of 7 bytes", frame(7, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
    ("WINDOW_UPDATE of 0 bytes", window_update(0, 0), ErrorCode.PROTOCOL_ERROR),
    ("WINDOW_UPDATE of 3 bytes long", frame(8, 0, 0, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
    ("WINDOW_UPDATE of a stream that nobody began", window_update(1, 1), ErrorCode.PROTOCOL_ERROR),
    ("a window above 2^31 - 1", window_update(0, (1 << 31) - 1), ErrorCode.FLOW_CONTROL_ERROR),
    ("a frame that is too large", frame(0, 0, 1, bytes(16385)), ErrorCode.FRAME_SIZE_ERROR),
    (
        "DATA behind an answer and its end",
        headers(1, flags=5) + frame(3, 0, 1, bytes(4)) + data(1, b"x"),
        ErrorCode.STREAM_CLOSED,
    ),
]


@pytest.mark.parametrize(("sent", "code"), [one[1:] for one in ENDS], ids=[one[0] for one in ENDS])
def test_it_ends_the_connection(sent: bytes, code: ErrorCode) -> None:
    connection = greeted()
    last = received(connection, sent)[-1]
    assert isinstance(last, Ended)
    assert last.code == code
    goaway = frames_of(connection.take_output())[-1]
    assert goaway[0] == FrameType.GOAWAY
    assert goaway[3][4:8] == code.to_bytes(4, "big")
    assert goaway[3][8:] == last.reason.encode()
    assert received(connection, call(99)) == []


RESETS: list[tuple[str, bytes, ErrorCode]] = [
    ("a stream that depends on itself", frame(2, 0, 1, U32_ONE + b"\0"), ErrorCode.PROTOCOL_ERROR),
    ("PRIORITY of 4 bytes", frame(2, 0, 1, bytes(4)), ErrorCode.FRAME_SIZE_ERROR),
    ("a window of 0 bytes", window_update(1, 0), ErrorCode.PROTOCOL_ERROR),
    ("a window above 2^31 - 1", window_update(1, (1 << 31) - 1), ErrorCode.FLOW_CONTROL_ERROR),
    ("headers within the content", headers(1, of=()), ErrorCode.PROTOCOL_ERROR),
    ("a pseudo-header behind the content", headers(1, flags=5), ErrorCode.PROTOCOL_ERROR),
    ("DATA behind the end", data(1, b"", END_STREAM) + data(1, b"x"), ErrorCode.STREAM_CLOSED),
    (
        "headers behind the end",
        data(1, b"", END_STREAM) + headers(1, flags=5, of=()),
        ErrorCode.STREAM_CLOSED,
    ),
    ("more than the window", data(1, bytes(1001)), ErrorCode.FLOW_CONTROL_ERROR),
]


@pytest.mark.parametrize(("sent", "code"), [one[1:] for one in RESETS], ids=[one[0] for one in RESETS])
def test_it_ends_the_stream_alone(sent: bytes, code: ErrorCode) -> None:
    connection = greeted(Limits(stream_window=1000))
    events = received(connection, headers(1), headers(3), sent)
    assert Reset(1, code) in events
    assert frames_of(connection.take_output())[-1] == (FrameType.RST_STREAM, 0, 1, code.to_bytes(4, "big"))
    assert received(connection, data(3, b"x", END_STREAM)) == [Data(3, b"x", 1, True)]


NO_PSEUDO = REQUEST[4:]
MALFORMED: list[tuple[str, tuple[Header, ...]]] = [
    ("upper case", (*REQUEST, (b"X-Name", b"x"))),
    ("an empty name", (*REQUEST, (b"", b"x"))),
    ("a space in a name", (*REQUEST, (b"a b", b"x"))),
    ("an unknown pseudo-header", ((b":test", b"x"), *REQUEST)),
    ("a pseudo-header of answers", ((b":status", b"200"), *REQUEST)),
    ("a pseudo-header behind others", (*NO_PSEUDO, *REQUEST[:4])),
    ("a pseudo-header twice", (REQUEST[0], *REQUEST)),
    ("no method", REQUEST[1:]),
    ("no scheme", (REQUEST[0], *REQUEST[2:])),
    ("no path", (*REQUEST[:2], *REQUEST[3:])),
    ("an empty path", (*REQUEST[:2], (b":path", b""), *REQUEST[3:])),
    ("CONNECT with a path", ((b":method", b"CONNECT"), *REQUEST[1:])),
    ("connection", (*REQUEST, (b"connection", b"close"))),
    ("transfer-encoding", (*REQUEST, (b"transfer-encoding", b"chunked"))),
    ("te other than trailers", (*REQUEST, (b"te", b"gzip"))),
    ("a line end in a value", (*REQUEST, (b"x", b"a\r\nb: c"))),
    ("a zero byte in a value", (*REQUEST, (b"x", b"a\0b"))),
    ("a value that ends with a space", (*REQUEST, (b"x", b"a "))),
    ("a length that is no number", (*REQUEST, (b"content-length", b"-1"))),
    ("two lengths", (*REQUEST, (b"content-length", b"1"), (b"content-length", b"2"))),
]


@pytest.mark.parametrize("of", [one[1] for one in MALFORMED], ids=[one[0] for one in MALFORMED])
def test_a_malformed_request_is_no_call(of: tuple[Header, ...]) -> None:
    connection = greeted()
    for stream in (1, 3):  # the second time the headers are known
        assert received(connection, headers(stream, of=of)) == []
        reset = frames_of(connection.take_output())[-1]
        assert reset == (FrameType.RST_STREAM, 0, stream, ErrorCode.PROTOCOL_ERROR.to_bytes(4, "big"))
    assert received(connection, call(5)) != []


def test_what_is_kept_of_headers_is_bounded_whatever_clients_send() -> None:
    connection = greeted(Limits(header_list_bytes_max=1 << 20))
    before = len(request_headers._passed)
    for number in range(50):
        large = (b"x-large", b"%d" % number * HEADER_BYTES_KEPT_MAX)
        assert received(connection, headers(2 * number + 1, large)) != []
        connection.reset(2 * number + 1, ErrorCode.CANCEL)
    assert len(request_headers._passed) <= before + len(REQUEST)
    for number in range(51, 60):
        small = [(b"x-small", b"%d %d" % (number, each)) for each in range(200)]
        assert received(connection, headers(2 * number + 1, *small)) != []
        connection.reset(2 * number + 1, ErrorCode.CANCEL)
    assert len(request_headers._passed) <= HEADERS_KEPT_MAX


@pytest.mark.parametrize("content", [[b"1234"], [b"123456"], [b"123", b"456"], [b""]])
def test_content_that_is_not_as_long_as_announced_ends_the_stream(content: list[bytes]) -> None:
    connection = greeted()
    parts = [data(1, one) for one in content[:-1]] + [data(1, content[-1], END_STREAM)]
    events = received(connection, headers(1, (b"content-length", b"5")), *parts)
    assert events[-1] == Reset(1, ErrorCode.PROTOCOL_ERROR)


def test_content_as_long_as_announced_passes() -> None:
    events = received(greeted(), headers(1, (b"content-length", b"5")), data(1, b"12"), data(1, b"345", 1))
    assert [type(event) for event in events] == [Request, Data, Data]


@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\n\r\n", PREFACE[:-1] + b"x", PREFACE + call(1)])
def test_what_does_not_begin_as_http2_ends_at_once(begin: bytes) -> None:
    last = Connection(Limits(), 0.0).receive(begin, 0.0)[-1]
    assert isinstance(last, Ended)
    assert last.code == ErrorCode.PROTOCOL_ERROR


def test_calls_beyond_the_limit_are_refused_and_their_headers_are_known_later() -> None:
    connection = greeted(Limits(streams_max=2))
    block = encode_block(REQUEST) + b"\x40\1a\1b"  # a literal that the table keeps
    for stream in (1, 3, 5):
        events = received(connection, frame(1, END_HEADERS, stream, block))
        assert len(events) == (stream < 5)
    assert frames_of(connection.take_output())[-1][3] == ErrorCode.REFUSED_STREAM.to_bytes(4, "big")
    connection.reset(1, ErrorCode.CANCEL)
    events = received(connection, frame(1, END_HEADERS, 7, encode_block(REQUEST) + b"\xbe"))
    assert events == [Request(7, (*REQUEST, (b"a", b"b")), False)]


def test_more_than_the_connections_window_ends_it() -> None:
    connection = greeted(Limits(connection_window=70_000, stream_window=1 << 20))
    events = received(connection, headers(1), *(data(1, bytes(16000)) for _ in range(5)))
    assert isinstance(events[-1], Ended)
    assert events[-1].code == ErrorCode.FLOW_CONTROL_ERROR


FLOODS = {
    "PING": frame(6, 0, 0, bytes(8)),
    "SETTINGS": settings_frame({}),
    "RST_STREAM": b"",
    "PRIORITY": frame(2, 0, 1, bytes(5)),
    "WINDOW_UPDATE": window_update(1, 1),
    "empty DATA": data(1),
    "small DATA": data(1, b"x"),
    "unknown frames": frame(99, 0, 0),
    "malformed requests": b"",
    "CONTINUATION": frame(9, 0, 3),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_ends_the_connection(kind: str) -> None:
    """Without content, and without calls: within some thousand frames."""
    connection = greeted()
    received(connection, headers(1), headers(3, flags=0) if kind == "CONTINUATION" else b"")
    for number in range(1, 20_000):
        sent = FLOODS[kind]
        if kind == "RST_STREAM":
            sent = headers(2 * number + 1, flags=5) + frame(3, 0, 2 * number + 1, bytes(4))
        elif kind == "malformed requests":
            sent = headers(2 * number + 1, of=())
        events = received(connection, sent)
        connection.take_output()
        if events and isinstance(events[-1], Ended):
            assert events[-1].code == ErrorCode.ENHANCE_YOUR_CALM
            assert number < 3000
            return
    pytest.fail("it continued")


def test_a_busy_client_is_never_cut() -> None:
    """As gRPC's clients do: with each call a PING and two windows, and now and then a cancelled call."""
    connection = greeted()
    for number in range(10_000):
        stream = 2 * number + 1
        noise = frame(6, 0, 0, bytes(8)) + window_update(0, 120)
        events = received(connection, noise, headers(stream), window_update(stream, 5), data(stream, b"x", 1))
        assert not isinstance(events[-1], Ended)
        if number % 5:
            connection.consumed(stream, 1)
            connection.answer(stream, ((b":status", b"200"),), bytes(100), ((b"grpc-status", b"0"),))
        else:
            received(connection, frame(3, 0, stream, bytes(4)))
        connection.take_output()


def test_an_idle_client_that_pings_for_days_is_never_cut() -> None:
    connection = greeted()
    for minute in range(20_000):
        assert received(connection, frame(6, 0, 0, bytes(8)), now=minute * 60.0) == []
        assert frames_of(connection.take_output()) == [(FrameType.PING, 1, 0, bytes(8))]


def test_a_block_of_headers_is_bounded() -> None:
    connection = greeted(Limits(header_list_bytes_max=20_000))
    events = received(connection, headers(1, flags=0), *(frame(9, 0, 1, bytes(9000)) for _ in range(3)))
    assert isinstance(events[-1], Ended)
    assert events[-1].code == ErrorCode.ENHANCE_YOUR_CALM


def test_headers_that_are_too_large_end_their_stream_alone() -> None:
    connection = greeted(Limits(header_list_bytes_max=2000))
    assert received(connection, headers(1, (b"x", b"y" * 3000))) == []
    assert frames_of(connection.take_output())[-1][:3] == (FrameType.RST_STREAM, 0, 1)
    assert received(connection, call(3)) != []


FRAMES = st.builds(
    frame,
    st.integers(0, 10),
    st.sampled_from([0, 1, 4, 5, 8, 13, 32, 255]),
    st.sampled_from([0, 1, 2, 3, 5, (1 << 31) - 1]),
    st.one_of(st.binary(max_size=20), st.just(encode_block(REQUEST)), st.just(bytes(4)), st.just(bytes(8))),
)


@settings(max_examples=500)
@given(st.lists(FRAMES, max_size=30))
def test_no_frames_of_any_kind_raise_anything(sent: list[bytes]) -> None:
    connection = Connection(Limits(), 0.0)
    events = connection.receive(GREETING + b"".join(sent), 0.0)
    calls = {event.stream for event in events if isinstance(event, Request)}
    for stream in calls:
        connection.answer(stream, ((b":status", b"200"),), b"x", ())
    frames_of(connection.take_output())
    assert all(event.stream in calls for event in events if isinstance(event, Data | Reset))


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_raise_anything(sent: bytes, is_greeted: bool) -> None:
    Connection(Limits(), 0.0).receive((GREETING if is_greeted else b"") + sent, 0.0)
