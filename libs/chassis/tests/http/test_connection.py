"""A request with an upgrade is read like one without, however it is split and whatever follows it."""

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.server import ServerState

from gantry_chassis.http.connection import Bounds, HttpConnection
from gantry_chassis.peers.budget import Budget

pytestmark = pytest.mark.anyio
UPGRADE = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n"


class MemoryTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


async def echo(scope, receive, send) -> None:
    """Return what was read: method, path and body."""
    body, more = b"", True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        body, more = body + event["body"], event["more_body"]
    said = json.dumps([scope["method"], scope["path"], body.decode("latin-1")]).encode() + b"\n"
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]}
    )
    await send({"type": "http.response.body", "body": said})


async def answers(pieces: list[bytes]) -> list[object]:
    """Return a server's answers to these pieces: what it read, or the status where it read nothing."""
    config = Config(echo, ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    connection, transport = (
        HttpConnection(Budget(), Bounds(75, 60), config, ServerState(), {}),
        MemoryTransport(),
    )
    connection.connection_made(transport)
    for piece in pieces:
        if not transport.closed:
            connection.data_received(piece)
        for _ in range(6):
            await asyncio.sleep(0)
    for _ in range(60):
        await asyncio.sleep(0)
    connection._unset_keepalive_if_required()
    found: list[object] = []
    for part in transport.written.split(b"HTTP/1.1 ")[1:]:
        status, _, rest = part.partition(b" ")
        found.append(json.loads(rest.rpartition(b"\r\n\r\n")[2]) if status == b"200" else int(status))
    return found


def request(method: str, path: str, body: bytes | None, *, upgrade: str = "", chunked: bool = False) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{upgrade}"
    if body is None:
        return f"{head}\r\n".encode()
    if chunked:
        cut = len(body) // 2
        parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part)
        return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + parts + b"0\r\n\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def test_a_body_that_looks_like_a_request_stays_a_body_at_every_split():
    body = b"PUT /smuggled HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    sent = request("POST", "/a", body, upgrade=UPGRADE)
    wanted = [["POST", "/a", body.decode()]]
    for at in range(1, len(sent)):
        assert await answers([sent[:at], sent[at:]]) == wanted, at


UPGRADES = st.sampled_from(
    [
        "",
        UPGRADE,
        "Connection: upgrade\r\nUpgrade: websocket\r\n",
        "UPGRADE: TLS/1.0, h2c\r\nconnection: keep-alive, UpGrade\r\n",
        "Upgrade: a\r\nUpgrade: b\r\nConnection: Upgrade\r\n",
        "Upgrade: alone\r\n",
    ]
)
REQUESTS = st.lists(
    st.tuples(
        st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
        st.sampled_from(["/a", "/b?c=d"]),
        st.one_of(st.none(), st.binary(max_size=60), st.just(request("PUT", "/smuggled", b""))),
        UPGRADES,
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests=REQUESTS, cuts=st.lists(st.integers(0, 600), max_size=4))
async def test_requests_with_an_upgrade_read_the_same_as_without(requests, cuts):
    def spelled(*, plain: bool) -> bytes:
        return b"".join(
            request(method, path, body, upgrade="" if plain else upgrade, chunked=chunked)
            for method, path, body, upgrade, chunked in requests
        )

    sent = spelled(plain=False)
    places = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
    pieces = [sent[first:last] for first, last in pairwise(places) if first < last]
    wanted = [
        [method, path.partition("?")[0], (body or b"").decode("latin-1")]
        for method, path, body, *_ in requests
    ]
    assert await answers(pieces) == wanted
    assert await answers([spelled(plain=True)]) == wanted


async def test_many_upgrades_in_one_read_are_all_answered():
    assert len(await answers([request("GET", "/a", None, upgrade=UPGRADE) * 12])) == 12


@pytest.mark.parametrize(
    "sent",
    [
        b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        request("POST", "/a", b"x", upgrade=UPGRADE).replace(b"Length: 1", b"Length: x"),
    ],
)
async def test_invalid_requests_are_refused_once_and_the_connection_closes(sent):
    assert await answers([sent]) == [400]
