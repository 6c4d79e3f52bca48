"""An authorizer of an HTTP port decides about every call before its handler runs, and before its body is kept."""

import asyncio
import json
import tracemalloc

import pytest

from gantry_chassis.http.authorizing import Denial, Incoming
from gantry_chassis.http.server import (
    LATE_SECONDS,
    HttpServer,
    Request,
    Response,
    health_routes,
    json_response,
)
from gantry_chassis.metrics import Metrics
from gantry_chassis.peers.budget import Budget
from gantry_chassis.start_refusal import StartRefused

MEBIBYTE = 1024 * 1024
BODY_BYTES, CLIENTS, KEPT_BYTES_MAX = 8 * MEBIBYTE, 8, 4 * MEBIBYTE
ROUTES = {("GET", "/things/{id}"), ("POST", "/things")}


class Door:
    """Admits one word, and knows the routes of ROUTES."""

    def __init__(self) -> None:
        self.seen: list[Incoming] = []

    def demand_routes(self, routes):
        missing = set(routes) - ROUTES
        if missing:
            raise StartRefused(f"no row of rights for {sorted(missing)}")

    def admits_unknown(self, headers, address, certificate):
        return None if headers.get(b"authorization") else Denial(401, "who are you")

    def authorize(self, incoming):
        self.seen.append(incoming)
        given = incoming.headers.get(b"authorization")
        if given is None:
            return Denial(401, "log in", ((b"www-authenticate", b"Basic"),))
        return None if given == b"in" else Denial(403, "not you")


def thing(request: Request) -> Response:
    return json_response({"id": request.path_params.get("id"), "did": request.method})


async def ask(port: int, method: str, path: str, body: bytes = b"", *lines: str):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        "Connection: close",
        f"Content-Length: {len(body)}",
    ]
    head += ["Content-Type: application/json", *lines, "", ""]
    writer.write("\r\n".join(head).encode() + body)
    raw = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    first, _, rest = raw.partition(b"\r\n\r\n")
    return int(first.split()[1]), first.lower(), rest


def counting(did: list[str]):
    """The routes of ROUTES, which note what they did."""

    def counted(request: Request) -> Response:
        did.append(request.method)
        return thing(request)

    return {("GET", "/things/{id}"): counted, ("POST", "/things"): counted}


def run(*calls):
    door, did = Door(), []

    async def scenario():
        server = HttpServer("127.0.0.1", 0, counting(did), Budget(), authorizer=door)
        port = await server.start()
        try:
            return [await ask(port, *call) for call in calls]
        finally:
            await server.close()

    return asyncio.run(scenario()), door, did


def test_a_refused_call_gets_status_words_and_headers_and_never_reaches_its_handler():
    answers, _door, did = run(("GET", "/things/7"), ("GET", "/things/7", b"", "Authorization: out"))
    (first, head, body), (second, _, _) = answers
    assert (first, second) == (401, 403)
    assert b"www-authenticate: basic" in head
    assert json.loads(body) == {"error": "log in"}
    assert did == []


def test_an_admitted_call_is_answered():
    answers, _door, did = run(("GET", "/things/7", b"", "Authorization: in"))
    assert answers[0][0] == 200
    assert json.loads(answers[0][2]) == {"id": "7", "did": "GET"}
    assert did == ["GET"]


def test_the_authorizer_sees_the_route_and_what_the_client_sent():
    _answers, door, _did = run(
        ("HEAD", "/things/a%20b?x=1&y=", b"", "Authorization: in"),
        ("POST", "/things", b"{}", "Authorization: in"),
    )
    read, made = door.seen
    assert (read.method, read.path_template, dict(read.path_params)) == ("GET", "/things/{id}", {"id": "a b"})
    assert (dict(read.query), read.address) == ({"x": "1", "y": ""}, "127.0.0.1")
    assert (made.method, made.path_template, dict(made.path_params)) == ("POST", "/things", {})


def test_a_path_that_does_not_exist_is_hidden_from_strangers():
    answers, _door, _did = run(("GET", "/nothing"), ("GET", "/nothing", b"", "Authorization: in"))
    assert [status for status, _, _ in answers] == [401, 404]


