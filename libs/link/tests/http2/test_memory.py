"""What a connection holds, and that it goes with the connection and waits for no garbage collection."""

import asyncio
import gc
import weakref

import pytest
from grpc_client import Client, Noted, framed, grpc_serving
from scripted_link import RawClient, eventually

from gantry_link.grpc.health import Health
from gantry_link.grpc.status import GrpcStatus

pytestmark = pytest.mark.anyio
ECHO, CHAT, FAIL = "/test.Test/Echo", "/test.Test/Chat", "/test.Test/Fail"
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


async def echo(_info, message):
    return message


async def chat(stream):
    while (message := await stream.receive()) is not None:
        await stream.send(message)


async def fail(_info, _message):
    raise KeyError


async def test_a_connection_and_its_calls_leave_no_garbage():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, _context: None)
    async with grpc_serving({ECHO: echo, FAIL: fail}, {CHAT: chat}) as (server, port):
        gc.collect()
        gc.disable()
        try:
            async with Client.connected(port) as client:
                assert (await client.call(ECHO, b"x")).messages == [b"x"]
                assert (await client.call(FAIL, b"x")).status == GrpcStatus.INTERNAL
                stream = client.begin(CHAT)
                client.send(stream, framed(b"x"), is_end=True)
                assert (await client.over(stream)).status == 0
                open_stream = client.begin(CHAT)
                client.send(open_stream, framed(b"y"))
                await client.until(lambda: client.answers[open_stream].messages)
                connection = next(iter(server._port.connections))
                alive = [weakref.ref(one) for one in (connection, connection._h2, connection._handler)]
                del connection
            await eventually(lambda: server.connections == 0)
            await eventually(lambda: not any(one() for one in alive))
        finally:
            gc.enable()


async def test_half_frames_and_half_blocks_of_headers_count():
    budget = Noted()
    async with grpc_serving({ECHO: echo}, budget=budget) as (_, port):
        async with RawClient.connected(port) as client:
            client.send(GREETING + bytes((0, 0x3F, 0xFF, 1, 0, 0, 0, 0, 1)) + bytes(10_000))
            await eventually(lambda: sum(budget.held.values()) == 10_009)
        await eventually(lambda: not budget.held)
        async with RawClient.connected(port) as client:
            client.send(GREETING + bytes((0, 0x20, 0, 1, 0, 0, 0, 0, 1)) + bytes(0x2000))
            await eventually(lambda: sum(budget.held.values()) == 0x2000)
        await eventually(lambda: not budget.held)


async def test_a_shutdown_does_not_wait_for_a_watch_of_health():
    health = Health([])
    serving = grpc_serving(*health.methods, drain_seconds=60)
    async with serving as (server, port), Client.connected(port) as client:
        stream = client.begin("/grpc.health.v1.Health/Watch")
        client.send(stream, framed(b""), is_end=True)
        await client.until(lambda: client.answers[stream].messages)
        async with asyncio.timeout(30):
            await server.close()
        assert (await client.over(stream)).status == GrpcStatus.UNAVAILABLE
