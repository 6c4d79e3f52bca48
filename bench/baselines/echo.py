"""Framed echo over one loopback connection, window 32: the floor of every request, in messages per second.

Two processes, as in production. Three steps in one run: bare frames (the answer repeats the header), the whole path of
`Peer` and `Connection` without the work on futures, and the same with a typed send header.

    python bench/baselines/echo.py [--seconds 3] [--window 32]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import time
from multiprocessing.connection import Connection as Pipe
from typing import cast

import uvloop

from gantry_link.connections.connection import Connection, connect
from gantry_link.serving.peer import Peer
from gantry_link.serving.server import RemotingServer
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request, encode_response, encode_send_reply
from gantry_wire.frames.frame_stream import FrameDecoder, RawFrame
from gantry_wire.headers.messages import SendHeaderV2
from measuring.system import provenance
from reporting.figures import figure

BODY = bytes(128)
ECHO = 9099
SEND = 310
HEADER = SendHeaderV2(
    producer_group="bench",
    topic="Bench",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=1,
    sys_flag=0,
    born_timestamp=1_700_000_000_000,
    flag=0,
    properties="UNIQ_KEY\x017F00000100002A9F0000000000000000\x02WAIT\x01true\x02",
)


def serve(pipe: Pipe) -> None:
    """Answer until the parent exits."""

    def answer(peer: Peer, frame: RawFrame) -> None:
        command = decode_command(frame)
        if command.code == SEND:
            peer.send(
                encode_send_reply(command.opaque, "7F00000100002A9F0000000000000000", 1, 17, "7F00", b"")
            )
        else:
            peer.send(encode_response(0, command.opaque, None, frame.body))

    async def main() -> None:
        server = RemotingServer(answer)
        pipe.send(await server.listen("127.0.0.1", 0))
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        pipe.send(time.process_time())
        await server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


class BareEcho(asyncio.Protocol):
    """Splits and counts frames without decoding: the limit of asyncio and the frame decoder."""

    def __init__(self, frame: bytes, seconds: float) -> None:
        self.count, self.done = 0, asyncio.get_running_loop().create_future()
        self._frame, self._until = frame, time.monotonic() + seconds
        self._decoder = FrameDecoder()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        arrived = len(self._decoder.receive(data))
        self.count += arrived
        if time.monotonic() < self._until:
            self._transport.write(self._frame * arrived)
        elif not self.done.done():
            self.done.set_result(None)


async def bare(port: int, window: int, seconds: float) -> float:
    frame = encode_request(ECHO, 1, None, BODY)
    loop = asyncio.get_running_loop()
    started = time.monotonic()
    transport, echo = await loop.create_connection(lambda: BareEcho(frame, seconds), "127.0.0.1", port)
    transport.write(frame * window)
    await echo.done
    transport.close()
    return echo.count / (time.monotonic() - started)


async def calls(connection: Connection, window: int, seconds: float, code: int) -> float:
    started = time.monotonic()
    until, count = started + seconds, 0
    header = HEADER if code == SEND else None

    async def one_caller() -> None:
        nonlocal count
        while time.monotonic() < until:
            await connection.request(code, header, BODY)
            count += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(window):
            group.create_task(one_caller())
    return count / (time.monotonic() - started)


async def measure(port: int, window: int, seconds: float) -> None:
    print(f"framed echo, window {window}, body {len(BODY)} B; {provenance('none')}")
    floor = await bare(port, window, seconds)
    figure("echo.bare", floor, "msg/s", words="nothing decoded on the client")
    connection = await connect(f"127.0.0.1:{port}")
    for name, code in (("calls", ECHO), ("calls, typed", SEND)):
        rate = await calls(connection, window, seconds, code)
        figure(f"echo.{name}", rate, "msg/s", floor=floor, beside="bare")
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--window", type=int, default=32)
    arguments = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,))
    server.start()
    port = here.recv()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(port, arguments.window, arguments.seconds))
    here.send("stop")
    print(f"  server CPU {here.recv():.2f} s in all")
    server.join()


if __name__ == "__main__":
    main()
