"""CPU of the gateway for its hot calls: clients' requests through the real gateway, without sockets and processes.

    python bench/hot_paths/hot_http.py [--turns 400] [--only KIND] [--profile]

Prints CPU microseconds per message (of this process, so other load hardly counts) for single sends, plain and with an idempotency
key, batches of 100, receives and acknowledgements of 32. The store's answers are made outside the measured time. Sockets are excluded.
`--profile` shows where the time goes.
"""

import argparse
import asyncio
import cProfile
import gc
import json
import pstats
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import msgspec
from uvicorn import Config
from uvicorn.server import ServerState

from broker_store.sending.send_batch import ItemResult
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_chassis.peers.budget import Budget
from gantry_link.connections.connection import Connection
from gantry_wire.codes import GantryCode, RequestCode
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_response, encode_send_reply
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import SendHeader
from gantry_wire.messages.batch import decode_columns
from gantry_wire.messages.ids import offset_message_id, offset_message_ids, pack_host
from gantry_wire.messages.properties import UNIQ_KEY, parse_properties
from gantry_wire.private_requests.leases import (
    LeasedRun,
    ReceiveHeader,
    ReceiveReplyHeader,
    pack_runs,
    unpack_items,
)
from gantry_wire.records.message_record import build_record
from gateway.connection.fast_protocol import FastProtocol
from gateway.connection.http_protocol import BOUNDS
from gateway.http.clocks import ReplyStamps, SystemClocks, unique_ids
from gateway.ports.stores import Broker, QueueData, RouteData
from gateway.process.assembly import AccessParts, Ports, assemble
from gateway.settings import GatewaySettings
from gateway.stores.link_leases import LinkLeaseStores
from gateway.stores.link_store import LinkStores
from reporting.figures import figure

ADDRESS, BROKER, TOPIC = "127.0.0.1:10911", "broker-a", "orders"
HOST = pack_host("127.0.0.1", 10911)
QUEUES = 8
CONNECTIONS = 8
"""Requests that arrive in one turn of the loop."""
BATCH, RECEIVED = 100, 32
BODY = "x" * 128
SUFFIX = b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
SENDS = f"/v1/topics/{TOPIC}/messages"
LEASES = f"/v1/topics/{TOPIC}/groups/bench/messages"
HANDLE = re.compile(rb'"receiptHandle":"([^"]+)"')


class Collecting(asyncio.Transport):
    """A transport that collects its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.written += list_of_data

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: this transport never buffers."""

    def taken(self) -> bytes:
        data, self.written = b"".join(self.written), []
        return data


class ScriptedStore:
    """The store's end of the connection: answers the gateway's requests."""

    def __init__(self) -> None:
        self.transport = Collecting()
        self.connection = Connection(ADDRESS)
        self.connection.connection_made(self.transport)
        self._decoder = FrameDecoder()
        self._position = self._offset = 0

    def get_nowait(self, _address: str, _connection_class: str = "") -> Connection:
        return self.connection

    async def get(self, _address: str, _connection_class: str = "") -> Connection:
        return self.connection

    def answers(self) -> bytes:
        """Return the answers to all requests since the last call."""
        frames = self._decoder.receive(self.transport.taken())
        return b"".join([self._answer(decode_command(frame)) for frame in frames])

    def _answer(self, asked: Command) -> bytes:
        match asked.code:
            case RequestCode.SEND_MESSAGE_V2:
                header = cast("SendHeader", asked.fields)
                unique = parse_properties(header.properties or "")[UNIQ_KEY]
                place = self._next()
                message_id = offset_message_id(HOST, place)
                extra = b',"durability":"fsync"'
                return encode_send_reply(
                    asked.opaque, message_id, header.queue_id, self._offset, unique, extra
                )
            case RequestCode.SEND_BATCH_MESSAGE:
                return self._stored(asked)
            case GantryCode.RECEIVE:
                return self._leased(asked)
            case GantryCode.ACK:
                return encode_response(0, asked.opaque, None, b"\1" * len(list(unpack_items(asked.body))))
            case _:
                raise AssertionError(f"unexpected request {asked.code}")

    def _next(self) -> int:
        self._offset += 1
        self._position += 300
        return self._position

    def _stored(self, asked: Command) -> bytes:
        queue_id = cast("SendHeader", asked.fields).queue_id
        uniques = [parse_properties(raw)[UNIQ_KEY] for raw in decode_columns(asked.body).properties]
        results = [ItemResult(queue_id, self._offset, self._next(), 1, unique) for unique in uniques]
        ids = offset_message_ids(HOST, [result.position for result in results])
        fields = {
            "msgId": ids,
            "queueId": str(queue_id),
            "queueOffset": str(results[0].queue_offset),
            "durability": "fsync",
        }
        return encode_response(0, asked.opaque, fields, msgspec.json.encode(results))

    def _leased(self, asked: Command) -> bytes:
        count = asked.read(ReceiveHeader).max_messages
        now_ms = time.time_ns() // 1_000_000
        records = [
            build_record(
                TOPIC.encode(),
                3,
                self._offset,
                self._next(),
                BODY.encode(),
                b"UNIQ_KEY\x01%032X\x02WAIT\x01true\x02" % self._position + SUFFIX,
                0,
                0,
                now_ms,
                HOST,
                now_ms,
                HOST,
            )
            for _ in range(count)
        ]
        header = ReceiveReplyHeader(runs=1, until_ms=now_ms + 60_000, more=True)
        body = pack_runs([LeasedRun(count, 77, 1)]) + b"".join(records)
        return encode_response(0, asked.opaque, header, body)


