"""An authorizer of an HTTP port decides about every call before its handler runs."""

import asyncio
import json

import pytest

from gantry_chassis.http.authorizing import Denial, Incoming
from gantry_chassis.http.server import HttpServer, Request, Response, health_routes, json_response
from gantry_chassis.metrics import Metrics
from gantry_chassis.peers.budget import Budget
from gantry_chassis.start_refusal import StartRefused

ROUTES = {("GET", "/things/{id}"), ("POST", "/things")}


class Door:
    """Admits one word, and knows the routes of ROUTES."""

    def __init__(self) -> None:
        self.seen: list[Incoming] = []

    def demand_routes(self, routes):
        missing = set(routes) - ROUTES
        if missing:
            raise StartRefused(f"no row of rights for {sorted(missing)}")

    def admits_unknown(self, headers, address):
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


def run(*calls):
    door, did = Door(), []

    def counted(request: Request) -> Response:
        did.append(request.method)
        return thing(request)

    async def scenario():
        routes = {("GET", "/things/{id}"): counted, ("POST", "/things"): counted}
        server = HttpServer("127.0.0.1", 0, routes, Budget(), authorizer=door)
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
    assert (made.method, made.path_template, made.body) == ("POST", "/things", b"{}")


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
