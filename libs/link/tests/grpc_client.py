"""A gRPC client over the `h2` package, which shares no code with the server, and servers for tests."""

import asyncio
import contextlib
import socket
from collections import Counter

import h2.config
import h2.connection
import h2.events
import h2.settings

from gantry_link.grpc.calls import Methods
from gantry_link.grpc.framing import PREFIX
from gantry_link.grpc.server import GrpcServer
from gantry_link.serving.budget import NoBudget

HEADERS = ((":method", "POST"), (":scheme", "http"), (":authority", "test"), ("te", "trailers"), ("content-type", "application/grpc"))  # fmt: skip
FRAME_BYTES = 9


def framed(message, flag=0):
    return PREFIX.pack(flag, len(message)) + message


class Noted(NoBudget):
    """A budget that records refusals, and the bytes held by each open account."""

    def __init__(self, descriptors_max=1 << 30):
        self.reasons, self.messages, self.held = Counter(), [], {}
        self.most = Counter()
        self.descriptors_max = descriptors_max

    def refused(self, reason, peer, message, /):
        self.reasons[reason] += 1
        self.messages.append(message)

    def has_descriptor(self, number, /):
        return number < self.descriptors_max

    def descriptor_refusal(self):
        return "none left"

    def account(self, address, what, cut, /):
        return NotedAccount(self, what, cut)


class NotedAccount:
    def __init__(self, budget, what, cut):
        self.budget, self.what, self.cut = budget, what, cut

    def hold(self, size, /):
        self.budget.held[self] = size
        self.budget.most[self.what] = max(self.budget.most[self.what], size)

    def close(self):
        self.budget.held.pop(self, None)


def listen(host, port, *, backlog, reuse_port=False):
    listener = socket.create_server((host, port), backlog=backlog, reuse_port=reuse_port)
    listener.setblocking(False)
    return listener


@contextlib.asynccontextmanager
async def grpc_serving(unary=None, streaming=None, *, budget=None, door=None, drain_seconds=5.0, limits=None):
    """Run a GrpcServer on a free port. Yields (server, port)."""
    methods = Methods(unary or {}, streaming or {})
    server = GrpcServer(
        methods, budget or NoBudget(), drain_seconds=drain_seconds, listen=listen, limits=limits
    )
    port = await server.start("127.0.0.1", 0, reuse_port=False, door=door)
    try:
        yield server, port
    finally:
        await server.close()


class Answer:
    """What arrived of one call."""

    def __init__(self):
        self.headers, self.trailers, self.content = {}, {}, bytearray()
        self.reset = None
        self.is_over = False

    @property
    def messages(self):
        found, at = [], 0
        while len(self.content) - at >= PREFIX.size:
            _flag, size = PREFIX.unpack_from(self.content, at)
            end = at + PREFIX.size + size
            if end > len(self.content):
                break
            found.append(bytes(self.content[at + PREFIX.size : end]))
            at = end
        return found

    @property
    def status(self):
        found = self.trailers.get("grpc-status", self.headers.get("grpc-status"))
        return None if found is None else int(found)

    @property
    def text(self):
        return self.trailers.get("grpc-message", self.headers.get("grpc-message"))


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, *, window=None, reads=True):
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        )
        self._window = window
        self.answers = {}
        self.acknowledges = True
        self.goodbyes = []
        self.pieces = []
        """Sizes of what arrived, each as one read."""
        self.is_lost = False
        self._reads, self._rest = reads, bytearray()
        self._changed = asyncio.Event()

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, port, *, tls=None, **options):
        loop = asyncio.get_running_loop()
        name = "localhost" if tls else None
        transport, client = await loop.create_connection(
            lambda: cls(**options), "127.0.0.1", port, ssl=tls, server_hostname=name
        )
        try:
            yield client
        finally:
            transport.abort()

    def connection_made(self, transport):
        self.transport = transport
        self.h2.initiate_connection()
        if self._window is not None:
            self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: self._window})
        self.flush()
        if not self._reads:
            transport.pause_reading()

    def data_received(self, data):
        self.pieces.append(len(data))
        self._rest += data
        while len(self._rest) >= FRAME_BYTES + int.from_bytes(self._rest[:3]):
            end = FRAME_BYTES + int.from_bytes(self._rest[:3])
            for event in self.h2.receive_data(bytes(self._rest[:end])):
                self._take(event)
            del self._rest[:end]
            if self.goodbyes:  # the package ends all calls then, which RFC 9113 does not ask for
                self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN
        self.flush()
        self._changed.set()

    def connection_lost(self, exc):
        self.is_lost = True
        self._changed.set()

    def _take(self, event):
        answer = self.answers.get(getattr(event, "stream_id", None))
        match event:
            case h2.events.ResponseReceived():
                answer.headers = dict(event.headers)
            case h2.events.TrailersReceived():
                answer.trailers = dict(event.headers)
            case h2.events.DataReceived():
                answer.content += event.data
                if self.acknowledges and event.flow_controlled_length:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                answer.is_over = True
            case h2.events.StreamReset():
                answer.reset, answer.is_over = event.error_code, True
            case h2.events.ConnectionTerminated():
                self.goodbyes.append(event)

    def flush(self):
        data = self.h2.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def begin(self, path, *, more=(), headers=HEADERS, is_end=False):
        """Begin a call without content."""
        stream = self.h2.get_next_available_stream_id()
        self.answers[stream] = Answer()
        self.h2.send_headers(stream, [(":path", path), *headers, *more], end_stream=is_end)
        self.flush()
        return stream

    def send(self, stream, content, *, is_end=False):
        """Send content as far as frames allow; the windows must have room for it."""
        while len(content) > self.h2.max_outbound_frame_size:
            piece, content = (
                content[: self.h2.max_outbound_frame_size],
                content[self.h2.max_outbound_frame_size :],
            )
            self.h2.send_data(stream, piece)
        self.h2.send_data(stream, content, end_stream=is_end)
        self.flush()

    async def send_whole(self, stream, content):
        """Send content as the server's windows allow, and end."""
        while content:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room:
                self.h2.send_data(stream, content[:room])
                content = content[room:]
                self.flush()
            else:
                await self.until(
                    lambda: self.h2.local_flow_control_window(stream) or self.answers[stream].is_over
                )
                if self.answers[stream].is_over:
                    return
        self.h2.end_stream(stream)
        self.flush()

    def start(self, path, message, *, more=()):
        """Begin a unary call, and send all of it."""
        stream = self.begin(path, more=more)
        self.send(stream, framed(message), is_end=True)
        return stream

    async def call(self, path, message, *, more=()):
        """Call, and return the answer."""
        return await self.over(self.start(path, message, more=more))

    async def over(self, stream):
        """Wait until an answer is whole."""
        answer = self.answers[stream]
        await self.until(lambda: answer.is_over)
        assert answer.is_over, "the connection ended before"
        return answer

    async def until(self, condition, seconds=60.0):
        """Wait until something that arrives makes the condition true, or the connection ends."""
        async with asyncio.timeout(seconds):
            while not condition() and not self.is_lost:
                self._changed.clear()
                await self._changed.wait()

    def cancel(self, stream):
        self.h2.reset_stream(stream, 8)
        self.flush()