class OneTopic:
    """Nameservers with one topic."""

    async def route(self, _topic: str) -> RouteData:
        return RouteData((QueueData(BROKER, QUEUES, QUEUES, 6),), {BROKER: ADDRESS})

    async def value(self, namespace: str, _key: str) -> str | None:
        return f"{BROKER}:{QUEUES}" if namespace == "ORDER_TOPIC_CONFIG" else None

    async def values(self, _namespace: str) -> dict[str, str]:
        return {}

    async def brokers(self) -> list[Broker]:
        return [Broker(BROKER, "", ADDRESS)]


class Kind(NamedTuple):
    """A repeated request, and the number of its messages."""

    path: str
    body: Callable[[int], bytes]
    messages: int = 1


class Gateway:
    """The gateway with connections to it and to its store."""

    def __init__(self, access_parts: AccessParts | None = None) -> None:
        """With `access_parts`, access control is on."""
        self.store = ScriptedStore()
        pool, clocks = cast("Any", self.store), SystemClocks(machine())
        nobody: Any = SimpleNamespace(holder=None)
        ports = Ports(
            cast("Any", OneTopic()), LinkStores(pool, clocks.wall_ms, 3.0), nobody, None, clocks, unique_ids("127.0.0.1", machine()),
            ReplyStamps(machine().wall_ns, machine().secret_bytes(6).hex()), nobody, LinkLeaseStores(pool, 3.0), nobody, nobody, nobody,
        )  # fmt: skip
        settings = GatewaySettings(grpc_port=-1, access_key_file="" if access_parts is None else "given")
        gateway = assemble(settings, ports, fast_paths=True, access_parts=access_parts, metrics=Metrics())
        fast_path = gateway.fast_path
        assert fast_path is not None
        config = Config(
            gateway.app,
            http=cast("Any", partial(FastProtocol, fast_path)),
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
        )
        config.load()
        self.lines: list[tuple[FastProtocol, Collecting]] = []
        for _ in range(CONNECTIONS):
            line = FastProtocol(
                fast_path, Budget(), BOUNDS, config=config, server_state=ServerState(), app_state={}
            )
            line.connection_made(transport := Collecting())
            self.lines.append((line, transport))

    async def turn(self, requests: list[bytes]) -> float:
        """Process a request on each connection; return the CPU seconds of the gateway."""
        began = time.process_time()
        for (line, _), request in zip(self.lines, requests, strict=True):
            line.data_received(request)
        took = 0.0
        while not all(transport.written for _, transport in self.lines):
            await asyncio.sleep(0)
            if self.store.transport.written:
                took += time.process_time() - began
                answers = self.store.answers()
                began = time.process_time()
                self.store.connection.data_received(answers)
        return took + time.process_time() - began

    def answers(self) -> list[bytes]:
        """Return each connection's answer."""
        return [transport.taken() for _, transport in self.lines]


def request_of(kind: Kind, number: int, header: str = "") -> bytes:
    """Return a request; `header` is a further line of its head, with its end."""
    body = kind.body(number)
    head = f"POST {kind.path} HTTP/1.1\r\nhost: 127.0.0.1:8080\r\ncontent-type: application/json\r\n{header}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def kinds(handles: Iterator[list[bytes]]) -> dict[str, Kind]:
    plain = json.dumps({"messages": [{"body": BODY}]}).encode()
    many = json.dumps({"messages": [{"body": BODY}] * BATCH}).encode()
    asked = json.dumps({"maxMessages": RECEIVED, "waitSeconds": 1, "invisibleSeconds": 60}).encode()

    def keyed(number: int) -> bytes:
        return b'{"messages":[{"body":"%s","idempotencyKey":"%016d"}]}' % (BODY.encode(), number)

    def acks(_number: int) -> bytes:
        items = [b'{"receiptHandle":"%s"}' % handle for handle in next(handles)]
        return b'{"acks":[' + b",".join(items) + b"]}"

    return {
        "send": Kind(SENDS, partial(_same, plain)),
        "keyed send": Kind(SENDS, keyed),
        f"batch of {BATCH}": Kind(SENDS, partial(_same, many), BATCH),
        f"receive {RECEIVED}": Kind(f"{LEASES}:receive", partial(_same, asked), RECEIVED),
        f"ack {RECEIVED}": Kind(f"{LEASES}:ack", acks, RECEIVED),
    }


def _same(body: bytes, _number: int) -> bytes:
    return body


async def measure(name: str, kind: Kind, gateway: Gateway, options: argparse.Namespace) -> None:
    profiler = cProfile.Profile()
    each: list[float] = []
    for turn in range(options.turns + options.turns // 4):
        requests = [request_of(kind, turn * CONNECTIONS + line) for line in range(CONNECTIONS)]
        if turn == options.turns // 4 and options.profile:
            profiler.enable()
        took = await gateway.turn(requests)
        for answer in gateway.answers():
            assert answer.startswith(b"HTTP/1.1 200"), answer[:1000]
        if turn >= options.turns // 4:
            each.append(took / CONNECTIONS / kind.messages * 1e6)
    profiler.disable()
    if options.profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
    each.sort()
    figure(f"hot_http.{name}", each[0], "us", words=f"best turn; median {each[len(each) // 2]:.2f}")


async def run(options: argparse.Namespace) -> None:
    gateway = Gateway()
    gc.freeze()  # as the process does after its imports

    def handles() -> Iterator[list[bytes]]:
        while True:
            yield kept

    known = kinds(handles())
    receive = next(kind for name, kind in known.items() if name.startswith("receive"))
    for _ in range(2):
        await gateway.turn([request_of(receive, 0)] * CONNECTIONS)
        kept = HANDLE.findall(gateway.answers()[0])
    for name, kind in known.items():
        if options.only in name:
            await measure(name, kind, gateway, options)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--profile", action="store_true", help="print where the time goes (slows it down)")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
