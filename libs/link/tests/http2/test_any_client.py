"""Whatever a client sends: no exception, and nothing is held when its connection is over."""

import asyncio

from grpc_client import Noted, framed, listen
from hypothesis import given, settings
from hypothesis import strategies as st

from gantry_h2.frames import PREFACE, FrameType, frame
from gantry_h2.hpack.encoder import encode_block
from gantry_h2.limits import Limits
from gantry_link.grpc.calls import Methods
from gantry_link.grpc.limits import GrpcLimits
from gantry_link.grpc.server import GrpcServer
from gantry_link.http2.connection import Http2Connection
from gantry_link.http2.limits import Http2Limits

PATHS = [b"/t/Echo", b"/t/Task", b"/t/Future", b"/t/Raise", b"/t/Chat", b"/t/Large", b"/t/None"]
LIMITS = GrpcLimits(
    message_bytes_max=3000,
    http2=Http2Limits(connection=Limits(streams_max=4, stream_window=2000), output_pause_bytes=10_000),
)


class Transport(asyncio.Transport):
    """Takes what is written, up to a limit that a test may lift."""

    def __init__(self):
        super().__init__()
        self.unsent, self.is_over = 0, False

    def write(self, data):
        assert data
        assert not self.is_over
        self.unsent += len(data)

    def get_extra_info(self, name, default=None):
        return ("127.0.0.1", 1) if name == "peername" else default

    def get_write_buffer_size(self):
        return self.unsent

    def set_write_buffer_limits(self, high=None, low=None):
        """The test pauses and resumes."""

    def is_closing(self):
        return self.is_over

    def close(self):
        self.is_over = True

    abort = close

    def pause_reading(self):
        """The test decides what is read."""

    resume_reading = pause_reading


def methods():
    async def task(_info, message):
        await asyncio.sleep(0)
        return message

    async def chat(stream):
        while (message := await stream.receive()) is not None:
            await stream.send(message)

    async def large(stream):
        for _ in range(10):
            await stream.send(bytes(5000))

    def fail(_info, _message):
        raise KeyError

    unary = {
        "/t/Echo": lambda _info, message: message,
        "/t/Task": task,
        "/t/Future": lambda *_: asyncio.get_running_loop().create_future(),
        "/t/Raise": fail,
    }
    return Methods(unary, {"/t/Chat": chat, "/t/Large": large})


def headers(path, more=()):
    common = (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b"te", b"trailers"),
        (b"content-type", b"application/grpc"), *more,
    )  # fmt: skip
    return encode_block(common)


WHICH = st.integers(0, 3)
"""One of the streams that were begun, the newest first."""
MORE = st.sampled_from([(), ((b"grpc-timeout", b"1n"),), ((b"grpc-timeout", b"9H"),), ((b"grpc-encoding", b"gzip"),)])  # fmt: skip
CONTENTS = st.one_of(
    st.binary(max_size=20).map(framed),
    st.integers(0, 3500).map(lambda size: framed(bytes(size))),
    st.binary(max_size=20),
    st.tuples(st.binary(max_size=30).map(framed), st.integers(0, 30)).map(lambda pair: pair[0][: pair[1]]),
)
BEGIN = st.tuples(st.just("begin"), st.sampled_from(PATHS), MORE, st.sampled_from([0, 0, 0, 1]))
DATA = st.tuples(st.just("data"), WHICH, CONTENTS, st.integers(0, 1))
RESET = st.tuples(st.just("reset"), WHICH)
WINDOW = st.tuples(st.just("window"), st.one_of(st.none(), WHICH), st.integers(1, 100_000))
SIZE = st.tuples(st.just("windows of"), st.integers(0, 70_000))
PING = st.tuples(st.just("ping"), st.integers(0, 1), st.sampled_from([b"draining", b"is alive", bytes(8)]))
RAW = st.tuples(st.just("raw"), st.integers(0, 11), st.integers(0, 255), WHICH, st.binary(max_size=20))
OURS = st.tuples(st.sampled_from(["turn", "turn", "pause", "resume", "sweep", "drain", "end"]))
USUAL = st.one_of(BEGIN, DATA, DATA, DATA, RESET, WINDOW, SIZE, PING, OURS, OURS)
LIVES = st.tuples(st.lists(USUAL, max_size=40), st.lists(st.one_of(USUAL, RAW), max_size=10))


class Life:
    """A connection, and what its client did."""

    def __init__(self, server):
        self.server, self.transport = server, Transport()
        self.connection = Http2Connection(server._port)
        self.connection.connection_made(self.transport)
        self.begun = [1]
        self._send(
            PREFACE + frame(FrameType.SETTINGS, 0, 0) + frame(FrameType.HEADERS, 4, 1, headers(PATHS[0]))
        )

    async def step(self, kind, *given):
        match kind:
            case "turn":
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            case "pause":
                self.connection.pause_writing()
            case "resume":
                self.transport.unsent = 0
                self.connection.resume_writing()
            case "sweep":
                self.server._port.sweep()
            case "drain":
                self.connection.drain()
            case "end":
                self.connection.end_calls()
            case _:
                self._send(self._frame(kind, *given))

    def _send(self, data):
        self.connection.data_received(data)

    def _stream(self, which):
        return self.begun[-1 - which % len(self.begun)]

    def _frame(self, kind, *given):  # noqa: PLR0911 - a frame of each kind
        match kind, *given:
            case "begin", path, more, flags:
                self.begun.append(self.begun[-1] + 2)
                return frame(FrameType.HEADERS, 4 | flags, self.begun[-1], headers(path, more))
            case "data", which, content, flags:
                return frame(FrameType.DATA, flags, self._stream(which), content)
            case "reset", which:
                return frame(FrameType.RST_STREAM, 0, self._stream(which), bytes((0, 0, 0, 8)))
            case "window", which, size:
                stream = 0 if which is None else self._stream(which)
                return frame(FrameType.WINDOW_UPDATE, 0, stream, size.to_bytes(4))
            case "windows of", size:
                return frame(FrameType.SETTINGS, 0, 0, b"\0\4" + size.to_bytes(4))
            case "ping", flags, content:
                return frame(FrameType.PING, flags, 0, content)
            case _, raw, flags, which, content:
                return frame(raw, flags, self._stream(which), content)


async def live(steps):
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
    budget = Noted()
    server = GrpcServer(methods(), budget, drain_seconds=1, listen=listen, limits=LIMITS)
    life = Life(server)
    for step in steps:
        if not life.transport.is_over:
            await life.step(*step)
    handler = life.connection._handler
    life.connection.connection_lost(None)
    for _ in range(4):
        await asyncio.sleep(0)
    assert not handler._open
    assert handler._held_bytes == 0
    assert not server.deadlines._steps
    assert not budget.held
    assert len(asyncio.all_tasks()) == 1
    assert all(isinstance(context.get("exception"), KeyError) for context in failures), failures
    await server.close()


@settings(max_examples=300)
@given(LIVES)
def test_whatever_a_client_sends_ends_with_nothing_held(lives):
    asyncio.run(live([*lives[0], *lives[1]]))
