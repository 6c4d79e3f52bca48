"""The HTTP server on a real socket: invalid HTTP, oversized heads, dropped bodies, pipelining, shutdown."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from gantry_chassis.http.connection import HEAD_BYTES_MAX
from gantry_chassis.machine.addresses import listening_socket
from gantry_chassis.peers.budget import Budget, BudgetLimits
from gateway.connection import serving
from gateway.connection.http_protocol import READ_SECONDS_MAX
from gateway.connection.serving import PEAK_BYTES, HttpServer

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
TURNS_OF_ACCEPTING = 6
"""More turns of the event loop than it needs to accept connections."""


@pytest.fixture
async def server(system, request):
    gateway = system.gateway()
    http = HttpServer(
        gateway.app, gateway.fast_path, Budget(getattr(request, "param", None)), drain_seconds=2
    )
    port = await http.start("127.0.0.1", 0, reuse_port=False)
    yield gateway, http, port
    gateway.drain()
    await http.close()


async def answers(reader, count=1):
    """Read whole responses: (status, headers, body)."""
    found = []
    for _ in range(count):
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await asyncio.wait_for(reader.readexactly(int(headers.get("content-length", 0))), 60)
        found.append((int(first.split()[1]), headers, body))
    return found


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def post(body: bytes, *headers: str, path: str = ORDERS) -> bytes:
    head = [
        f"POST {path} HTTP/1.1",
        "host: gateway",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


ONE = b'{"messages":[{"body":"x"}]}'


async def test_pipelined_sends_are_answered_in_order(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server[2])
    writer.write(b"".join(post(ONE, f"x-request-id: r{n}") for n in range(20)))
    found = await answers(reader, 20)
    assert [headers["x-request-id"] for _status, headers, _body in found] == [f"r{n}" for n in range(20)]
    assert all(status == 200 for status, _headers, _body in found)
    writer.close()


async def test_a_request_cut_anywhere_is_one_request(server):
    whole = post(ONE)
    for cut in range(1, len(whole), 7):
        reader, writer = await asyncio.open_connection("127.0.0.1", server[2])
        writer.write(whole[:cut])
        await asyncio.sleep(0)
        writer.write(whole[cut:])
        assert (await answers(reader))[0][0] == 200
        writer.close()


async def test_invalid_http_is_a_problem_and_closes_the_connection(server):
    for garbage in (
        b"\x00\x01\x02\x03\r\n\r\n",
        b"HELO there\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nhost: a\r\nauthorization: Bearer a\r\nAUTHORIZATION: Bearer b\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", server[2])
        writer.write(garbage)
        status, headers, body = (await answers(reader))[0]
        assert (status, headers["content-type"]) == (400, "application/problem+json")
        assert json.loads(body)["code"] == "INVALID_PARAMETER"
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


@pytest.mark.parametrize("long", ["header", "path", "many"])
async def test_a_head_over_the_limit_is_431_naming_it(server, long):
    filler = "x" * (HEAD_BYTES_MAX + 1)
    request = {
        "header": f"GET / HTTP/1.1\r\nhost: a\r\nx-filler: {filler}\r\n\r\n",
        "path": f"GET /{filler} HTTP/1.1\r\nhost: a\r\n\r\n",
        "many": "GET / HTTP/1.1\r\n" + "".join(f"x-{n}: {'y' * 1000}\r\n" for n in range(80)) + "\r\n",
    }[long]
    reader, writer = await asyncio.open_connection("127.0.0.1", server[2])
    writer.write(request.encode())
    status, _headers, body = (await answers(reader))[0]
    assert (status, json.loads(body)["status"]) == (431, 431)
    assert str(HEAD_BYTES_MAX) in json.loads(body)["detail"]
    writer.close()


async def test_a_request_that_does_not_arrive_loses_its_connection_and_a_held_pull_does_not(server, system):
    gateway, http, port = server
    system.add_topic("quiet")
    beginnings = (b"", b"POST " + ORDERS.encode(), post(ONE)[:-3], post(ONE) + post(ONE)[:40])
    stalled = [await asyncio.open_connection("127.0.0.1", port) for _ in beginnings]
    for (_reader, writer), sent in zip(stalled, beginnings, strict=True):
        writer.write(sent)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET /v1/topics/quiet/queues/broker-a/0/messages?waitSeconds=30 HTTP/1.1\r\nhost: a\r\n\r\n"
    )
    await until(lambda: gateway.puller.held_count and sum(one._is_amid for one in http.connections) == 3)
    now = asyncio.get_running_loop().time()
    http.cut_stalled(now + READ_SECONDS_MAX - 1)
    assert (await answers(stalled[3][0]))[0][0] == 200
    assert not any(one.at_eof() for one, _writer in stalled)
    http.cut_stalled(now + READ_SECONDS_MAX + 1)
    for number, (one, its_writer) in enumerate(stalled):
        if number:  # the first has not started a request
            status, headers, body = (await answers(one))[0]
            assert (status, headers["content-type"]) == (408, "application/problem+json")
            assert (json.loads(body)["code"], json.loads(body)["retryable"]) == ("REQUEST_TIMEOUT", True)
        assert await asyncio.wait_for(one.read(), 60) == b""
        its_writer.close()
    await system.stores["broker-a"].put("quiet", 0, b"x", "")
    status, _headers, body = (await answers(reader))[0]
    assert (status, json.loads(body)["status"]) == (200, "FOUND")
    writer.close()


async def test_a_head_that_does_not_end_is_cut_off(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server[2])
    writer.write(b"GET / HTTP/1.1\r\nx-endless: ")
    reading = asyncio.ensure_future(answers(reader))
    for _ in range(64):
        if reading.done():
            break
        writer.write(b"y" * 16_384)
        await asyncio.sleep(0.005)
    assert (await reading)[0][0] == 431
    writer.close()


@pytest.mark.parametrize("server", [BudgetLimits(address_bytes_max=3_000_000)], indirect=True)
async def test_half_bodies_hold_a_bound_the_oldest_are_a_problem_and_honest_requests_pass(server):
    _gateway, http, port = server
    half = post(bytes(2_000_000))[:-1_100_000]
    lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
    for _reader, writer in lines:
        writer.write(half)
        await asyncio.sleep(0.01)
    body = json.dumps({"messages": [{"body": "x" * 700_000}]}).encode()
    for _ in range(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        whole = post(body)
        writer.write(whole[:400_000])
        await asyncio.sleep(0.02)
        assert http.budget.held <= 3_000_000
        writer.write(whole[400_000:])
        assert (await answers(reader))[0][0] == 200
        writer.close()
    status, headers, refused = (await answers(lines[0][0]))[0]
    assert (status, headers["content-type"]) == (503, "application/problem+json")
    problem = json.loads(refused)
    assert (problem["code"], problem["retryable"]) == ("SERVICE_NOT_AVAILABLE", True)
    assert "this connection has held its part longest" in problem["detail"]
    assert await asyncio.wait_for(lines[0][0].read(), 60) == b""
    assert http.budget.refusals["hoarding"] >= 5
    for _reader, writer in lines:
        writer.transport.abort()
    await until(lambda: not http.budget.held)


async def test_memory_is_given_back_once_much_more_was_held_than_is(server, monkeypatch):
    _gateway, http, _port = server
    calls = []
    monkeypatch.setattr(serving, "give_back", lambda: calls.append(1))
    account = http.budget.account("a", "x", lambda _words: None)
    for held, count in ((PEAK_BYTES + 1, 0), (0, 1), (1_000, 1), (0, 1)):
        account.hold(held)
        http.sweep()
        assert len(calls) == count


async def test_a_large_body_in_the_read_of_its_head_is_no_large_head(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server[2])
    body = json.dumps({"messages": [{"body": "x" * 90_000}]}).encode()
    writer.write(post(body) + post(ONE))
    assert [status for status, _h, _b in await answers(reader, 2)] == [200, 200]
    writer.close()


async def test_the_answer_to_a_body_that_is_too_large_is_seen_while_it_is_still_sent(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server[2])
    size = 20 * 1024 * 1024
    writer.write(
        f"POST {ORDERS} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n".encode()
    )
    status, headers, _body = (await answers(reader))[0]
    assert (status, headers["connection"]) == (413, "close")
    sent = 0
    while sent < size:  # the server reads all of it, so the client never sees a reset
        writer.write(b"x" * 1024 * 1024)
        await writer.drain()
        sent += 1024 * 1024
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()


async def test_a_client_that_asks_first_need_not_send_a_body_that_is_too_large(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server[2])
    writer.write(
        f"POST {ORDERS} HTTP/1.1\r\nhost: a\r\ncontent-type: text/plain\r\nexpect: 100-continue\r\ncontent-length: 99999999\r\n\r\n".encode()
    )
    assert (await answers(reader))[0][0] == 413
    writer.close()


async def test_the_connection_continues_after_a_refused_call(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server[2])
    writer.write(post(b"{") + post(ONE, path="/v1/topics/none/messages") + post(ONE))
    assert [status for status, _h, _b in await answers(reader, 3)] == [400, 404, 200]
    writer.close()


async def test_at_shutdown_held_pulls_return_and_no_call_is_lost(server):
    gateway, http, port = server
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET /v1/topics/orders/queues/broker-a/0/messages?waitSeconds=30 HTTP/1.1\r\nhost: a\r\n\r\n"
    )
    await until(lambda: gateway.puller.held_count)
    loop = asyncio.get_running_loop()
    started = loop.time()
    gateway.drain()
    await http.close()
    status, headers, body = (await answers(reader))[0]
    assert (status, json.loads(body)["messages"], headers["connection"]) == (200, [], "close")
    assert loop.time() - started < 25  # less than the pulls' wait time
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)
    writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (post(ONE), 504, "UNKNOWN_WHETHER_STORED"),
        (b"GET /v1/topics/orders HTTP/1.1\r\nhost: a\r\n\r\n", 503, "SERVICE_NOT_AVAILABLE"),
    ],
)
async def test_what_runs_at_the_end_of_the_drain_gets_a_problem(
    system, monkeypatch, caplog, request_bytes, status, code
):
    store = system.stores["broker-a"]
    asked = asyncio.Event()

    async def hang(*_arguments):
        asked.set()
        await asyncio.Event().wait()

    for call in ("put", "topics", "queue_bounds"):
        monkeypatch.setattr(store, call, hang)
    gateway = system.gateway()
    http = HttpServer(gateway.app, gateway.fast_path, Budget(), drain_seconds=1)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", await http.start("127.0.0.1", 0, reuse_port=False)
    )
    writer.write(request_bytes)
    await asked.wait()
    gateway.drain()
    await http.close()
    found, _headers, body = (await answers(reader))[0]
    problem = json.loads(body)
    assert (found, problem["code"], problem["retryable"]) == (status, code, True)
    assert "the gateway stops" in problem["detail"]
    assert not [one for one in caplog.records if one.exc_info]
    writer.close()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
@pytest.mark.parametrize("turns", range(TURNS_OF_ACCEPTING))
async def test_a_shutdown_closes_connections_that_are_being_accepted(server, turns):
    """They kept taking requests for the whole drain, and those of its last moment were cancelled."""
    _gateway, http, port = server
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    for _ in range(turns):
        await asyncio.sleep(0)
    await http.close()
    assert http.connections == []
    for client in clients:
        client.close()


async def test_a_port_is_shared_only_by_those_that_all_ask_for_it(anyio_backend):
    first = listening_socket("127.0.0.1", 0, backlog=1, reuse_port=True)
    port = first.getsockname()[1]
    second = listening_socket("127.0.0.1", port, backlog=1, reuse_port=True)
    with pytest.raises(OSError):
        listening_socket("127.0.0.1", port, backlog=1)
    first.close()
    second.close()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_all_queued_connections_are_accepted_in_a_few_turns(server):
    """With one accept per turn, new clients of a busy gateway would wait for as many turns as there are clients."""
    _gateway, http, port = server
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    turns = 0
    while len(http.connections) < len(clients):
        await asyncio.sleep(0)
        turns += 1
        assert turns < 25
    for client in clients:
        client.close()


async def test_a_held_pull_ends_with_its_client_and_other_connections_continue(server):
    gateway, _http, port = server
    pull = b"GET /v1/topics/orders/queues/broker-a/0/messages?waitSeconds=30 HTTP/1.1\r\nhost: a\r\n\r\n"
    lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
    for _reader, writer in lines:
        writer.write(pull)
    await until(lambda: gateway.puller.held_count == 20)
    for _reader, writer in lines[1:]:
        writer.transport.abort()
    await until(lambda: gateway.puller.held_count == 1)
    reader, writer = lines[0]
    other = await asyncio.open_connection("127.0.0.1", port)
    other[1].write(post(ONE) * 4)  # one of them for queue 0
    assert [status for status, _h, _b in await answers(other[0], 4)] == [200] * 4
    status, _headers, body = (await answers(reader))[0]
    assert (status, json.loads(body)["status"]) == (200, "FOUND")
    assert gateway.puller.held_count == 0
    writer.write(pull.replace(b"?waitSeconds=30", b"?offset=0"))
    assert (await answers(reader))[0][0] == 200
    other[1].close()
    writer.close()
