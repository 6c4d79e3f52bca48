"""The problems that doctor finds, and the setting it names: for addresses that do not answer, or belong to another program."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gantry_link.connections.pool import ConnectionPool
from gantrymq.cli import examining
from gantrymq.cli.calls import Calls

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def closed_port() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


async def test_an_unreachable_gateway_ends_the_checks(closed_port: str) -> None:
    [finding] = await examining.examine(Calls(f"http://{closed_port}", None))
    assert not finding.is_well
    assert "cannot reach the gateway" in finding.words
    assert "--http or GANTRY_HTTP" in finding.remedy


async def test_a_nameserver_only_the_gateway_can_reach_is_reported(closed_port: str) -> None:
    pool = ConnectionPool()
    [seen], routes = await examining.try_nameservers(pool, [{"address": closed_port, "alive": True}])
    [unseen], _ = await examining.try_nameservers(pool, [{"address": closed_port, "alive": False}])
    await pool.close()
    assert (seen.is_well, routes) == (False, {})
    assert "nameserver.listen" in seen.remedy
    assert "start it, or remove it from gateway.nameservers" in unseen.remedy


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
