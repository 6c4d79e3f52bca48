"""Clients that reset or do not read: nothing in the log, and bounded buffers."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gantry_chassis.http.connection import READ_BYTES_MAX
from gantry_chassis.peers.budget import Budget, BudgetLimits
from gateway.connection.http_protocol import UNSENT_SECONDS_MAX, JoinedWrites
from gateway.connection.serving import HttpServer

pytestmark = pytest.mark.anyio
PULL = b"GET /v1/topics/orders/queues/broker-a/0/messages HTTP/1.1\r\nhost: a\r\n\r\n"
ANSWER_BYTES = 12_000_000
"""More than the kernel's buffers of a connection."""


@pytest.fixture
async def server(system, request):
    for _ in range(4):
        await system.stores["broker-a"].put("orders", 0, b"x" * (ANSWER_BYTES // 4), "")
    gateway = system.gateway()
    http = HttpServer(
        gateway.app, gateway.fast_path, Budget(getattr(request, "param", None)), drain_seconds=1
    )
    port = await http.start("127.0.0.1", 0, reuse_port=False)
    yield system.stores["broker-a"], http, port
    gateway.drain()
    await http.close()


def connect(port: int) -> socket.socket:
    """Return a connection with a small buffer, whose client reads only on demand."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    one.connect(("127.0.0.1", port))
    return one


def clients(http: HttpServer) -> set[int]:
    """Return the ports of the connected clients."""
    return {one.client[1] for one in http.connections}


async def held_back(store, http: HttpServer, pulls: int) -> None:
    """Wait until the store answered this many pulls and the kernel takes no more of the answers."""
    seen = 0
    async with asyncio.timeout(60):
        while True:
            unsent = sum(one.unsent_bytes for one in http.connections)
            if store.calls.count("pull") >= pulls and unsent and unsent == seen:
                return
            seen = unsent
            await asyncio.sleep(0.05)


async def test_a_pipelined_request_waits_until_the_reply_before_is_read(server):
    store, http, port = server
    one = connect(port)
    one.sendall(PULL * 6)
    await held_back(store, http, 1)
    assert store.calls.count("pull") <= 2
    one.setblocking(False)
    loop = asyncio.get_running_loop()
    left = 6 * ANSWER_BYTES
    async with asyncio.timeout(100):
        while left > 0:
            left -= len(await loop.sock_recv(one, 1 << 20))
    assert store.calls.count("pull") == 6
    one.close()


async def test_a_client_that_does_not_read_is_disconnected(server):
    store, http, port = server
    one = connect(port)
    one.sendall(PULL)
    await held_back(store, http, 1)
    now = asyncio.get_running_loop().time()
    http.cut_stalled(now)
    http.cut_stalled(now + UNSENT_SECONDS_MAX - 1)
    await asyncio.sleep(0.05)
    assert clients(http) == {one.getsockname()[1]}
    http.cut_stalled(now + UNSENT_SECONDS_MAX + 1)
    await asyncio.sleep(0.05)
    assert clients(http) == set()
    one.close()


@pytest.mark.parametrize("server", [BudgetLimits(bytes_max=3 * ANSWER_BYTES)], indirect=True)
async def test_slow_readers_together_hold_a_bounded_number_of_bytes(server):
    store, http, port = server
    slow = [connect(port) for _ in range(6)]
    for number, one in enumerate(slow, 1):
        one.sendall(PULL)
        await held_back(store, http, number)
    assert sum(one.unsent_bytes for one in http.connections) <= 3 * ANSWER_BYTES
    assert slow[0].getsockname()[1] not in clients(http)
    assert slow[-1].getsockname()[1] in clients(http)
    for one in slow:
        one.close()


class Lost(asyncio.Transport):
    """A transport whose connection was reset, like uvloop's: it reports so, and raises on a write."""

    def is_closing(self):
        return True

    def get_write_buffer_size(self):
        return 0

    def refuse(self, *_data):
        raise RuntimeError("the handler is closed")

    write = writelines = pause_reading = resume_reading = set_protocol = abort = refuse


@pytest.mark.parametrize("parts", [1, 2])
async def test_an_answer_to_a_connection_that_was_reset_is_dropped(anyio_backend, parts):
    writes = JoinedWrites(Lost())
    for _ in range(parts):
        writes.write(b"x")
    writes.flush()


async def test_small_requests_in_one_go_are_not_read_ahead_without_bound(server, monkeypatch):
    store, http, port = server
    body = b'{"messages":[{"body":"y"}]}'
    head = b"POST /v1/topics/orders/messages HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
    request = head + b"content-length: %d\r\n\r\n" % len(body) + body
    most = 0
    first = store.send

    def slow(*args, **more):
        nonlocal most
        most = max(most, *(len(one.pipeline) for one in http.connections))
        first(*args, **more)

    monkeypatch.setattr(store, "send", slow)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 6_000
    writer.write(request * count)
    answered = 0
    async with asyncio.timeout(200):
        while answered < count:
            answered += (await reader.read(1 << 20)).count(b"HTTP/1.1 200")
    assert most < 2 * READ_BYTES_MAX // len(request)
    writer.close()
