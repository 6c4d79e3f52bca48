"""The small HTTP server over a real socket."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from gantry_chassis.http.server import (
    BODY_BYTES_MAX,
    HttpServer,
    Request,
    Response,
    Routes,
    health_routes,
    json_response,
)
from gantry_chassis.metrics import Metrics
from gantry_chassis.peers.budget import Budget

JSON = "Content-Type: application/json"


async def call(
    port: int, method: str, path: str, body: bytes = b"", *headers: str, host: str = "localhost"
) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}"]
    writer.write("\r\n".join([*head, *(headers or (JSON,)), "", ""]).encode() + body)
    raw = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    head_bytes, _, rest = raw.partition(b"\r\n\r\n")
    first, *lines = head_bytes.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, rest


@contextlib.asynccontextmanager
async def serving(routes: Routes) -> AsyncIterator[int]:
    server = HttpServer("127.0.0.1", 0, routes, Budget())
    try:
        yield await server.start()
    finally:
        await server.close()


def test_readiness_is_503_with_the_reason_until_it_is_200() -> None:
    reason: str | None = "recovering: 40 %"

    async def scenario() -> None:
        nonlocal reason
        async with serving(health_routes(lambda: reason, Metrics())) as port:
            status, _, body = await call(port, "GET", "/health/ready")
            assert (status, json.loads(body)) == (503, {"ready": False, "reason": "recovering: 40 %"})
            reason = None
            status, headers, body = await call(port, "GET", "/health/ready")
            assert (status, json.loads(body)) == (200, {"ready": True, "reason": None})
            assert headers["date"].endswith("GMT")
            assert (await call(port, "GET", "/health/live"))[0] == 200
            assert (await call(port, "HEAD", "/health/live"))[::2] == (200, b"")
            assert (await call(port, "GET", "/metrics"))[1]["content-type"].startswith("text/plain")

    asyncio.run(scenario())


def test_a_request_that_is_cut_off_is_not_carried_out() -> None:
    bodies: list[bytes] = []

    def handler(request: Request) -> Response:
        bodies.append(request.body)
        return Response()

    async def scenario() -> None:
        async with serving({("POST", "/snapshots"): handler}) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(
                b"POST /snapshots HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\ncut"
            )
            await writer.drain()
            await call(port, "POST", "/snapshots", b"whole")
            writer.close()
            await call(port, "POST", "/snapshots", b"whole")

    asyncio.run(scenario())
    assert bodies == [b"whole", b"whole"]


def test_a_handler_gets_path_parameters_query_and_body() -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0)
        return json_response([request.path_params, request.query, request.body.decode()], 201)

    async def scenario() -> None:
        async with serving({("POST", "/snapshots/{name}"): handler}) as port:
            status, _, body = await call(port, "POST", "/snapshots/one?ttl=5&empty=", b"hi")
            assert (status, json.loads(body)) == (201, [{"name": "one"}, {"ttl": "5", "empty": ""}, "hi"])
            assert (await call(port, "GET", "/snapshots/one"))[0] == 405
            assert (await call(port, "GET", "/snapshots/one/two"))[0] == 404

    asyncio.run(scenario())


def test_a_body_over_the_limit_is_413_and_the_server_continues() -> None:
    async def scenario() -> None:
        async with serving({("POST", "/x"): lambda _request: json_response({})}) as port:
            assert (await call(port, "POST", "/x", bytes(BODY_BYTES_MAX + 1)))[0] == 413
            assert (await call(port, "POST", "/x", bytes(BODY_BYTES_MAX)))[0] == 200

    asyncio.run(scenario())


def test_a_handler_that_raises_is_500_and_the_server_continues() -> None:
    def broken(_request: Request) -> Response:
        raise ValueError("boom")

    async def scenario() -> None:
        async with serving({("GET", "/broken"): broken}) as port:
            assert (await call(port, "GET", "/broken"))[0] == 500
            assert (await call(port, "GET", "/broken"))[0] == 500

    asyncio.run(scenario())


def test_foreign_web_pages_and_bodies_without_a_type_change_nothing() -> None:
    done: list[str] = []

    def handler(request: Request) -> Response:
        done.append(request.method)
        return json_response({})

    page = "Origin: https://evil.example"
    fetched = "Sec-Fetch-Site: cross-site"

    async def scenario() -> None:
        async with serving({(method, "/x"): handler for method in ("GET", "POST", "DELETE")}) as port:
            for method in ("GET", "POST", "DELETE", "HEAD", "OPTIONS"):
                for headers, host, named in (
                    ([page], "localhost", "Origin"),
                    ([fetched], f"127.0.0.1:{port}", "Sec-Fetch-Site"),
                    (["X: y"], "rebound.evil.example", "Host"),
                ):
                    status, _, body = await call(port, method, "/x", b"", *headers, host=host)
                    assert status == 403
                    assert method == "HEAD" or json.loads(body)["header"] == named
            for type_of_body in ("X: y", "Content-Type: text/plain", "Content-Type: multipart/form-data"):
                assert (await call(port, "POST", "/x", b"{}", type_of_body))[0] == 415
            assert done == []
            own = f"Origin: http://127.0.0.1:{port}"
            assert (await call(port, "POST", "/x", b"{}", JSON, own, host=f"127.0.0.1:{port}"))[0] == 200
            assert (await call(port, "POST", "/x", b"", "X: y"))[0] == 200
            assert done == ["POST", "POST"]

    asyncio.run(scenario())


def test_every_json_answer_ends_its_line() -> None:
    async def scenario() -> None:
        async with serving(health_routes(lambda: None, Metrics())) as port:
            for path in ("/health/live", "/health/ready", "/nothing"):
                _, headers, body = await call(port, "GET", path)
                assert body.endswith(b"}\n")
                assert int(headers["content-length"]) == len(body)

    asyncio.run(scenario())
