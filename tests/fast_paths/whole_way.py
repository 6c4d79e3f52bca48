"""The whole way of a send in one process: HTTP bytes → gateway → the link's real connection → store → log bytes, and the answers back.

Nothing but sockets, clocks and randomness is replaced. The clock does not move and chance has a seed, so two ways may be compared byte by byte.
"""

import asyncio
import random
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

from sending_side import ScriptedPeer, SendingSide
from uvicorn import Config
from uvicorn.server import ServerState

from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_chassis.peers.budget import Budget
from gantry_link.connections.connection import Connection
from gantry_wire.frames.frame_stream import FrameDecoder
from gateway.connection.fast_protocol import FastProtocol
from gateway.connection.http_protocol import BOUNDS, GatewayProtocol
from gateway.http.clocks import ReplyStamps
from gateway.ports.stores import Broker, QueueData, RouteData
from gateway.process.assembly import Ports, assemble
from gateway.settings import GatewaySettings
from gateway.stores.link_leases import LinkLeaseStores
from gateway.stores.link_store import LinkStores

ADDRESS, BROKER, QUEUES = "127.0.0.1:10911", "broker-a", 2
NOW_MS = 1_700_000_000_000
TURNS_MAX = 500
LINES = 3


class Collecting(asyncio.Transport):
    """A transport whose bytes go nowhere but here."""

    def __init__(self):
        super().__init__()
        self.written = []
        self.is_closed = False

    def write(self, data):
        self.written.append(bytes(data))

    def writelines(self, list_of_data):
        self.written += map(bytes, list_of_data)

    def close(self):
        self.is_closed = True

    def is_closing(self):
        return self.is_closed

    def get_write_buffer_size(self):
        return 0

    def set_write_buffer_limits(self, high=None, low=None):
        """Nothing waits here."""

    def pause_reading(self):
        """Everything was read."""

    def resume_reading(self):
        """Everything was read."""

    def taken(self):
        data, self.written = b"".join(self.written), []
        return data


class Answering(ScriptedPeer):
    """The store's end of a connection: keeps the bytes of answers."""

    def __init__(self, ip="127.0.0.1", port=40000):
        super().__init__(ip, port)
        self.bytes = b""

    def send(self, data):
        self.bytes += data


class StandingClocks:
    """The clock does not move."""

    def monotonic(self):
        return 1000.0

    def wall_ms(self):
        return NOW_MS


class OneIdARequest:
    """Message ids by the number of the request: a fast path that gives a send back has drawn an id that the slow one does not skip."""

    def __init__(self):
        self.request = 0

    def next(self, _now_ms):
        return f"7F0000010001000000074{self.request:011X}"


class Names:
    """Nameservers that know every topic."""

    async def route(self, _topic):
        return RouteData((QueueData(BROKER, QUEUES, QUEUES, 6),), {BROKER: ADDRESS})

    async def value(self, namespace, _key):
        return f"{BROKER}:{QUEUES}" if namespace == "ORDER_TOPIC_CONFIG" else None

    async def values(self, _namespace):
        return {}

    async def brokers(self):
        return [Broker(BROKER, "", ADDRESS)]


class SameStamps(ReplyStamps):
    """Gives every answer the same request id."""

    def next_id(self):
        return "request"


class WholeWay:
    """A gateway with connections of clients, and its store. Build it inside a running loop."""

    def __init__(self, topics, *, fast_paths: bool) -> None:
        environment = replace(machine(), rng=random.Random(1))
        self.side = SendingSide(
            fast_paths=fast_paths, environment=environment, message_bytes_max=60_000, auto_create_topics=False
        )
        for topic in topics:
            self.side.topics.ensure(topic, QUEUES)
        self.peer, self.decoder = Answering(), FrameDecoder()
        self.client, self.client_decoder = Answering("127.0.0.2", 40001), FrameDecoder()
        self.transport, self.connection = Collecting(), Connection(ADDRESS)
        self.connection.connection_made(self.transport)
        self.ids = OneIdARequest()
        self.gateway = self._gateway(fast_paths=fast_paths)
        self.quick = 0
        """Requests whose heads were known."""
        self.connects()

    def _gateway(self, *, fast_paths: bool):
        async def connected(*_):
            return self.connection

        pool = SimpleNamespace(get_nowait=lambda *_: self.connection, get=connected)
        clocks, nobody = StandingClocks(), SimpleNamespace(holder=None)
        ports = Ports(
            Names(), LinkStores(pool, clocks.wall_ms, 3.0), nobody, None, clocks, self.ids, SameStamps(lambda: 0, ""), nobody,
            LinkLeaseStores(pool, 3.0), nobody, nobody, nobody,
        )  # fmt: skip
        return assemble(
            GatewaySettings(grpc_port=-1), ports, fast_paths=fast_paths, access_parts=None, metrics=Metrics()
        )

    def connects(self) -> None:
        """Open the clients' connections."""
        fast_path = self.gateway.fast_path
        kind = GatewayProtocol if fast_path is None else partial(FastProtocol, fast_path)
        config = Config(
            self.gateway.app, http=kind, lifespan="off", interface="asgi3", log_config=None, access_log=False, server_header=False,
            date_header=False, proxy_headers=False,
        )  # fmt: skip
        config.load()
        if fast_path is not None:
            start = fast_path.start

            def counted(*arguments):
                self.quick += 1
                start(*arguments)

            fast_path.start = counted
        self.lines = []
        for _ in range(LINES):
            line = kind(Budget(), BOUNDS, config=config, server_state=ServerState(), app_state={})
            line.connection_made(transport := Collecting())
            self.lines.append((line, transport))

    async def post_all(self, requests) -> list[bytes]:
        """Send requests, each on a connection of its own, one behind the other; flush; return their answers."""
        for (line, transport), request in zip(self.lines, requests, strict=False):
            self.ids.request += 1
            line.data_received(request)
            for _ in range(TURNS_MAX):
                if transport.written or self.transport.written:
                    break
                await asyncio.sleep(0)
            for raw in self.decoder.receive(self.transport.taken()):
                self.side.receive(self.peer, raw)
        used = self.lines[: len(requests)]
        for _ in range(TURNS_MAX):
            self.side.flush()
            answers, self.peer.bytes = self.peer.bytes, b""
            if answers:
                self.connection.data_received(answers)
            await asyncio.sleep(0)
            for raw in self.decoder.receive(self.transport.taken()):
                self.side.receive(self.peer, raw)
            if all(transport.written for _, transport in used):
                break
        await asyncio.sleep(0)
        return [transport.taken() for _, transport in used]

    async def receive(self, data: bytes) -> bytes:
        """Receive a remoting client's frames in one turn; flush; return the store's answers."""
        for raw in self.client_decoder.receive(data):
            self.side.receive(self.client, raw)
        self.side.flush()
        answers, self.client.bytes = self.client.bytes, b""
        return answers

    def log(self) -> tuple[bytes, object]:
        """Return what lies in the log, and the index."""
        log = self.side.log
        return log.read_unchecked(
            0, log.visible_end
        ) if log.visible_end else b"", self.side.store.index.entries

    async def close(self) -> None:
        """End the connections."""
        for line, _ in self.lines:
            line.connection_lost(None)
        self.connection.connection_lost(None)
        await asyncio.sleep(0)
