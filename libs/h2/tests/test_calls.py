"""Calls and answers, with an independent client."""

import h2.config
import h2.connection
import h2.events
import pytest
from frames_made import (
    END_STREAM,
    GREETING,
    REQUEST,
    call,
    data,
    frames_of,
    greeted,
    headers,
    kinds,
    received,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gantry_h2.connection import Connection
from gantry_h2.errors import ErrorCode
from gantry_h2.events import Data, Event, Request, Reset, Sent, Trailers
from gantry_h2.frames import FrameType, Setting, settings_frame, window_update
from gantry_h2.limits import Limits

BEGIN = ((b":status", b"200"), (b"content-type", b"application/grpc"))
END = ((b"grpc-status", b"0"),)


class Client:
    """The `h2` package at the other end."""

    def __init__(self, connection: Connection) -> None:
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding=None)
        )
        self.server = connection
        self.bodies: dict[int, bytes] = {}
        self.ended: dict[int, list[tuple[bytes, bytes]]] = {}
        self.h2.initiate_connection()

    def exchange(self) -> list[Event]:
        """Carry bytes in both directions until nothing moves."""
        found: list[Event] = []
        while True:
            sent, got = self.h2.data_to_send(), self.server.take_output()
            if not sent and not got:
                return found
            found += self.server.receive(sent, 0.0) if sent else []
            for event in self.h2.receive_data(got) if got else []:
                self._take(event)

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            self.ended[event.stream_id] = [*event.headers]

    def call(self, content: bytes) -> int:
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, REQUEST)
        self.h2.send_data(stream, content, end_stream=True)
        return stream


def test_a_call_arrives_and_its_answer_returns() -> None:
    client = Client(Connection(Limits(), 0.0))
    stream = client.call(b"request")
    assert client.exchange() == [Request(stream, REQUEST, False), Data(stream, b"request", 7, True)]
    client.server.answer(stream, BEGIN, b"answer", END)
    client.exchange()
    assert client.bodies == {stream: b"answer"}
    assert client.ended == {stream: [*END]}
    assert client.server.open_calls == 0


def test_many_calls_at_once_keep_apart_and_hold_no_memory() -> None:
    client = Client(Connection(Limits(), 0.0))
    for turn in range(30):
        streams = [client.call(b"%d" % number) for number in range(40)]
        contents = {event.stream: event.data for event in client.exchange() if isinstance(event, Data)}
        for stream in reversed(streams):
            client.server.consumed(stream, len(contents[stream]))
            client.server.answer(stream, BEGIN, contents[stream] + b" %d" % turn, END)
        client.exchange()
        assert [client.bodies[stream] for stream in streams] == [b"%d %d" % (n, turn) for n in range(40)]
    assert client.server.open_calls == 0


def test_an_answer_larger_than_the_windows_leaves_as_they_open() -> None:
    client = Client(Connection(Limits(), 0.0))
    first, second = client.call(b"1"), client.call(b"2")
    client.exchange()
    large = bytes(range(256)) * 4096
    client.server.answer(first, BEGIN, large, END)
    client.server.begin_answer(second, BEGIN)
    client.server.send(second, large)
    assert client.server.pending_bytes(second) > 0
    events = client.exchange()
    assert Sent(second) in events
    assert client.bodies == {first: large, second: large}
    client.server.finish(second, END)
    client.exchange()
    assert client.ended == {first: [*END], second: [*END]}


def test_content_larger_than_the_window_waits_until_it_was_used() -> None:
    limits = Limits(stream_window=1000, connection_window=70_000)
    client = Client(Connection(limits, 0.0))
    client.exchange()
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, REQUEST)
    sent = b""
    got: list[bytes] = []
    while len(sent) < 100_000:
        room = client.h2.local_flow_control_window(stream)
        assert room > 0
        client.h2.send_data(stream, piece := b"x" * min(room, 700))
        sent += piece
        for event in client.exchange():
            if isinstance(event, Data):
                got.append(event.data)
                client.server.consumed(stream, event.size)
        client.exchange()
    assert b"".join(got) == sent


def test_padding_counts_and_is_given_back() -> None:
    client = Client(Connection(Limits(stream_window=1000, connection_window=70_000), 0.0))
    client.exchange()
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, REQUEST)
    for _ in range(300):
        client.h2.send_data(stream, b"x", pad_length=255)
        for event in client.exchange():
            if isinstance(event, Data):
                client.server.consumed(stream, event.size)
        client.exchange()


def test_trailers_end_a_call() -> None:
    connection = greeted()
    events = received(connection, headers(1), data(1, b"x"), headers(1, (b"sum", b"1"), flags=5, of=()))
    assert events == [Request(1, REQUEST, False), Data(1, b"x", 1, False), Trailers(1, ((b"sum", b"1"),))]


