"""The first request of every common HTTP client: its bytes with default settings, recorded from the client itself.

The installed clients make such calls themselves in `tests/contracts/test_http_clients.py`.
"""

import asyncio
import json
import re

import pytest
from gateway_fast_line import line_to

from gantry_wire.records.message_record import decode_record

pytestmark = pytest.mark.anyio
BODY = b'{"messages":[{"body":"hi"}]}'
TYPE = "content-type: application/json"
H2C = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c"
CLIENTS = {
    "curl 7.88 --http2": (
        f"Host: 127.0.0.1:18999\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n{H2C}\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n{TYPE}\r\n"
        "Content-Length: 28"
    ),
    "curl 7.88": f"Host: 127.0.0.1:18999\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n{TYPE}\r\nContent-Length: 28",
    "Java 17 HttpClient": (
        "Connection: Upgrade, HTTP2-Settings\r\nContent-Length: 28\r\nHost: 127.0.0.1:18999\r\n"
        "HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA\r\nUpgrade: h2c\r\nUser-Agent: Java-http-client/17.0.15\r\n"
        "Content-Type: application/json"
    ),
    "Java 17 HttpURLConnection": (
        "Content-Type: application/json\r\nUser-Agent: Java/17.0.15\r\nHost: 127.0.0.1:18999\r\n"
        "Accept: text/html, image/gif, image/jpeg, */*; q=0.2\r\nConnection: keep-alive\r\nContent-Length: 28"
    ),
    "Node 20 fetch (undici)": (
        f"host: 127.0.0.1:18999\r\nconnection: keep-alive\r\n{TYPE}\r\naccept: */*\r\naccept-language: *\r\nsec-fetch-mode: cors\r\n"
        "user-agent: node\r\naccept-encoding: gzip, deflate\r\ncontent-length: 28"
    ),
    "Node 20 http": f"{TYPE}\r\nHost: 127.0.0.1:18999\r\nConnection: keep-alive\r\nContent-Length: 28",
    "Go 1.26 net/http": (
        "Host: 127.0.0.1:18999\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 28\r\nContent-Type: application/json\r\n"
        "Accept-Encoding: gzip"
    ),
    "requests 2.34": (
        "Host: 127.0.0.1:18999\r\nUser-Agent: python-requests/2.34.2\r\nAccept-Encoding: gzip, deflate, br\r\nAccept: */*\r\n"
        "Connection: keep-alive\r\nContent-Length: 28\r\nContent-Type: application/json"
    ),
    "httpx 0.28": (
        "Host: 127.0.0.1:18999\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nConnection: keep-alive\r\n"
        "User-Agent: python-httpx/0.28.1\r\nContent-Length: 28\r\nContent-Type: application/json"
    ),
    "urllib 3.11": (
        "Accept-Encoding: identity\r\nContent-Length: 28\r\nHost: 127.0.0.1:18999\r\nUser-Agent: Python-urllib/3.11\r\n"
        "Content-Type: application/json\r\nConnection: close"
    ),
    "aiohttp 3.14": (
        "Host: 127.0.0.1:18999\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\nUser-Agent: Python/3.11 aiohttp/3.14.5\r\n"
        "Content-Length: 28\r\nContent-Type: application/json"
    ),
    # Not recorded: from HttpClient's documentation and source, because it is not installed here.
    ".NET 8 HttpClient": "Host: 127.0.0.1:18999\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 28",
    "wget 1.21": (
        f"Host: 127.0.0.1:18999\r\nUser-Agent: Wget/1.21.3\r\nAccept: */*\r\nAccept-Encoding: identity\r\nConnection: Keep-Alive\r\n{TYPE}\r\n"
        "Content-Length: 28"
    ),
    "Perl HTTP::Tiny 0.080": (
        "Host: 127.0.0.1:18999\r\nContent-Type: application/json\r\nUser-Agent: HTTP-Tiny/0.080\r\nContent-Length: 28"
    ),
}


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("client", CLIENTS)
async def test_the_first_message_of_a_client_is_stored_as_it_was_sent(system, client, in_pieces):
    head = f"POST /v1/topics/orders/messages HTTP/1.1\r\n{CLIENTS[client]}\r\n\r\n".encode()
    pieces = [head, BODY] if in_pieces else [head + BODY]
    async with line_to(system) as line:
        for piece in pieces:
            line.writer.write(piece)
            await asyncio.sleep(0.01)  # the body comes in its own segment
        status, _headers, body = await line.answer()
        assert status == 200, body
        assert (status, [result["status"] for result in json.loads(body)["results"]]) == (200, ["SEND_OK"]), (
            body
        )
        if "close" not in CLIENTS[client]:
            assert (await line.post(BODY, TYPE))[0] == 200, "the connection continues"
    stored = system.stores["broker-a"].queues
    bodies = [decode_record(record).body for queue in stored.values() for record in queue]
    assert bodies == [b"hi"] * (1 if "close" in CLIENTS[client] else 2)


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("client", CLIENTS)
async def test_an_optional_body_of_a_client_is_read(system, client, in_pieces):
    """Without its body, a dry-run redrive would be a real one."""
    body = b'{"dryRun":true}'
    head = re.sub(r"(?i)(content-length:) 28", rf"\1 {len(body)}", CLIENTS[client])
    assert head != CLIENTS[client]
    request = f"POST /v1/groups/g1/deadLetters:redrive HTTP/1.1\r\n{head}\r\n\r\n".encode()
    async with line_to(system) as line:
        for piece in [request, body] if in_pieces else [request + body]:
            line.writer.write(piece)
            await asyncio.sleep(0.01)
        status, _headers, answer = await line.answer()
    assert status == 200, answer
    ((_, task),) = [one for one in system.schedulers.one.calls if one[0] == "create_task"]
    assert task.dry_run is True
    assert json.loads(answer)["dryRun"] is True


async def test_a_body_with_an_upgrade_is_never_the_next_request(system):
    smuggled = b"PUT /v1/topics/smuggled HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    async with line_to(system) as line:
        line.writer.write(
            b"POST /v1/topics/orders/messages HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\n%b\r\ncontent-length: %d\r\n\r\n"
            % (H2C.encode(), len(smuggled))
        )
        await asyncio.sleep(0.01)
        line.writer.write(smuggled)
        status, _headers, body = await line.answer()
        assert status == 200, body
        assert (await line.post(BODY, TYPE))[0] == 200, "the next answer is the next request's"
    assert "smuggled" not in str(system.stores["broker-a"].queues.keys())