def test_two_headers_with_credentials_are_refused_before_anybody_reads_one():
    """A proxy may check the first one, and this port the last."""
    twice = "Authorization: out", "authorization: in"
    answers, door, did = run(("GET", "/things/7", b"", *twice), ("GET", "/things/7", b"", *reversed(twice)))
    assert [status for status, _, _ in answers] == [400, 400]
    assert json.loads(answers[0][2]) == {"error": "a request has one header Authorization"}
    assert (door.seen, did) == ([], [])


def test_a_route_without_a_rule_refuses_the_start():
    routes = {("GET", "/things/{id}"): thing, ("GET", "/unheard"): thing}
    with pytest.raises(StartRefused, match="/unheard"):
        HttpServer("127.0.0.1", 0, routes, Budget(), authorizer=Door())
    with pytest.raises(StartRefused, match="/health/live"):
        HttpServer("127.0.0.1", 0, health_routes(lambda: None, Metrics()), Budget(), authorizer=Door())


# Before the body


def head(length: int, *lines: str) -> bytes:
    fixed = ["POST /things HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    return "\r\n".join([*fixed, f"Content-Length: {length}", *lines, "", ""]).encode()


async def answer(reader: asyncio.StreamReader) -> int:
    """Read one whole answer, and return its status."""
    first = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    length = next(line for line in first.split(b"\r\n") if line.lower().startswith(b"content-length"))
    await reader.readexactly(int(length.partition(b":")[2]))
    return int(first.split()[1])


def serve_strangers(scenario):
    async def serve():
        did: list[str] = []
        server = HttpServer("127.0.0.1", 0, counting(did), Budget(), authorizer=Door())
        port = await server.start()
        try:
            await scenario(port)
        finally:
            await server.close()
        return did

    return asyncio.run(serve())


def test_a_refused_call_is_answered_before_its_body_came_and_its_connection_stays_open():
    async def scenario(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head(MEBIBYTE))
        assert await answer(reader) == 401
        writer.write(b" " * MEBIBYTE + head(2, "Authorization: in") + b"{}")
        assert await answer(reader) == 200
        writer.close()

    assert serve_strangers(scenario) == ["POST"]


def test_a_client_that_loses_the_right_before_its_body_came_is_refused():
    did, door = [], Door()

    async def scenario() -> int:
        server = HttpServer("127.0.0.1", 0, counting(did), Budget(), authorizer=door)
        port = await server.start()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head(2, "Authorization: in"))
            async with asyncio.timeout(20):
                while not door.seen:
                    await asyncio.sleep(0.01)
            door.authorize = lambda incoming: Denial(401, "revoked")
            await asyncio.sleep(2 * LATE_SECONDS)
            writer.write(b"{}")
            status = await answer(reader)
            writer.close()
            return status
        finally:
            await server.close()

    assert asyncio.run(scenario()) == 401
    assert did == []


def test_a_body_that_is_too_large_does_not_hide_who_may_call():
    async def scenario(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head(2 * MEBIBYTE) + b" " * 2 * MEBIBYTE)
        assert await answer(reader) == 401
        writer.write(head(2 * MEBIBYTE, "Authorization: in") + b" " * 2 * MEBIBYTE)
        assert await answer(reader) == 413
        writer.close()

    assert serve_strangers(scenario) == []


def test_strangers_make_a_process_keep_little_however_much_they_send():
    """Half a body each, never the end: before this rule each of them had the whole of it kept."""

    async def send(port, status):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head(BODY_BYTES))
        for _ in range(BODY_BYTES // 2 // MEBIBYTE):
            writer.write(bytes(MEBIBYTE))
            await writer.drain()
        status.append(await answer(reader))
        return writer

    async def scenario(port):
        status: list[int] = []
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            writers = await asyncio.gather(*(send(port, status) for _ in range(CLIENTS)))
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        for writer in writers:
            writer.close()
        assert status == [401] * CLIENTS
        assert kept - before < KEPT_BYTES_MAX

    serve_strangers(scenario)
