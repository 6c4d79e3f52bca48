"""CPU of a gRPC server for a unary call: HTTP/2 and gRPC, without what a handler does.

    python bench/hot_paths/hot_grpc.py [--seconds 2] [--window 64] [--profile]

The server is its own process, and its CPU time is measured. The client's bytes are made before the measured time, by the `hpack` package and by hand, so that it shares no code with the server.
Kinds: `repeated` calls have equal headers; `changing` ones have eight more headers that are spelled out in each call, as gRPC's C core sends the metadata of RocketMQ's clients.
`--profile` shows where the time goes.
"""

import argparse
import asyncio
import cProfile
import multiprocessing
import pstats
import socket
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe
from struct import Struct
from typing import cast

import uvloop
from hpack import Encoder, NeverIndexedHeaderTuple

from gantry_link.grpc.calls import CallInfo, Methods
from gantry_link.grpc.server import GrpcServer
from gantry_link.serving.budget import NoBudget
from measuring.system import provenance
from reporting.figures import figure

ECHO, TASK = "/bench.Bench/Echo", "/bench.Bench/Task"
BODY = bytes(128)
MADE_MAX = 400_000
FRAME = Struct("!HBBBL")
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_STREAM, END_HEADERS = 1, 4
LARGE = (1 << 31) - 1 - 65_535
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
COMMON = (
    (":method", "POST"), (":scheme", "http"), (":authority", "127.0.0.1:8081"), ("te", "trailers"), ("content-type", "application/grpc"),
    ("user-agent", "grpc-python/1.76.0 grpc-c/51.0.0 (linux; chttp2)"), ("grpc-accept-encoding", "identity, deflate, gzip"),
)  # fmt: skip
METADATA = (
    ("x-mq-client-id", "host-of-a-client@12345@0@1a2b3c4d5e6f"), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.1.2"), ("x-mq-protocol", "GRPC_V2"),
    ("x-mq-date-time", "20260102T030405Z"), ("x-mq-namespace", ""), ("grpc-timeout", "2999999u"),
)  # fmt: skip


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return FRAME.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def requests(path: str, *, is_changing: bool) -> Iterator[bytes]:
    """Yield calls of one connection."""
    encoder = Encoder()
    content = b"\0" + len(BODY).to_bytes(4, "big") + BODY
    for number in range(MADE_MAX):
        headers = [*COMMON[:3], (":path", path), *COMMON[3:]]
        if is_changing:
            more = (*METADATA, ("x-mq-request-id", f"7f2a91c4-3e5b-4d6a-9c8d-{number:012d}"))
            headers += [NeverIndexedHeaderTuple(name, value) for name, value in more]
        block = encoder.encode(headers, huffman=False)
        stream = 2 * number + 1
        yield frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, content)


class Client(asyncio.Protocol):
    """Keeps a number of calls in flight until a time."""

    def __init__(self, path: str, *, is_changing: bool, window: int, seconds: float) -> None:
        self._requests = list(
            zip(range(int(seconds * 40_000)), requests(path, is_changing=is_changing), strict=False)
        )
        self._window, self._seconds = window, seconds
        self._rest = b""
        self.count, self._sent = 0, 0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(
            GREETING + frame(SETTINGS, 0, 0) + frame(WINDOW_UPDATE, 0, 0, LARGE.to_bytes(4, "big"))
        )

    def start(self) -> None:
        self._until = time.monotonic() + self._seconds
        self._send(self._window)

    def _send(self, count: int) -> None:
        taken = self._requests[self._sent : self._sent + count]
        self._sent += len(taken)
        self._transport.write(b"".join([request for _number, request in taken]))

    def data_received(self, data: bytes) -> None:
        self._rest += data
        at, answered, size = 0, 0, len(self._rest)
        while size - at >= FRAME.size:
            high, low, kind, flags, _stream = FRAME.unpack_from(self._rest, at)
            end = at + FRAME.size + (high << 8 | low)
            if end > size:
                break
            at = end
            answered += kind == HEADERS and flags & END_STREAM
        self._rest = self._rest[at:]
        self.count += answered
        if answered and time.monotonic() < self._until and self._sent < len(self._requests):
            self._send(answered)
        elif answered and self.count == self._sent and not self.done.done():
            self.done.set_result(None)


def listen(host: str, port: int, *, backlog: int, reuse_port: bool = False) -> socket.socket:
    listener = socket.create_server((host, port), backlog=backlog, reuse_port=reuse_port)
    listener.setblocking(False)
    return listener


def serve(pipe: Pipe, is_profiled: bool) -> None:
    """Answer until the parent says stop; report CPU seconds for any other word."""

    def echo(_info: CallInfo, message: bytes) -> bytes:
        return message

    async def task(_info: CallInfo, message: bytes) -> bytes:
        return message

    async def main() -> None:
        server = GrpcServer(
            Methods({ECHO: echo, TASK: task}, {}), NoBudget(), drain_seconds=1.0, listen=listen
        )
        loop = asyncio.get_running_loop()
        port = await server.start("127.0.0.1", 0, reuse_port=False)
        pipe.send(port)
        while await loop.run_in_executor(None, pipe.recv) != "stop":
            pipe.send(time.process_time())
        await server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if not is_profiled:
            runner.run(main())
            return
        profile = cProfile.Profile()
        profile.runcall(runner.run, main())
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def cpu(pipe: Pipe) -> float:
    pipe.send("cpu")
    return pipe.recv()


async def calls(port: int, pipe: Pipe, path: str, *, is_changing: bool, window: int, seconds: float) -> float:
    """Return microseconds of the server's CPU for a call."""
    client = Client(path, is_changing=is_changing, window=window, seconds=seconds)
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: client, "127.0.0.1", port)
    before = cpu(pipe)
    client.start()
    await client.done
    used = cpu(pipe) - before
    transport.close()
    return used / client.count * 1e6


async def measure(port: int, pipe: Pipe, window: int, seconds: float) -> None:
    print(f"unary calls, {window} in flight, body {len(BODY)} B; {provenance('none')}")
    for name, path, is_changing in (
        ("repeated", ECHO, False), ("changing", ECHO, True), ("changing, a task each", TASK, True),
    ):  # fmt: skip
        used = await calls(port, pipe, path, is_changing=is_changing, window=window, seconds=seconds)
        figure(f"hot_grpc.{name}", used, "us")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--window", type=int, default=64, help="calls in flight")
    parser.add_argument("--profile", action="store_true", help="show where the server's time goes")
    arguments = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(there, arguments.profile), daemon=True
    )
    server.start()
    port = here.recv()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(port, here, arguments.window, arguments.seconds))
    here.send("stop")
    server.join()


if __name__ == "__main__":
    main()
