"""A wildcard address is never advertised."""

import asyncio
import ipaddress
import socket

import pytest

from gantry_chassis.http.server import HttpServer, health_routes
from gantry_chassis.machine.addresses import (
    EVERYWHERE,
    host_and_port,
    joined,
    listening_socket,
    reachable_address,
)
from gantry_chassis.metrics import Metrics
from gantry_chassis.peers.budget import Budget


@pytest.mark.parametrize("listen", sorted(EVERYWHERE))
def test_a_wildcard_listen_address_becomes_one_real_address(listen: str) -> None:
    address = ipaddress.ip_address(reachable_address(listen))
    assert not address.is_unspecified


def test_a_named_address_stays_as_it_is() -> None:
    assert reachable_address("127.0.0.1") == "127.0.0.1"
    assert reachable_address("mq.example") == "mq.example"


def test_an_ipv6_address_has_brackets_before_its_port() -> None:
    assert joined("::1", 80) == "[::1]:80"
    assert joined("127.0.0.1", 80) == "127.0.0.1:80"
    assert joined("mq.example", 80) == "mq.example:80"


@pytest.mark.parametrize(
    ("listen", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("localhost", "localhost"),
        ("::", "::1"),
        ("::", "127.0.0.1"),
    ],
)
def test_health_is_served_at_every_kind_of_address(listen: str, host: str) -> None:
    async def scenario() -> None:
        server = HttpServer(listen, 0, health_routes(lambda: None, Metrics()), Budget())
        port = await server.start()
        reader, writer = await asyncio.open_connection(host, port)
        head = f"GET /health/ready HTTP/1.1\r\nHost: {joined(host, port)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        assert (await asyncio.wait_for(reader.read(), 60)).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
        await server.close()

    asyncio.run(scenario())


def test_a_taken_port_is_reported_and_leaves_no_socket() -> None:
    with listening_socket("::1", 0, backlog=1) as first:
        with pytest.raises(OSError, match="in use"):
            listening_socket("::1", first.getsockname()[1], backlog=1)
        assert first.family == socket.AF_INET6


@pytest.mark.parametrize(
    ("text", "port", "expected"),
    [
        ("mq.example:443", 0, ("mq.example", 443)),
        ("mq.example", 8081, ("mq.example", 8081)),
        ("[::1]:99", 0, ("::1", 99)),
        ("[::1]", 5, ("::1", 5)),
        ("::1", 5, ("::1", 5)),
    ],
)
def test_host_and_port_are_taken_apart(text, port, expected):
    assert host_and_port(text, port) == expected


@pytest.mark.parametrize("text", ["", ":80", "a", "a:b", "a:0", "a:65536", "[]:1"])
def test_what_is_no_host_and_port(text):
    with pytest.raises(ValueError, match="host:port"):
        host_and_port(text)
