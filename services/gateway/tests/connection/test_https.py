"""HTTPS and HTTP on one port: the gateway's own server, and the small one of the other services."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import httpx
import pytest

from gantry_chassis.certificates import ServerCertificate
from gantry_chassis.http.ask_health import is_ready
from gantry_chassis.http.server import HttpServer as SmallServer
from gantry_chassis.http.server import Response
from gantry_chassis.machine.environment import machine
from gantry_chassis.peers.budget import Budget, BudgetLimits
from gantry_chassis.settings.tls import TlsSettings
from gantry_link.serving.tls_door import TlsDoor
from gateway.connection.serving import HttpServer

pytestmark = pytest.mark.anyio


def certificate(folder, authority, mode):
    pair = authority.issue(["127.0.0.1", "localhost"])
    (folder / "server.pem").write_bytes(pair.certificate + pair.key)
    return ServerCertificate(
        TlsSettings(tls_mode=mode, tls_cert_file=str(folder / "server.pem")), machine().wall
    )


def trusting(authority):
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextlib.asynccontextmanager
async def gateway_server(system, budget, door):
    gateway = system.gateway()
    http = HttpServer(gateway.app, gateway.fast_path, budget, drain_seconds=2)
    try:
        yield await http.start("127.0.0.1", 0, reuse_port=False, door=door)
    finally:
        gateway.drain()
        await http.close()


@contextlib.asynccontextmanager
async def small_server(_system, budget, door):
    routes = {
        ("GET", path): lambda _request: Response(200, b"{}") for path in ("/health/live", "/health/ready")
    }
    http = SmallServer("127.0.0.1", 0, routes, budget)
    try:
        yield await http.start(door)
    finally:
        await http.close()


@pytest.fixture(params=[gateway_server, small_server])
def serve(request, system):
    return lambda budget, door: request.param(system, budget, door)


async def status(scheme, port, authority):
    async with httpx.AsyncClient(verify=trusting(authority)) as client:
        answer = await client.get(f"{scheme}://127.0.0.1:{port}/health/live")
    return answer.status_code


async def test_https_and_http_are_served_by_one_port(tmp_path, authority, serve):
    budget = Budget()
    door = TlsDoor(certificate(tmp_path, authority, "permissive"), budget)
    async with serve(budget, door) as port:
        assert await status("https", port, authority) == 200
        assert await status("http", port, authority) == 200
        assert not budget.refusals


async def test_enforcing_closes_http(tmp_path, authority, serve):
    budget = Budget()
    door = TlsDoor(certificate(tmp_path, authority, "enforcing"), budget)
    async with serve(budget, door) as port:
        assert await status("https", port, authority) == 200
        with pytest.raises(httpx.TransportError):
            await status("http", port, authority)
        assert budget.refusals == {"plain": 1}


@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
async def test_containers_can_ask_for_health_in_every_mode(tmp_path, authority, system, mode):
    budget = Budget()
    async with small_server(system, budget, TlsDoor(certificate(tmp_path, authority, mode), budget)) as port:
        assert await asyncio.to_thread(is_ready, port)
    assert not await asyncio.to_thread(is_ready, port)


async def test_containers_show_the_certificate_of_their_service_where_it_is_demanded(
    tmp_path, authority, system, monkeypatch
):
    pairs = authority.issue(["localhost"]), authority.issue(["store"], is_client=True)
    for name, pair in zip(("server.pem", "client.pem"), pairs, strict=True):
        (tmp_path / name).write_bytes(pair.certificate + pair.key)
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    settings = TlsSettings(
        tls_mode="enforcing",
        tls_cert_file=str(tmp_path / "server.pem"),
        tls_client_ca_file=str(tmp_path / "ca.pem"),
        tls_client_auth="require",
    )
    budget = Budget()
    door = TlsDoor(ServerCertificate(settings, machine().wall), budget)
    async with small_server(system, budget, door) as port:
        assert not await asyncio.to_thread(is_ready, port)
        monkeypatch.setenv("BROKER_STORE_TLS_CLIENT_CERT_FILE", str(tmp_path / "client.pem"))
        assert await asyncio.to_thread(is_ready, port)


async def test_a_plain_port_closes_https(authority, serve):
    budget = Budget()
    async with serve(budget, None) as port:
        with pytest.raises(httpx.TransportError):
            await status("https", port, authority)
        assert budget.refusals == {"tls": 1}
        assert await status("http", port, authority) == 200


async def test_requests_in_one_tls_connection_are_answered_in_order(tmp_path, authority, system):
    budget = Budget()
    door = TlsDoor(certificate(tmp_path, authority, "enforcing"), budget)
    async with gateway_server(system, budget, door) as port:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trusting(authority), server_hostname="localhost"
        )
        for number in range(20):
            writer.write(
                b"GET /nothing/%d HTTP/1.1\r\nhost: localhost\r\nx-request-id: n-%d\r\n\r\n"
                % (number, number)
            )
        async with asyncio.timeout(60):
            for number in range(20):
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                assert b"x-request-id: n-%d\r\n" % number in head
                await reader.readexactly(length)
        writer.close()
        await writer.wait_closed()


async def test_a_port_that_has_no_descriptor_left_closes_the_connection(tmp_path, authority, serve):
    budget = Budget(BudgetLimits(descriptors_max=-100))
    door = TlsDoor(certificate(tmp_path, authority, "permissive"), budget)
    async with serve(budget, door) as port:
        with pytest.raises(httpx.TransportError):
            await status("http", port, authority)
        assert budget.refusals["descriptors"] == 1


async def test_half_open_handshakes_of_one_address_hold_no_more_than_it_may(tmp_path, authority, serve):
    budget = Budget(BudgetLimits(address_bytes_max=300_000))
    door = TlsDoor(certificate(tmp_path, authority, "permissive"), budget)
    async with serve(budget, door) as port, contextlib.AsyncExitStack() as stack:
        for _ in range(10):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
            writer.write(b"\x16\x03\x01")
        async with asyncio.timeout(60):
            while budget.refusals["hoarding"] < 6:
                await asyncio.sleep(0.01)
        assert budget.held <= 300_000
        assert await status("https", port, authority) == 200


async def test_closing_ends_unfinished_handshakes(tmp_path, authority, serve):
    budget = Budget()
    door = TlsDoor(certificate(tmp_path, authority, "permissive"), budget)
    async with serve(budget, door) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16")
        await asyncio.sleep(0.05)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