def test_a_call_that_is_answered_before_its_end_is_reset_without_an_error() -> None:
    connection = greeted()
    received(connection, headers(1))
    connection.answer(1, BEGIN, b"no", END)
    sent = frames_of(connection.take_output())
    assert [one[0] for one in sent] == [
        FrameType.HEADERS,
        FrameType.DATA,
        FrameType.HEADERS,
        FrameType.RST_STREAM,
    ]
    assert sent[-1][3] == bytes(4)
    assert received(connection, data(1, b"late"), data(1, b"late", END_STREAM), call(3)) != []
    assert FrameType.GOAWAY not in kinds(connection.take_output())


def test_a_cancelled_call_is_over_and_nothing_is_sent_to_it() -> None:
    connection = greeted()
    received(connection, headers(1))
    reset = b"\0\0\4\3\0\0\0\0\1\0\0\0\x08"
    assert received(connection, reset) == [Reset(1, ErrorCode.CANCEL)]
    connection.answer(1, BEGIN, b"late", END)
    connection.send(1, b"late")
    connection.finish(1, END)
    connection.reset(1, ErrorCode.CANCEL)
    connection.consumed(1, 10)
    assert connection.take_output() == b""


def test_an_answer_of_trailers_alone_and_one_without_any() -> None:
    connection = greeted()
    received(connection, call(1), call(3))
    connection.finish(1, (*BEGIN, *END))
    connection.answer(3, BEGIN, b"", ())
    sent = frames_of(connection.take_output())
    assert [(kind, flags, stream) for kind, flags, stream, _ in sent] == [
        (FrameType.HEADERS, 5, 1),
        (FrameType.HEADERS, 4, 3),
        (FrameType.DATA, 1, 3),
    ]


def test_streams_that_wait_for_the_connections_window_take_turns() -> None:
    connection = greeted(settings={Setting.INITIAL_WINDOW_SIZE: 1 << 20})
    received(connection, call(1), call(3), call(5))
    for stream in (1, 3, 5):
        connection.answer(stream, BEGIN, bytes(200_000), END)
    connection.take_output()
    received(connection, window_update(0, 16384 * 6))
    sent = [one[2] for one in frames_of(connection.take_output()) if one[0] == FrameType.DATA]
    assert sent == [1, 3, 5, 1, 3, 5]


def test_a_smaller_window_may_become_negative_and_opens_again() -> None:
    """RFC 9113, 6.9.2."""
    connection = greeted()
    received(connection, window_update(0, 100_000), call(3))
    connection.answer(3, BEGIN, bytes(70_000), END)  # 65,535 bytes leave
    connection.take_output()
    received(connection, settings_frame({Setting.INITIAL_WINDOW_SIZE: 0}), window_update(3, 65535))
    assert FrameType.DATA not in kinds(connection.take_output())
    received(connection, window_update(3, 4465))
    sent = frames_of(connection.take_output())
    assert sum(len(one[3]) for one in sent if one[0] == FrameType.DATA) == 4465
    assert sent[-1][:3] == (FrameType.HEADERS, 5, 3)


def test_after_a_drain_open_calls_are_served_and_later_ones_ignored() -> None:
    connection = greeted()
    received(connection, headers(1))
    connection.drain()
    goaway, ping = frames_of(connection.take_output())
    assert goaway[3] == b"\x7f\xff\xff\xff\0\0\0\0"
    crossing = received(connection, call(3), b"\0\0\x08\6\1\0\0\0\0" + ping[3])
    assert [type(event) for event in crossing] == [Request, Data]
    assert frames_of(connection.take_output())[-1][3] == b"\0\0\0\3\0\0\0\0"
    assert received(connection, call(5), data(1, b"x", END_STREAM)) == [Data(1, b"x", 1, True)]
    connection.answer(1, BEGIN, b"1", END)
    connection.answer(3, BEGIN, b"3", END)
    assert connection.open_calls == 0


@settings(max_examples=200)
@given(st.lists(st.integers(1, 40), max_size=80))
def test_bytes_mean_the_same_however_they_are_cut(cuts: list[int]) -> None:
    whole = GREETING + call(1) + headers(3) + data(3, b"a" * 50) + data(3, b"b", END_STREAM) + call(5, b"")
    at_once = Connection(Limits(), 0.0)
    expected = at_once.receive(whole, 0.0)
    connection, at = Connection(Limits(), 0.0), 0
    events: list[Event] = []
    for size in [*cuts, len(whole)]:
        events += connection.receive(whole[at : at + size], 0.0)
        at += size
    assert events == expected
    assert connection.take_output() == at_once.take_output()


@pytest.mark.parametrize("size", [1, 5, 16384, 16385, 50_000])
def test_blocks_of_headers_of_any_size_are_sent_whole(size: int) -> None:
    client = Client(Connection(Limits(), 0.0))
    client.h2.max_header_list_size = 1 << 20  # pyright: ignore[reportAttributeAccessIssue]
    client.h2.decoder.max_header_list_size = 1 << 20
    stream = client.call(b"x")
    client.exchange()
    message = b"\xff" * size if size == 1 else b"~" * size
    client.server.answer(stream, BEGIN, b"", ((b"grpc-message", message),))
    client.exchange()
    assert client.ended[stream] == [(b"grpc-message", message)]
