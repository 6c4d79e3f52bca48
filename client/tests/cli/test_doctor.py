"""The problems that doctor finds, and the setting it names: for addresses that do not answer, or belong to another program."""

from __future__ import annotations

import asyncio
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused
from gantrymq.cli import examining
from gantrymq.cli.calls import Calls


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def closed_port() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.anyio
async def test_an_unreachable_gateway_ends_the_checks(closed_port: str) -> None:
    [finding] = await examining.examine(Calls(f"http://{closed_port}", ""))
    assert not finding.is_well
    assert "cannot reach the gateway" in finding.words
    assert "--http or GANTRY_HTTP" in finding.remedy


@pytest.mark.anyio
async def test_a_nameserver_only_the_gateway_can_reach_is_reported(closed_port: str) -> None:
    pool = ConnectionPool()
    [seen], routes = await examining.try_nameservers(pool, [{"address": closed_port, "alive": True}])
    [unseen], _ = await examining.try_nameservers(pool, [{"address": closed_port, "alive": False}])
    await pool.close()
    assert (seen.is_well, routes) == (False, {})
    assert "nameserver.listen" in seen.remedy
    assert "start it, or remove it from gateway.nameservers" in unseen.remedy


@pytest.mark.anyio
async def test_a_broker_at_a_wrong_address_is_reported(closed_port: str) -> None:
    pool = ConnectionPool()
    routes = {"ns:1": {"broker-a": {0: closed_port}}, "ns:2": {}}
    listed = [{"broker": "broker-a", "address": closed_port, "alive": True}]
    found = await examining.try_brokers(pool, ["ns:1", "ns:2"], routes, listed)
    await pool.close()
    assert [(one.part, one.is_well) for one in found] == [("broker-a", False), ("broker-a", False)]
    assert "set broker-a.advertise to a host that clients reach" in found[0].remedy
    assert "ns:2 does not know it" in found[1].words
    assert found[1].remedy == "broker-a.nameservers must name every nameserver"


@pytest.mark.anyio
async def test_another_program_on_the_port_is_reported() -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    pool = ConnectionPool()
    listed = [{"broker": "broker-a", "address": address, "alive": False}]
    [finding] = await examining.try_brokers(pool, [], {}, listed)
    await pool.close()
    server.close()
    await server.wait_closed()
    assert not finding.is_well
    assert "./gantry status shows it" in finding.remedy


@pytest.mark.anyio
async def test_a_port_that_wants_credentials_is_well_and_not_open() -> None:
    async def refuse() -> None:
        raise BrokerRefused(16, "username cannot be null.")

    async def fail() -> None:
        raise BrokerRefused(1, "broken")

    async def answer() -> None:
        pass

    [guarded, failing, opened] = [
        await examining._tried("broker-a", "10.0.0.1:1", do, "fix") for do in (refuse, fail, answer)
    ]
    assert (guarded.is_well, guarded.is_open) == (True, False)
    assert (failing.is_well, failing.words, failing.remedy) == (False, "it refuses: broken", "fix")
    assert (opened.is_well, opened.is_open) == (True, True)


@pytest.mark.parametrize(
    ("opened", "says"),
    [
        ([], "access control: on"),
        (["http://127.0.0.1:8080", "127.0.0.1:9876"], "access control: off; only this machine reaches the ports"),
        (["127.0.0.1:9876"], "access control: off, except for the gateway; only this machine reaches the other ports"),
        (["http://localhost:8080", "[::1]:9876"], "access control: off; only this machine reaches the ports"),
        (
            ["http://127.0.0.1:8080", "10.0.0.1:9876", "mq.example:10911"],
            "access control: off: anyone who reaches 10.0.0.1:9876, mq.example:10911 may read, change and delete everything; ./gantry access init switches it on",
        ),
    ],
)  # fmt: skip
def test_what_is_open_is_said(opened: list[str], says: str) -> None:
    parts = {address: "gateway" if "http" in address else "nameserver" for address in opened}
    findings = [examining.Finding(parts[one], one, True, is_open=True) for one in opened]
    assert examining.exposure([*findings, examining.Finding("broker-a", "10.0.0.2:1", True)]) == says


def test_a_gateway_is_open_if_it_answers_without_the_credentials_of_the_call() -> None:
    seen: list[str | None] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("authorization"))
            self.send_response(200 if seen[-1] else 401)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        calls = Calls(f"http://127.0.0.1:{server.server_address[1]}", "Bearer t")
        try:
            assert calls.status("/v1/topics") == 200
            assert not examining._is_open(calls)
        finally:
            calls.close()
            server.shutdown()
            thread.join()
    assert seen == ["Bearer t", None]
